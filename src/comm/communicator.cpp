#include "comm/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "comm/fault.hpp"
#include "comm/mpi_transport.hpp"
#include "comm/reduce.hpp"
#include "comm/world.hpp"

namespace twinpod::comm {
namespace {

bool has_root(Verb verb) {
  return verb == Verb::broadcast || verb == Verb::reduce || verb == Verb::scatter || verb == Verb::gather ||
         verb == Verb::send;
}

Operation operation_of(const Communicator& communicator, const Call& call) {
  return {.group = communicator.group,
          .sequence = communicator.sequence + 1,
          .verb = call.verb,
          .type = call.type,
          .op = call.op,
          .root = call.root,
          .bytes = bytes_of(communicator, call)};
}

bool is_in_place(const Communicator& communicator, const Call& call) {
  const std::size_t own = static_cast<std::size_t>(communicator.rank) * call.count * size_of(call.type);
  const auto* const input = static_cast<const std::byte*>(call.input);
  const auto* const output = static_cast<const std::byte*>(call.output);
  if (call.verb == Verb::all_gather || call.verb == Verb::gather) return input == output + own;
  if (call.verb == Verb::reduce_scatter || call.verb == Verb::scatter) return output == input + own;
  return input == output;
}

// MPI's own collective; false when it has none for this. An average is its sum, divided here.
bool run_native(Communicator& communicator, const Call& call, Waited& waited) {
  const World& world = *communicator.world;
  const std::size_t bytes = call.count * size_of(call.type);
  const bool is_root = communicator.rank == call.root;
  NativeCall native{static_cast<int>(call.verb), call.input, call.output, call.count, call.type, call.op, call.root};
  native.in_place = is_in_place(communicator, call);
  if (call.op == ReduceOp::average) native.op = ReduceOp::sum;
  std::vector<std::byte> part;  // MPI cannot put a part of the sum into the input
  if (call.verb == Verb::reduce_scatter && native.in_place) {
    part.resize(bytes);
    native.output = part.data();
    native.in_place = false;
  }
  Message message;
  if (world.mpi == nullptr || !world.mpi->start(communicator.native, native, message)) return false;
  ++communicator.sequence;
  waited = wait_for_message(*communicator.world, message, nullptr);
  if (waited == Waited::reached && message.arrived == SIZE_MAX) waited = Waited::mismatched;
  if (waited != Waited::reached) return true;
  if (!part.empty()) std::memcpy(call.output, part.data(), bytes);
  const bool has_sum =
      call.verb == Verb::all_reduce || call.verb == Verb::reduce_scatter || (call.verb == Verb::reduce && is_root);
  if (has_sum && call.op == ReduceOp::average && call.count > 0) {
    const void* const sources[] = {call.output};
    void* const targets[] = {call.output};
    reduce({call.type, call.op, communicator.size()}, sources, targets, call.count);
  }
  return true;
}

// A send is between two ranks; the others have nothing to do.
Result<void> run_send(Communicator& communicator, const Call& call) {
  const std::size_t bytes = call.count * size_of(call.type);
  if (communicator.rank == call.root) return send(communicator, call.input, bytes, call.peer, kMaxTag);
  Result<void> done;
  if (communicator.rank != call.peer) return done;
  const Result<std::size_t> received = receive(communicator, call.output, bytes, call.root, kMaxTag);
  if (!received) return tl::unexpected(received.error());
  return done;
}

// Methods that may be refused.
Result<void> carry_out(Communicator& communicator, const Call& call, Pick pick, Waited& waited) {
  if (pick.method != Method::native) {
    return run_scheduled(communicator, call, pick.algorithm, signature_of(call, pick.method), waited);
  }
  if (run_native(communicator, call, waited)) return {};
  return input_error(
      fmt::format("MPI has no {} of {} with {}", name_of(call.verb), name_of(call.type), name_of(call.op)),
      "another algorithm");
}

// What most calls are, so that they need not be looked at any closer.
bool is_plain(const Communicator& communicator, const Call& call) {
  const auto is_rank = [&](int rank) { return rank >= 0 && rank < communicator.size(); };
  return call.input != nullptr && call.output != nullptr && is_rank(call.root) &&
         (call.verb != Verb::send || (is_rank(call.peer) && call.peer != call.root)) &&
         call.choice.method == Method::automatic;
}

}  // namespace

int rank_of(const Communicator& communicator) { return communicator.rank; }
int size_of(const Communicator& communicator) { return communicator.size(); }

bool is_divided(Verb verb) {
  return verb == Verb::reduce_scatter || verb == Verb::all_gather || verb == Verb::scatter || verb == Verb::gather ||
         verb == Verb::all_to_all;
}

std::size_t bytes_of(const Communicator& communicator, const Call& call) {
  const std::size_t bytes = call.count * size_of(call.type);
  return is_divided(call.verb) ? bytes * communicator.members.size() : bytes;
}

std::uint64_t signature_of(const Call& call, Method method) {
  constexpr std::uint64_t kLongest = (std::uint64_t{1} << 36U) - 1;
  // How a large collective gets at the buffers is found out together.
  if (method == Method::mapped || method == Method::remote) method = Method::staged;
  // Who only moves bytes may call them what they like.
  const bool adds = call.verb == Verb::reduce || call.verb == Verb::all_reduce || call.verb == Verb::reduce_scatter;
  std::uint64_t length = adds ? call.count : call.count * size_of(call.type);
  if (call.verb == Verb::barrier) length = 0;
  std::uint64_t signature = static_cast<std::uint64_t>(call.verb);
  signature = signature << 3U | static_cast<std::uint64_t>(adds ? call.type : ElementType::f32);
  signature = signature << 3U | static_cast<std::uint64_t>(adds ? call.op : ReduceOp::sum);
  signature = signature << 5U | static_cast<std::uint64_t>(method);
  signature = signature << 13U | static_cast<std::uint64_t>(has_root(call.verb) ? call.root : 0);
  return signature << 36U | std::min<std::uint64_t>(length, kLongest);
}

Result<void> check(const Communicator& communicator, const Call& call) {
  const int ranks = communicator.size();
  if (has_root(call.verb) && (call.root < 0 || call.root >= ranks)) {
    return input_error(fmt::format("{}: root {} is no rank of a group of {}", name_of(call.verb), call.root, ranks),
                       fmt::format("a root from 0 to {}", ranks - 1));
  }
  if (call.verb == Verb::send && (call.peer < 0 || call.peer >= ranks || call.peer == call.root)) {
    return input_error(
        fmt::format("send from rank {} to rank {}: expected another of {} ranks", call.root, call.peer, ranks));
  }
  if (call.count == 0 || call.verb == Verb::barrier) return {};
  const bool is_root = communicator.rank == call.root;
  const Verb verb = call.verb;
  const bool reads = (verb != Verb::broadcast && verb != Verb::scatter && verb != Verb::send) || is_root;
  const bool writes =
      verb == Verb::send ? communicator.rank == call.peer : (verb != Verb::reduce && verb != Verb::gather) || is_root;
  if ((reads && call.input == nullptr) || (writes && call.output == nullptr)) {
    return input_error(fmt::format("{} of {} elements: rank {} gave no {}", name_of(verb), call.count,
                                   communicator.rank, reads && call.input == nullptr ? "input" : "output"));
  }
  return {};
}

Waited enter(Communicator& communicator, std::uint64_t signature, std::uint32_t turns) {
  ++communicator.sequence;
  const std::uint32_t needed = communicator.sequence - turns + 1;
  if (static_cast<std::int32_t>(needed - communicator.all_entered) > 0) {
    // More than is needed, so that not every operation has to look.
    const std::uint32_t wanted = communicator.sequence - turns / 2;
    for (Block* const block : communicator.blocks) {
      const Waited waited = wait_for(block->entries[wanted % kTurns].word, wanted, communicator.world->patience);
      if (waited != Waited::reached) return waited;
    }
    communicator.all_entered = wanted;
  }
  entry_of(communicator, communicator.rank).signature = signature;
  return Waited::reached;
}

Waited await_entry(Communicator& communicator, int member, std::uint64_t signature) {
  Entry& entry = entry_of(communicator, member);
  const Waited waited = wait_for(entry.word, communicator.sequence, communicator.world->patience);
  if (waited != Waited::reached) return waited;
  return entry.signature == signature ? Waited::reached : Waited::mismatched;
}

void arrive(Communicator& communicator) {
  ++communicator.stage;
  publish(communicator.blocks[static_cast<std::size_t>(communicator.rank)]->stage, communicator.stage);
}

Waited await_others(Communicator& communicator) {
  for (Block* const block : communicator.blocks) {
    const Waited waited = wait_for(block->stage, communicator.stage, communicator.world->patience);
    if (waited != Waited::reached) return waited;
  }
  return Waited::reached;
}

Waited meet(Communicator& communicator) {
  arrive(communicator);
  return await_others(communicator);
}

namespace {

// Killed, stopped and gone ranks leave a trace of what they were in; the others just call something else.
Result<void> perform_fault(Communicator& communicator, Call call) {
  World& world = *communicator.world;
  world.fault_at = 0;
  const FaultKind kind = world.options.fault.kind;
  const bool ends = kind == FaultKind::kill || kind == FaultKind::stop || kind == FaultKind::exit;
  if (ends) begin_operation(*world.state, operation_of(communicator, call));
  return commit_fault(kind, call) ? perform(communicator, call) : Result<void>();
}

}  // namespace

void plan_fault(World& world) {
  const Fault& fault = world.options.fault;
  const bool mine = fault.kind != FaultKind::none && fault.rank == world.rank;
  world.fault_at = mine ? static_cast<std::uint32_t>(fault.operation) : 0;
}

// No Result on the way that most calls take: making one costs as much as a small collective's share of the work.
Result<void> perform(Communicator& communicator, const Call& call) {
  if (!is_plain(communicator, call)) {
    if (Result<void> fits = check(communicator, call); !fits) return fits;
    if (Result<void> fits = check_choice(communicator, call); !fits) return fits;
  }
  if (call.verb == Verb::send) return run_send(communicator, call);
  if (communicator.sequence + 1 == communicator.world->fault_at && communicator.group == 0) {
    return perform_fault(communicator, call);
  }
  Pick pick{call.choice.method, call.choice.algorithm};
  if (pick.method == Method::automatic) pick = pick_for(communicator, call, true);
  RankState& state = *communicator.world->state;
  const std::uint64_t number = begin_operation(state, operation_of(communicator, call));
  Waited waited = Waited::reached;
  if (pick.method == Method::inlined) {
    waited = run_inlined(communicator, call, signature_of(call, pick.method));
  } else if (pick.method == Method::native || pick.method == Method::scheduled) {
    Result<void> done = carry_out(communicator, call, pick, waited);
    if (!done) {
      end_operation(state, number);
      return done;
    }
  } else {
    waited = run_bulk(communicator, call, signature_of(call, pick.method));
  }
  if (waited != Waited::reached) return tl::unexpected(failure_of(*communicator.world, waited));
  end_operation(state, number);
  Result<void> done;  // not {}, which would first clear the room of an Error
  return done;
}

Result<void> run(Communicator& communicator, const Call& call) {
  if (!has_pending(communicator)) return perform(communicator, call);
  Result<Handle> handle = start(communicator, call);
  if (!handle) return tl::unexpected(handle.error());
  return handle->wait();
}

Communicator whole_world(World& world) {
  Communicator communicator{.world = &world, .rank = world.rank};
  for (int rank = 0; rank < world.size; ++rank) {
    communicator.members.push_back(rank);
    if (world.local) communicator.blocks.push_back(&block_of(world.segment, 0, rank));
  }
  if (world.mpi != nullptr) communicator.native = world.mpi->world();
  return communicator;
}

}  // namespace twinpod::comm
