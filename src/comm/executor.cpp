// A schedule of `collective`, sent as messages: what is simulated is what runs, on any transport.
#include <cstring>
#include <deque>
#include <span>

#include "comm/reduce.hpp"
#include "comm/world.hpp"

namespace twinpod::comm {
namespace {

using collective::Action;
using collective::ActionKind;
using collective::Buffer;
using collective::Schedule;
using Verb = collective::Verb;

struct Buffers {
  std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::vector<std::byte> whole = {};  // a copy of the whole buffer, where the caller's must not be changed
  std::vector<std::byte> scratch = {};
};

struct Execution {
  Communicator& communicator;
  const Schedule& schedule;
  const Call& call;
  Buffers& buffers;

  // Chunks divide each part alike, as evenly as whole elements allow.
  std::size_t offset(int chunk) const {
    const auto per_part = static_cast<std::size_t>(std::max(1, collective::part_chunks(schedule)));
    const auto c = static_cast<std::size_t>(chunk);
    return (c / per_part * call.count + c % per_part * call.count / per_part) * size_of(call.type);
  }
  std::byte* at(Buffer buffer, int chunk) const {
    if (buffer == Buffer::scratch) return buffers.scratch.data() + scratch_offset(chunk);
    return (buffer == Buffer::input ? buffers.input : buffers.output) + offset(chunk);
  }
  std::size_t scratch_offset(int chunk) const {
    return static_cast<std::size_t>(chunk) * call.count * size_of(call.type);
  }
  std::size_t bytes(Buffer buffer, int chunk, int count) const {
    if (buffer == Buffer::scratch) return scratch_offset(count);
    return offset(chunk + count) - offset(chunk);
  }
};

void combine(const Execution& execution, std::byte* target, const std::byte* source, std::size_t bytes, bool adds) {
  if (bytes == 0) return;
  if (!adds) {
    if (target != source) std::memmove(target, source, bytes);
    return;
  }
  const void* const sources[] = {target, source};
  void* const targets[] = {target};
  reduce({execution.call.type, execution.call.op, 1}, sources, targets, bytes / size_of(execution.call.type));
}

void fill(Message& message, const Execution& execution, int member, bool sends, std::byte* data, std::size_t bytes) {
  const Communicator& communicator = execution.communicator;
  message.sends = sends;
  message.peer = communicator.members[static_cast<std::size_t>(member)];
  message.context = kCollectiveContext | communicator.group;
  message.tag = static_cast<int>(communicator.sequence & static_cast<std::uint32_t>(kMaxTag));
  message.data = data;
  message.bytes = bytes;
}

// Messages of a round. A receive that adds goes into memory of its own first.
struct Posted {
  Message message;
  const Action* action = nullptr;
  std::vector<std::byte> arrived = {};
};

void post_round(const Execution& execution, std::span<const Action> actions, std::deque<Posted>& posted) {
  const Transport& transport = execution.communicator.world->transport;
  for (const Action& action : actions) {
    std::byte* const data = execution.at(action.buffer, action.chunk);
    const std::size_t bytes = execution.bytes(action.buffer, action.chunk, action.count);
    if (action.kind == ActionKind::local) {
      combine(execution, execution.at(action.target, action.target_chunk), data, bytes, action.reduce);
      continue;
    }
    if (bytes == 0 && execution.call.verb != Verb::barrier) continue;
    Posted& one = posted.emplace_back();
    one.action = &action;
    const bool receives = action.kind == ActionKind::receive;
    if (receives && action.reduce) one.arrived.resize(bytes);
    fill(one.message, execution, action.peer, !receives, receives && action.reduce ? one.arrived.data() : data, bytes);
    transport.post(transport.state, one.message);
  }
}

// In the order of the schedule, so that sums have the same bits in every run.
Waited finish_round(const Execution& execution, std::deque<Posted>& posted) {
  Communicator& communicator = execution.communicator;
  Waited waited = Waited::reached;
  for (Posted& one : posted) {
    if (waited == Waited::reached) waited = wait_for_message(*communicator.world, one.message, &communicator);
    if (waited != Waited::reached) {
      if (!one.message.done) communicator.world->transport.take_back(communicator.world->transport.state, one.message);
      continue;
    }
    if (!one.message.sends && one.message.arrived != one.message.bytes) waited = Waited::mismatched;
    if (waited == Waited::reached && !one.arrived.empty()) {
      std::byte* const target = execution.at(one.action->buffer, one.action->chunk);
      combine(execution, target, one.arrived.data(), one.arrived.size(), true);
    }
  }
  return waited;
}

Waited run_rounds(const Execution& execution) {
  const std::vector<Action> actions = collective::actions_of(execution.schedule, execution.communicator.rank);
  for (std::size_t first = 0; first < actions.size();) {
    std::size_t last = first;
    while (last < actions.size() && actions[last].round == actions[first].round) ++last;
    std::deque<Posted> posted;
    post_round(execution, {actions.data() + first, last - first}, posted);
    if (const Waited waited = finish_round(execution, posted); waited != Waited::reached) return waited;
    first = last;
  }
  return Waited::reached;
}

// Lays the input where the schedule expects it. Schedules work in place, so what must survive is copied.
void prepare(const Communicator& communicator, const Call& call, const Schedule& schedule, Buffers& buffers) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const std::size_t part = call.count * size_of(call.type);
  const std::size_t own = static_cast<std::size_t>(communicator.rank) * part;
  const bool is_root = communicator.rank == call.root;
  auto* const output = static_cast<std::byte*>(call.output);
  auto* const input = static_cast<std::byte*>(const_cast<void*>(call.input));  // NOLINT: only read
  buffers.scratch.resize(static_cast<std::size_t>(schedule.scratch_chunks) * part);
  const auto use = [&](std::byte* memory) { buffers.input = buffers.output = memory; };
  const auto use_copy = [&](std::size_t bytes) {
    buffers.whole.resize(bytes);
    use(buffers.whole.data());
  };
  switch (call.verb) {
    case Verb::all_reduce:
      use(output);
      return copy_bytes(output, input, part);
    case Verb::broadcast:
      use(output);
      return is_root ? copy_bytes(output, input, part) : void();
    case Verb::reduce:
      is_root ? use(output) : use_copy(part);
      return copy_bytes(buffers.input, input, part);
    case Verb::all_gather:
      use(output);
      return copy_bytes(output + own, input, part);
    case Verb::gather:
      is_root ? use(output) : use_copy(part * ranks);
      return copy_bytes(buffers.output + own, input, part);
    case Verb::reduce_scatter:
      use_copy(part * ranks);
      return copy_bytes(buffers.input, input, part * ranks);
    case Verb::scatter:
      return is_root ? use(input) : use_copy(part * ranks);
    default:
      break;
  }
  buffers.input = input;
  buffers.output = output;
  if (call.verb == Verb::all_to_all && input == output) {
    buffers.whole.assign(input, input + part * ranks);
    buffers.input = buffers.whole.data();
  }
}

// Carries the result to where the caller wants it, and makes an average of a sum.
void deliver(const Communicator& communicator, const Call& call, const Buffers& buffers) {
  const std::size_t part = call.count * size_of(call.type);
  const std::size_t own = static_cast<std::size_t>(communicator.rank) * part;
  const bool adds = call.verb == Verb::all_reduce || call.verb == Verb::reduce_scatter || call.verb == Verb::reduce;
  if (call.verb == Verb::reduce_scatter || call.verb == Verb::scatter)
    copy_bytes(call.output, buffers.input + own, part);
  if (!adds || call.op != ReduceOp::average || call.count == 0) return;
  if (call.verb == Verb::reduce && communicator.rank != call.root) return;
  const void* const sources[] = {call.output};
  void* const targets[] = {call.output};
  reduce({call.type, call.op, communicator.size()}, sources, targets, call.count);
}

Result<std::shared_ptr<const Schedule>> schedule_for(Communicator& communicator, const Call& call,
                                                     collective::Algorithm algorithm) {
  collective::Shape shape = call.choice.shape;
  shape.root = call.root;
  shape.peer = call.peer;
  const ScheduleKey key{static_cast<int>(call.verb),
                        static_cast<int>(algorithm),
                        shape.root,
                        shape.peer,
                        shape.ranks_per_node,
                        shape.pieces,
                        shape.torus,
                        shape.split_axes,
                        shape.all_pairs};
  const auto known = communicator.schedules.find(key);
  if (known != communicator.schedules.end()) return known->second;
  Result<Schedule> made = collective::make_schedule(call.verb, algorithm, communicator.size(), shape);
  if (!made) return tl::unexpected(made.error());
  if (made->switches > 0) return input_error("in_network needs a switch that adds up", "ring, tree, ...");
  return communicator.schedules[key] = std::make_shared<const Schedule>(std::move(*made));
}

}  // namespace

Result<void> run_scheduled(Communicator& communicator, const Call& call, collective::Algorithm algorithm,
                           std::uint64_t signature, Waited& waited) {
  const Result<std::shared_ptr<const Schedule>> schedule = schedule_for(communicator, call, algorithm);
  if (!schedule) return tl::unexpected(schedule.error());
  if (communicator.world->local) {
    waited = enter(communicator, signature);
    if (waited != Waited::reached) return {};
    publish(entry_of(communicator, communicator.rank).word, communicator.sequence);
  } else {
    ++communicator.sequence;
  }
  Buffers buffers;
  prepare(communicator, call, **schedule, buffers);
  waited = run_rounds({communicator, **schedule, call, buffers});
  if (waited == Waited::reached) deliver(communicator, call, buffers);
  return {};
}

}  // namespace twinpod::comm
