#include "program/program.hpp"

#include <fmt/format.h>

#include <array>

namespace twinpod::program {
namespace {

constexpr std::array<std::string_view, kNumLanes> kLaneNames = {"compute", "tensor", "pipe", "data", "host", "drain"};
constexpr std::array<std::string_view, 8> kOpNames = {"compute", "collective", "send", "recv",
                                                      "push",    "pull",       "read", "write"};
constexpr std::array<std::string_view, 6> kPhaseNames = {"forward",         "backward",  "backward-input",
                                                         "backward-weight", "recompute", "update"};
constexpr std::array<std::string_view, 11> kSegmentNames = {"embedding", "attention",  "mlp",     "experts",
                                                            "combine",   "block",      "head",    "optimizer",
                                                            "input",     "checkpoint", "boundary"};
constexpr std::array<std::string_view, kNumTiers> kTierNames = {"nowhere",     "host memory", "shared storage",
                                                                "peer memory", "local disk",  "object store"};
constexpr std::array<std::string_view, 4> kElementNames = {"fp32", "bf16", "fp8", "token"};
constexpr std::array<std::string_view, kNumBufferKinds> kBufferNames = {
    "parameters", "gradients", "optimizer", "activations", "working", "communication", "update", "runtime"};

template <typename E, std::size_t N>
std::string_view name_at(const std::array<std::string_view, N>& names, E value) {
  return names[static_cast<std::size_t>(value)];
}

std::string verb_text(const Op& op) {
  switch (op.kind) {
    case OpKind::compute:
      return std::string(name_of(op.phase));
    case OpKind::collective:
      return fmt::format("{} {} over {}", name_of(op.phase), collective::name_of(op.verb), layout::name_of(op.group));
    case OpKind::write:
      if (op.segment == Segment::checkpoint) return fmt::format("write to {}:", name_of(op.tier));
      [[fallthrough]];
    default:
      return fmt::format("{} {}", name_of(op.phase), name_of(op.kind));
  }
}

}  // namespace

bool Product::operator==(const Product& other) const {
  return gemm.m == other.gemm.m && gemm.n == other.gemm.n && gemm.k == other.gemm.k &&
         gemm.groups == other.gemm.groups && experts == other.experts && wide == other.wide;
}

double Work::flop() const {
  double total = 0;
  for (const Product& product : products) total += product.gemm.flop();
  const double scores = attention_fused ? attention.causal_flop() : attention.full_flop();
  return total + attention_share * scores * (attention_backward ? 2 : 1);
}

std::string_view name_of(Lane lane) { return name_at(kLaneNames, lane); }
std::string_view name_of(OpKind kind) { return name_at(kOpNames, kind); }
std::string_view name_of(Phase phase) { return name_at(kPhaseNames, phase); }
std::string_view name_of(Segment segment) { return name_at(kSegmentNames, segment); }
std::string_view name_of(ElementType element) { return name_at(kElementNames, element); }
std::string_view name_of(Tier tier) { return name_at(kTierNames, tier); }
std::string_view name_of(BufferKind kind) { return name_at(kBufferNames, kind); }

PlacedOp placed(const Program& program, int kind, int instance, int index) {
  const Kind& own = program.kinds[static_cast<std::size_t>(kind)];
  const Instance& at = own.instances[static_cast<std::size_t>(instance)];
  PlacedOp result;
  result.block = &program.blocks[static_cast<std::size_t>(at.block)];
  result.op = &result.block->ops[static_cast<std::size_t>(index)];
  result.kind = kind;
  result.instance = instance;
  result.index = index;
  result.micro_batch = at.micro_batch[result.op->half];
  result.chunk = at.chunk[result.op->half];
  if (result.op->layer >= 0) {
    const int first = result.chunk < 0 ? 0 : own.chunks[static_cast<std::size_t>(result.chunk)].first_layer;
    result.layer = first + result.op->layer;
  }
  return result;
}

std::string op_text(const PlacedOp& op) {
  std::string text = fmt::format("{} {}", verb_text(*op.op), name_of(op.op->segment));
  if (op.layer >= 0) text += fmt::format(" of layer {}", op.layer);
  if (op.micro_batch >= 0) text += fmt::format(", micro-batch {}", op.micro_batch);
  if (op.chunk > 0) text += fmt::format(", chunk {}", op.chunk);
  return text;
}

int kind_of_rank(const Program& program, int rank) { return layout::coordinate(program.mesh, rank, layout::Axis::pp); }

int peer_rank(const Program& program, const PlacedOp& op, int rank) {
  const Peer peer = op.op->peer;
  if (peer == Peer::next_in_ring) return layout::neighbour(program.mesh, op.op->group, rank, 1);
  if (peer == Peer::previous_in_ring) return layout::neighbour(program.mesh, op.op->group, rank, -1);
  if (peer == Peer::none || op.chunk < 0) return -1;
  const Chunk& chunk = program.kinds[static_cast<std::size_t>(op.kind)].chunks[static_cast<std::size_t>(op.chunk)];
  const int stage = peer == Peer::next_chunk ? chunk.next_stage : chunk.previous_stage;
  return stage < 0 ? -1 : layout::rank_on_stage(program.mesh, rank, stage);
}

std::vector<std::vector<RankOp>> expand(const Program& program) {
  std::vector<std::vector<RankOp>> lists(static_cast<std::size_t>(program.mesh.ranks()));
  for (int rank = 0; rank < program.mesh.ranks(); ++rank) {
    std::vector<RankOp>& list = lists[static_cast<std::size_t>(rank)];
    for_each_op(program, kind_of_rank(program, rank), [&](const PlacedOp& op) {
      RankOp one{op, peer_rank(program, op, rank), {}};
      if (op.op->kind == OpKind::collective) one.members = layout::members(program.mesh, op.op->group, rank);
      list.push_back(std::move(one));
    });
  }
  return lists;
}

Totals totals(const Program& program, int kind) {
  Totals sum;
  for_each_op(program, kind, [&](const PlacedOp& at) {
    const Op& op = *at.op;
    sum.ops += 1;
    if (op.kind == OpKind::recv) return;  // its send is counted
    sum.bytes[static_cast<std::size_t>(op.lane)] += op.bytes;
    if (op.work < 0) return;
    const Work& work = program.works[static_cast<std::size_t>(op.work)];
    sum.flop += op.share * work.flop();
    sum.parameters_updated += op.share * work.parameters;
  });
  return sum;
}

}  // namespace twinpod::program
