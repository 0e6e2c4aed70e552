// When a run is saved, and to where. `train` does it for real (docs/store.md).
#pragma once

#include <string>
#include <vector>

namespace twinpod::spec {

enum class TierKind {
  memory,  // of the host: a folder in /dev/shm, which outlives the ranks
  peer,    // memory of another host
  local,   // a folder on a disk of the host
  shared,  // a folder that all hosts see
  object,  // an object store
};

enum class OnError { go_on, stop };

struct CheckpointTier {
  TierKind kind = TierKind::shared;
  std::string path;
  int every = 1;  // takes each n-th checkpoint
  int keep = 0;   // so many; 0: as the section says
};

struct Checkpoint {
  int every = 0;                      // steps; 0: at the end only
  int keep = 2;                       // checkpoints
  std::vector<CheckpointTier> store;  // fastest first; empty: nothing is saved
  OnError on_error = OnError::go_on;
};

}  // namespace twinpod::spec
