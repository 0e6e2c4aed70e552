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
  bool complete = false;           // the manifest is good and every shard is there in its length
  bool abandoned = false;          // there is no manifest: a save that never ended, or one that is going on
  bool damaged = false;            // there is one, but it or a shard is not as it was written
  std::int64_t other_version = 0;  // of the format, that we do not know
  std::string problem;             // why it is not complete; it may also be one that cannot be read just now
  std::int64_t step = 0;           // these three only when the manifest is good
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

// Refused, with the versions, when a checkpoint is of another version of the format: whoever writes here, and prunes,
// must know all that there is.
Result<void> check_versions(const std::string& root, const std::vector<CheckpointInfo>& infos);

// The manifest goes first, so that half a checkpoint is never taken for one. What no save wrote stays, and its folder.
Result<void> remove_checkpoint(Files& files, const std::string& root, const std::string& name);

// After a save that failed: what it wrote takes room that the next one needs. One with a manifest stays.
Result<void> drop_unfinished(Files& files, const std::string& root, const std::string& name);

// The same of all saves that did not end. REQUIRES: nobody else saves here (lock.hpp).
Result<void> clear_unfinished(Files& files, const std::string& root);

// Damaged checkpoints are never removed by themselves: they are renamed when pruning would remove them.
// "damaged-000012", and back; -1: no such name.
std::string damaged_name(std::int64_t number);
std::int64_t damaged_number(const std::string& name);
Result<std::vector<std::string>> list_set_aside(Files& files, const std::string& root);
Result<void> remove_set_aside(Files& files, const std::string& root, const std::string& name);

// The largest that a name in a store has; 0: none has one.
std::int64_t highest_number(const std::vector<std::string>& names);

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
// stays; a damaged one is set aside when it is older than the oldest that is kept.
struct PrunePlan {
  std::vector<std::string> removed;
  std::vector<std::string> set_aside;
};
PrunePlan plan_pruning(const std::vector<CheckpointInfo>& infos, const PruneRule& rule);

// What was done. A save may be going on. One that cannot be removed is no reason to keep the others. Where there is no
// rename, nothing is set aside: it stays as it is.
Result<PrunePlan> prune_checkpoints(Files& files, const std::string& root, const PruneRule& rule);
// How many were removed.
Result<int> prune_checkpoints(Files& files, const std::string& root, int keep, std::int64_t below = INT64_MAX);

}  // namespace twinpod::store
