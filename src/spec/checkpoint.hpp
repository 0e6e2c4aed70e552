// When checkpoints are saved, and where to: the tiers, the fastest first.
//
//     checkpoint:
//       every: 200
//       store:
//         - {tier: memory, keep: 1}
//         - {tier: shared, path: /nfs/runs/a, every: 5, keep: 3}
//
// `train` saves there, `simulate` says what it costs.
#pragma once

#include <string>
#include <vector>

namespace twinpod::spec {

enum class StoreTier {
  memory,  // of the rank's host
  peer,    // memory of another host
  local,   // disk of the host
  shared,  // file system of the whole cluster
  object,  // object store
};
inline constexpr int kNumStoreTiers = 5;

// What training does when a tier fails.
enum class OnError { go_on, stop };

struct CheckpointTier {
  StoreTier tier = StoreTier::shared;
  std::string path = {};  // folder, or the object store's prefix
  int every = 1;          // takes every so-manieth checkpoint
  int keep = 2;           // so many of them stay
};

struct Checkpoint {
  int every = 0;                           // steps; 0: none
  std::vector<CheckpointTier> store = {};  // empty: not said; a folder alone is a tier `shared`
  OnError on_error = OnError::go_on;
};

}  // namespace twinpod::spec
