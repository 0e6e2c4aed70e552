// Saving a checkpoint: many ranks write shards, one rank commits.
//
//     const std::string name = begin_checkpoint(files, root).value();                            // one rank, for all
//     Manifest part = write_shard(files, root + "/" + name, shard_file(rank), regions).value();  // each rank
//     Manifest all = joined_manifest(parts).value();                                             // one rank, of all
//     parts all.state = {.step = 200, ...}; commit_checkpoint(files, root, name, std::move(all)); // now it counts
//
// The rule: write, sync, rename, sync the folder; the manifest last; `latest` after that. A checkpoint is the folder's
// manifest: before that is durable there is none, and the older ones are as they were. After an error a save is given
// up, never continued: what a failed sync left out is not known. The next one has a folder of its own.
//
// One job at a time saves to a store: lock.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "store/files.hpp"
#include "store/manifest.hpp"

namespace twinpod::store {

// What a rank holds of a tensor, in row-major order of the region.
struct HeldRegion {
  std::string tensor;
  std::string dtype;  // safetensors' name
  Dims shape;         // of the whole tensor
  Region region;
  std::span<const std::byte> bytes;
};

inline constexpr std::string_view kManifestFile = "manifest.json";
inline constexpr std::string_view kLatestFile = "latest";

// "shard-00003.safetensors".
std::string shard_file(int rank);
// Whether a save gives a file in a checkpoint's folder this name, for good or while it is written.
bool is_name_of_save(const std::string& name);
// "checkpoint-000012", and back; -1: no name of a checkpoint.
std::string checkpoint_name(std::int64_t number);
std::int64_t checkpoint_number(const std::string& name);

// The names in a store's folder, which is made with its parents when it is not there. It is durable then: a process
// before may have been killed when it had made it.
Result<std::vector<std::string>> open_store(Files& files, const std::string& root);

// A folder for a new checkpoint, with a number above all in `root` and at least `least_number`; returns its name.
Result<std::string> begin_checkpoint(Files& files, const std::string& root, std::int64_t least_number = 1);

// The same for ranks that know its name: whoever comes first makes the folder, the others find it. Its name is durable
// only when the one who commits has synced `root`.
Result<void> enter_checkpoint(Files& files, const std::string& root, const std::string& name);

// Durable when it returns. The manifest has this one shard.
Result<Manifest> write_shard(Files& files, const std::string& folder, const std::string& file,
                             const std::vector<HeldRegion>& regions, std::int64_t extent_bytes = kExtentBytes);

// REQUIRES: all shards of the manifest are durable. Its number is set to that of the name.
Result<void> commit_checkpoint(Files& files, const std::string& root, const std::string& name, Manifest manifest);

// Makes `latest` name this one, durably. REQUIRES: it is durable itself.
Result<void> move_latest(Files& files, const std::string& root, const std::string& name);

// What `latest` names; "" when there is none.
Result<std::string> latest_name(Files& files, const std::string& root);

// Which of its regions each rank should write: equal ones only once, as many bytes as possible by each. Every rank
// finds the same from the regions of all; their `bytes` are not looked at.
std::vector<std::vector<std::size_t>> regions_to_write(const std::vector<std::vector<HeldRegion>>& of_ranks);

}  // namespace twinpod::store
