// Every recv has the send of the same bytes, in the same order at both ends of each channel.
#include <map>
#include <tuple>

#include "program/check_parts.hpp"

namespace twinpod::program {
namespace {

const Op* transfer_of(const Block& block, OpKind kind, int half) {
  for (const Op& op : block.ops) {
    if (op.kind == kind && op.lane == Lane::pipe && op.half == half) return &op;
  }
  return nullptr;
}

// The half of the sender's instance that belongs to a micro-batch and direction; -1: none does.
int sending_half(const Program& program, const Instance& sender, int micro_batch, bool forwards) {
  const Block& block = block_of(program, sender);
  for (int half = 0; half < (block.pair ? 2 : 1); ++half) {
    const Phase phase = phase_of(block, half);
    const bool same = forwards ? phase == Phase::forward : is_input_backward(phase);
    if (same && sender.micro_batch[half] == micro_batch) return half;
  }
  return -1;
}

using Channel = std::tuple<int, int, int, bool>;  // sender, its chunk, receiver, forward

struct Transfers {
  std::map<Channel, int> last;          // the sender's instance that was received last
  std::vector<std::vector<int>> taken;  // by kind and instance: halves whose send was taken, as bits
};

// A pass that comes behind one of its own stage names one of the same micro-batch.
Result<void> check_handover(const Program& program, int kind, int index, int half) {
  const Instance& instance = program.kinds[at(kind)].instances[at(index)];
  if (instance.micro_batch[half] < 0) return {};
  const Block& block = block_of(program, instance);
  for (int i = 0; i < static_cast<int>(block.ops.size()); ++i) {
    const Op& op = block.ops[at(i)];
    if (!op.entry || op.half != half) continue;
    const Source& from = instance.from[half];
    const PlacedOp entry = placed(program, kind, index, i);
    if (from.kind != kind) return wrong_at(program, entry, "comes behind another stage, but receives nothing from it");
    const Instance& before = program.kinds[at(kind)].instances[at(from.instance)];
    if (before.micro_batch[0] == instance.micro_batch[half] || before.micro_batch[1] == instance.micro_batch[half])
      continue;
    return wrong_at(program, entry, fmt::format("comes behind instance {} of another micro-batch", from.instance));
  }
  return {};
}

Result<void> check_arrival(const Program& program, int kind, int index, int half, Transfers& transfers) {
  const Instance& instance = program.kinds[at(kind)].instances[at(index)];
  const Block& block = block_of(program, instance);
  const Op* recv = transfer_of(block, OpKind::recv, half);
  if (recv == nullptr) return check_handover(program, kind, index, half);
  const bool forwards = phase_of(block, half) == Phase::forward;
  const PlacedOp op = placed(program, kind, index, static_cast<int>(recv - block.ops.data()));
  const Source& from = instance.from[half];
  if (from.kind < 0) return wrong_at(program, op, "no send is named for it");
  const Instance& sender = program.kinds[at(from.kind)].instances[at(from.instance)];
  const int its_half = sending_half(program, sender, instance.micro_batch[half], forwards);
  const Op* send = its_half < 0 ? nullptr : transfer_of(block_of(program, sender), OpKind::send, its_half);
  if (send == nullptr)
    return wrong_at(program, op,
                    fmt::format("{}, instance {} does not send it", who(program, from.kind), from.instance));
  if (send->bytes != recv->bytes)
    return wrong_at(
        program, op,
        fmt::format("expects {} bytes, but {} sends {}", recv->bytes, who(program, from.kind), send->bytes));
  const Chunk& chunk = program.kinds[at(from.kind)].chunks[at(sender.chunk[its_half])];
  if ((forwards ? chunk.next_stage : chunk.previous_stage) != program.kinds[at(kind)].stage)
    return wrong_at(program, op, fmt::format("{} sends to another stage", who(program, from.kind)));
  int& taken = transfers.taken[at(from.kind)][at(from.instance)];
  if ((taken & (1 << its_half)) != 0) return wrong_at(program, op, "its send was received already");
  taken |= 1 << its_half;
  const auto [last, first] =
      transfers.last.insert({Channel{from.kind, sender.chunk[its_half], kind, forwards}, from.instance});
  if (!first && last->second > from.instance)
    return wrong_at(program, op,
                    fmt::format("{} sends it before what was received before it: the two ends of the channel disagree "
                                "about the order",
                                who(program, from.kind)));
  last->second = from.instance;
  return {};
}

}  // namespace

Result<void> check_transfers(const Program& program) {
  Transfers transfers;
  for (const Kind& kind : program.kinds) transfers.taken.emplace_back(kind.instances.size(), 0);
  for (int kind = 0; kind < static_cast<int>(program.kinds.size()); ++kind) {
    for (int i = 0; i < static_cast<int>(program.kinds[at(kind)].instances.size()); ++i) {
      for (const int half : {0, 1}) {
        Result<void> good = check_arrival(program, kind, i, half, transfers);
        if (!good) return good;
      }
    }
  }
  for (int kind = 0; kind < static_cast<int>(program.kinds.size()); ++kind) {
    const Kind& own = program.kinds[at(kind)];
    for (int i = 0; i < static_cast<int>(own.instances.size()); ++i) {
      const Block& block = block_of(program, own.instances[at(i)]);
      for (const int half : {0, 1}) {
        const Op* send = transfer_of(block, OpKind::send, half);
        if (send == nullptr || (transfers.taken[at(kind)][at(i)] & (1 << half)) != 0) continue;
        return wrong_at(program, placed(program, kind, i, static_cast<int>(send - block.ops.data())),
                        "nobody receives it");
      }
    }
  }
  return {};
}

}  // namespace twinpod::program
