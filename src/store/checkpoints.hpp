// The checkpoints of a store: which there are, which to take, which to remove.
//
//     Result<std::vector<CheckpointInfo>> infos = list_checkpoints(files, root);      // newest first
//     prune_checkpoints(files, root, 3);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/files.hpp"
#include "store/manifest.hpp"

namespace twinpod::store {

struct CheckpointInfo {
  std::string name;
  std::int64_t number = 0;
  bool complete = false;   // the manifest is good and every shard is there in its length
  bool abandoned = false;  // there is no manifest: a save that never ended, or one that is going on
  std::string problem;     // why it is not complete
  std::int64_t step = 0;   // these three only when the manifest is good
  std::int64_t bytes = 0;
  std::int64_t num_shards = 0;
};

// Newest first. What has no name of a checkpoint is passed over. No folder, no checkpoints.
Result<std::vector<CheckpointInfo>> list_checkpoints(Files& files, const std::string& root);

// The newest of which every byte is as it was written; reads all of it. Older ones are tried when it is not.
struct WholeCheckpoint {
  std::string name;
  Manifest manifest;
  std::vector<std::string> passed_over;  // newer ones, and why
};
Result<WholeCheckpoint> newest_whole(Files& files, const std::string& root);

// The manifest goes first, so that half a checkpoint is never taken for one.
Result<void> remove_checkpoint(Files& files, const std::string& root, const std::string& name);

// All checkpoints, `latest`, and the folder if nothing else is in it.
Result<void> remove_store(Files& files, const std::string& root);

// What pruning keeps.
struct PruneRule {
  int keep = 1;                    // the newest so many that are complete; less than 1 keeps one
  std::int64_t every = 0;          // and all complete ones whose step this divides; 0: no others
  std::int64_t below = INT64_MAX;  // only what has a smaller number is removed
  std::string whole = {};          // one that is never removed: the newest of which every byte was checked
};

// Names, newest first. Abandoned ones go when a newer one is complete. One that cannot be read is not counted, and
// stays while it is newer than the oldest that is kept.
std::vector<std::string> checkpoints_to_remove(const std::vector<CheckpointInfo>& infos, const PruneRule& rule);

// Returns how many were removed. A save may be going on.
Result<int> prune_checkpoints(Files& files, const std::string& root, const PruneRule& rule);
Result<int> prune_checkpoints(Files& files, const std::string& root, int keep, std::int64_t below = INT64_MAX);

}  // namespace twinpod::store
