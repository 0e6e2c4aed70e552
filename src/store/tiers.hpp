// Tiers: places that hold the same checkpoints, the fastest first. Memory, a local disk, a shared one, an object store.
//
//     MemoryFiles memory;
//     PosixFiles disk;
//     const std::vector<Tier> tiers = {{.name = "memory", .files = &memory, .root = "/run", .keep = 1},
//                                      {.name = "shared", .files = &disk, .root = "/nfs/run", .every = 5, .keep = 3}};
//     ... save to tiers[0] ...
//     copy_checkpoint(tiers[0], tiers[1], name);
//     Result<FoundOnTier> found = newest_on_tiers(tiers);
//
// A tier is a Files and a folder in it; anything that can be a Files can be a tier. The memory of a peer belongs to
// whoever has a transport (train/checkpoint_peer.hpp). A checkpoint has the same name on every tier.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "store/files.hpp"
#include "store/manifest.hpp"

namespace twinpod::store {

// What training does when a tier fails.
enum class OnError {
  go_on,  // with the other tiers, and say so
  stop,
};

struct Tier {
  std::string name;
  Files* files = nullptr;  // not owned
  std::string root;
  int every = 1;  // takes checkpoints whose number this divides
  int keep = 2;   // how many
  OnError on_error = OnError::go_on;
};

// Called after each part of a copy with its bytes; false ends the copy, with an error.
using OnProgress = std::function<bool(std::int64_t bytes)>;

// By the commit rule of save.hpp; every byte is checked on its way. Bytes copied; 0 when it is there already. What an
// earlier attempt left there is removed.
Result<std::int64_t> copy_checkpoint(const Tier& from, const Tier& to, const std::string& name,
                                     const OnProgress& progress = {});

struct FoundOnTier {
  std::size_t tier = 0;
  std::string name;
  Manifest manifest;
  std::vector<std::string> passed_over;  // newer ones and faster tiers, and why
};

// The newest checkpoint that is whole on some tier, from the fastest tier that has it whole. Reads all of it. A tier
// that cannot be read is passed over. Refused when another tier has a different checkpoint of that name: two runs have
// saved to these tiers, and nobody can say which of them is meant.
Result<FoundOnTier> newest_on_tiers(const std::vector<Tier>& tiers);

// A number for the next checkpoint that no tier has yet.
Result<std::int64_t> next_number(const std::vector<Tier>& tiers);

}  // namespace twinpod::store
