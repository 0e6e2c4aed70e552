// Which checkpoint a user means: `runs/a` for the newest of a store, `runs/a/checkpoint-000012` for this one.
//
//     Result<PickedCheckpoint> picked = pick_checkpoint("runs/a", 200);       // the one of step 200
//     picked->folder(); picked->manifest.state.step;
//
// What is not there is refused with the nearest that is.
#pragma once

#include <optional>
#include <string>

#include "store/checkpoints.hpp"
#include "store/open_files.hpp"

namespace twinpod::store {

// A store that is there. `checkpoint` is set when the address was that of one of its checkpoints.
struct ExistingStore {
  OpenedStore store;
  std::string checkpoint;
};
Result<ExistingStore> open_existing(const std::string& address);

struct PickedCheckpoint {
  OpenedStore store;
  std::string name;
  Manifest manifest;
  std::string folder() const { return store.root + "/" + name; }
  std::string address() const { return store.address + "/" + name; }  // for messages
};
// Without a step: the one that was named, or the newest that is complete.
Result<PickedCheckpoint> pick_checkpoint(const std::string& address, std::optional<std::int64_t> step = std::nullopt);

}  // namespace twinpod::store
