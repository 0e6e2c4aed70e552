#include <fmt/format.h>

#include <cstring>

#include "comm/handle.hpp"
#include "comm/world.hpp"

namespace twinpod::comm {
namespace {

bool is_fit(const Communicator& communicator, int peer, int tag, const void* data, std::size_t bytes) {
  return peer >= 0 && peer < communicator.size() && tag >= 0 && tag <= kMaxTag && (data != nullptr || bytes == 0);
}

// Why it is not fit. Apart, because making a Result takes as long as a good part of a short message.
tl::unexpected<Error> refusal(const Communicator& communicator, int peer, int tag, std::size_t bytes) {
  if (peer < 0 || peer >= communicator.size()) {
    return input_error(fmt::format("rank {} is none of the {} ranks of the group", peer, communicator.size()));
  }
  if (tag < 0 || tag > kMaxTag) return input_error(fmt::format("tag {}: expected 0 to {}", tag, kMaxTag));
  return input_error(fmt::format("a message of {} bytes has no buffer", bytes));
}

void fill(Message& message, const Communicator& communicator, bool sends, void* data, std::size_t bytes, int peer,
          int tag) {
  message.sends = sends;
  message.peer = communicator.members[static_cast<std::size_t>(peer)];
  message.context = communicator.group;
  message.tag = tag;
  message.data = data;
  message.bytes = bytes;
}

Operation operation_of(const Message& message) {
  return {.group = static_cast<std::uint32_t>(message.context),
          .verb = Verb::send,
          .receives = !message.sends,
          .peer = message.peer,
          .tag = message.tag,
          .bytes = message.bytes};
}

tl::unexpected<Error> too_long(const Message& message) {
  return infeasible(fmt::format("a message of {} bytes came from rank {} with tag {} where {} bytes were expected",
                                message.arrived, message.peer, message.tag, message.bytes));
}

}  // namespace

Result<void> finish_message(World& world, Message& message, std::uint64_t number) {
  const Waited waited = wait_for_message(world, message, nullptr);
  if (waited != Waited::reached) {
    const Error error = failure_of(world, waited);
    world.transport.take_back(world.transport.state, message);
    return tl::unexpected(error);
  }
  end_operation(*world.state, number);
  if (!message.sends && message.arrived > message.bytes) return too_long(message);
  Result<void> done;  // not {}, which would first clear the room of an Error
  return done;
}

Result<void> send(Communicator& communicator, const void* data, std::size_t bytes, int to, int tag) {
  if (!is_fit(communicator, to, tag, data, bytes)) return refusal(communicator, to, tag, bytes);
  World& world = *communicator.world;
  Message message;
  fill(message, communicator, true, const_cast<void*>(data), bytes, to, tag);  // NOLINT: only read
  message.awaited = true;
  const std::uint64_t number = begin_operation(*world.state, operation_of(message));
  world.transport.post(world.transport.state, message);
  return finish_message(world, message, number);
}

Result<std::size_t> receive(Communicator& communicator, void* data, std::size_t bytes, int from, int tag) {
  if (!is_fit(communicator, from, tag, data, bytes)) return refusal(communicator, from, tag, bytes);
  World& world = *communicator.world;
  Message message;
  fill(message, communicator, false, data, bytes, from, tag);
  const std::uint64_t number = begin_operation(*world.state, operation_of(message));
  world.transport.post(world.transport.state, message);
  if (Result<void> done = finish_message(world, message, number); !done) return tl::unexpected(done.error());
  return message.arrived;
}

namespace {

Handle started(Communicator& communicator, bool sends, void* data, std::size_t bytes, int peer, int tag) {
  auto state = std::make_shared<Handle::State>();
  state->world = communicator.world;
  state->message = std::make_unique<Message>();
  fill(*state->message, communicator, sends, data, bytes, peer, tag);
  state->number = begin_operation(*communicator.world->state, operation_of(*state->message));
  communicator.world->transport.post(communicator.world->transport.state, *state->message);
  return Handle(std::move(state));
}

}  // namespace

Result<Handle> start_send(Communicator& communicator, const void* data, std::size_t bytes, int to, int tag) {
  if (!is_fit(communicator, to, tag, data, bytes)) return refusal(communicator, to, tag, bytes);
  return started(communicator, true, const_cast<void*>(data), bytes, to, tag);  // NOLINT: only read
}

Result<Handle> start_receive(Communicator& communicator, void* data, std::size_t bytes, int from, int tag) {
  if (!is_fit(communicator, from, tag, data, bytes)) return refusal(communicator, from, tag, bytes);
  return started(communicator, false, data, bytes, from, tag);
}

}  // namespace twinpod::comm
