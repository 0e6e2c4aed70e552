// A rank's parameters and optimizer state as regions of a checkpoint's tensors: what it saves, and how it loads.
//
//     Saver saver(world, settings, regions_held(rank), number);
//     Result<Resumed> resumed = resume(rank, settings.resume_from, facts);
//
// A rank loads what it holds and nothing else, whatever layout the checkpoint was saved on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/save.hpp"
#include "store/tiers.hpp"
#include "train/checkpoint_peer.hpp"
#include "train/checkpoint_state.hpp"
#include "train/rank.hpp"

namespace twinpod::train {

// What this rank writes, with its live bytes.
template <typename T>
std::vector<store::HeldRegion> regions_held(Rank<T>& rank);

// Parameters and optimizer state from a checkpoint.
template <typename T>
Result<void> load(Rank<T>& rank, store::Files& files, const std::string& folder, const store::Manifest& manifest);

struct Resumed {
  Position position;
  std::string checkpoint;                // its folder
  std::vector<std::string> passed_over;  // newer ones, and why; on rank 0
  std::optional<Error> refused;          // the same on every rank; what stands above is not there then
};

// All ranks: the newest checkpoint of the tiers, or in the memory of peers, that all of them can load. One of another
// run is refused.
template <typename T>
Result<Resumed> resume(Rank<T>& rank, const std::vector<store::Tier>& tiers, const Values& facts,
                       const PeerSettings& peer = {});

}  // namespace twinpod::train
