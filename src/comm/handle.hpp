// What a Handle holds: a message, or a collective that the communicator's worker carries out.
#pragma once

#include <atomic>
#include <memory>

#include "comm/communicator.hpp"
#include "comm/world.hpp"

namespace twinpod::comm {

struct Handle::State {
  World* world = nullptr;
  std::unique_ptr<Message> message = nullptr;  // point-to-point
  std::uint64_t number = 0;                    // of its operation
  WaitWord finished;                           // collective: 1 when the worker is through with it
  Call call = {};
  Result<void> result = {};
  bool waited = false;
};

// Waits for a message and ends its operation.
Result<void> finish_message(World& world, Message& message, std::uint64_t number);

}  // namespace twinpod::comm
