// Seconds of the ops of a pass. The closed form has a layer's pass by parts; they are dealt out to its ops:
//   - computation to the compute ops, by what the device alone would need for each;
//   - of each kind of communication (tensor, context, expert) what shows, over what its ops take in full, is the share
//     of an op for which the next one waits;
//   - a ring of keys and values hides behind attention by itself: a round of it takes as long as attention's and the
//     n-th part of what shows, so that the n rounds end that much later than attention alone would;
//   - ZeRO-3 gathers and scatters run beside the unit before: the longer of traffic and computation is stretched to
//     what the closed form has for both.
#include <algorithm>
#include <array>

#include "layout/mesh.hpp"
#include "plan/op_times_parts.hpp"
#include "program/volume.hpp"

namespace twinpod::plan {
namespace {

using program::Block;
using program::Lane;
using program::Op;
using program::OpKind;
using program::Phase;
using program::Segment;

constexpr std::array<Part, 3> kLayerTraffic = {Part::tensor, Part::context, Part::expert};

std::size_t traffic_of(layout::Group group) {
  if (group == layout::Group::context) return 1;
  return group == layout::Group::expert ? 2 : 0;
}

// Seconds for the ops of one phase of a unit.
struct Budget {
  double compute = 0;
  std::array<double, kLayerTraffic.size()> exposed{};
  double total() const { return compute + exposed[0] + exposed[1] + exposed[2]; }
};

// Embedding, a layer or the head, in a block.
struct Unit {
  const PassTime* pass = nullptr;
  double recomputed = 1;                        // times the mean layer's recomputation
  std::array<std::vector<std::size_t>, 6> ops;  // by phase: computation and communication inside the layer
  std::vector<std::size_t> shards;              // gathers and scatters of ZeRO-3
};

struct PassTimer {
  const OpTimer& timer;
  const Block& block;
  BlockTimes times;
  double pace = 1;
};

Budget budget_of_parts(const Parts& parts) {
  Budget budget;
  budget.compute = parts.total() - parts[Part::shard] - parts[Part::recompute];
  for (std::size_t i = 0; i < kLayerTraffic.size(); ++i) {
    budget.exposed[i] = parts[kLayerTraffic[i]];
    budget.compute -= budget.exposed[i];
  }
  return budget;
}

// What is done again takes its share of the communication with it.
Budget recompute_budget(const spec::Job& job, const Unit& unit) {
  const Parts& forward = unit.pass->forward;
  const double seconds = unit.pass->backward[Part::recompute] * unit.recomputed;
  const bool full = job.layout.recompute == spec::Recompute::full;
  const double busy = forward.total() - forward[Part::launch] - forward[Part::shard] - forward[Part::parking];
  Budget budget;
  if (full && busy > 0) {
    for (std::size_t i = 0; i < kLayerTraffic.size(); ++i)
      budget.exposed[i] = seconds / busy * forward[kLayerTraffic[i]];
  } else {
    budget.exposed[0] = job.stack.selective_products * forward[Part::tensor] / 2;
  }
  budget.compute = std::max(0.0, seconds - budget.total());
  return budget;
}

// By phase. Halves of a backward pass: the weight half is computation only.
std::array<Budget, 6> budgets_of(const spec::Job& job, const Unit& unit) {
  std::array<Budget, 6> budgets;
  const auto at = [&](Phase phase) -> Budget& { return budgets[static_cast<std::size_t>(phase)]; };
  at(Phase::forward) = budget_of_parts(unit.pass->forward);
  at(Phase::backward) = budget_of_parts(unit.pass->backward);
  at(Phase::backward_weight).compute = std::min(unit.pass->weight_s, at(Phase::backward).compute);
  at(Phase::backward_input) = at(Phase::backward);
  at(Phase::backward_input).compute -= at(Phase::backward_weight).compute;
  at(Phase::recompute) = recompute_budget(job, unit);
  if (unit.ops[static_cast<std::size_t>(Phase::recompute)].empty()) {
    for (const Phase phase : {Phase::backward, Phase::backward_input})
      at(phase).compute += at(Phase::recompute).total();
  }
  for (std::size_t p = 0; p < budgets.size(); ++p) {
    if (unit.ops[p].empty()) budgets[p] = {};
  }
  return budgets;
}

// What ZeRO-3 traffic adds to this pass of the unit. What is gathered once a step shows in that pass only.
double exposed_shards_s(const OpTimer& timer, const Unit& unit, Phase phase) {
  const double sharers = program::gathers_once_a_step(timer.job) ? spec::micro_batches(timer.job) : 1;
  if (phase == Phase::forward) return sharers * unit.pass->forward[Part::shard];
  const double all = sharers * unit.pass->backward[Part::shard];
  const double backward = unit.pass->backward.total();
  if (phase == Phase::backward || backward <= 0) return all;
  const double weights = unit.pass->weight_s / backward;
  return all * (phase == Phase::backward_weight ? weights : 1 - weights);
}

// Returns how long computation waits for it.
double add_shards(PassTimer& pass, const Unit& unit, Phase phase, std::array<Budget, 6>& budgets) {
  if (unit.shards.empty()) return 0;
  double busy = 0;
  double compute = 0;
  for (const Budget& budget : budgets) {
    busy += budget.total();
    compute += budget.compute;
  }
  const double both = busy + exposed_shards_s(pass.timer, unit, phase);
  double traffic = 0;
  for (const std::size_t i : unit.shards) {
    pass.times[i] = transfer_time(pass.timer, pass.block.ops[i]);
    traffic += pass.times[i].seconds();
  }
  const bool waits = traffic > busy;
  for (const std::size_t i : unit.shards) {
    sim::OpTime& time = pass.times[i];
    time = stretched(time, pass.pace * time.seconds() * (waits && traffic > 0 ? both / traffic : 1));
  }
  if (waits || compute <= 0) return both - busy;
  for (Budget& budget : budgets) budget.compute *= 1 + (both - busy) / compute;
  return 0;
}

void deal_out_computation(PassTimer& pass, const std::vector<std::size_t>& ops, double seconds) {
  const auto raw = [&](std::size_t i) {
    const Op& op = pass.block.ops[i];
    if (op.kind != OpKind::compute || op.work < 0) return 0.0;
    return pass.timer.work_s[static_cast<std::size_t>(op.work)] * op.share;
  };
  double sum = 0;
  for (const std::size_t i : ops) sum += raw(i);
  if (sum <= 0) return;
  for (const std::size_t i : ops) pass.times[i].latency_s = raw(i) * pass.pace * seconds / sum;
}

bool is_traffic(const Op& op, std::size_t traffic) {
  return op.lane == Lane::tensor && op.kind != OpKind::recv && traffic_of(op.group) == traffic;
}

// Sends, each followed by its recv and by the attention that runs beside it.
void time_ring(PassTimer& pass, const std::vector<std::size_t>& sends, double exposed) {
  for (const std::size_t i : sends) {
    std::size_t attends = i;
    while (attends + 1 < pass.times.size() && pass.block.ops[attends].kind != OpKind::compute) ++attends;
    const double beside = pass.times[attends].seconds();
    const double seconds = beside + pass.pace * exposed / static_cast<double>(sends.size());
    pass.times[i] = stretched(transfer_time(pass.timer, pass.block.ops[i]), seconds);
  }
}

void time_traffic(PassTimer& pass, const std::vector<std::size_t>& ops, double exposed) {
  double all = 0;
  for (const std::size_t i : ops) {
    pass.times[i] = transfer_time(pass.timer, pass.block.ops[i]);
    all += pass.times[i].seconds();
  }
  if (all <= 0) return;
  const double share = exposed / all;
  for (const std::size_t i : ops) {
    sim::OpTime& time = pass.times[i];
    time.latency_s *= pass.pace;
    time.transfer_s *= pass.pace;
    time.exposed = std::min(1.0, share);
    if (share > 1) time = stretched(time, share * time.seconds());
  }
}

void time_phase(PassTimer& pass, const std::vector<std::size_t>& ops, Budget budget) {
  std::array<std::vector<std::size_t>, kLayerTraffic.size()> traffic;
  for (std::size_t t = 0; t < traffic.size(); ++t) {
    for (const std::size_t i : ops) {
      if (is_traffic(pass.block.ops[i], t)) traffic[t].push_back(i);
    }
    if (traffic[t].empty()) budget.compute += budget.exposed[t];
  }
  deal_out_computation(pass, ops, budget.compute);
  for (std::size_t t = 0; t < traffic.size(); ++t) {
    if (traffic[t].empty()) continue;
    const bool ring = pass.block.ops[traffic[t].front()].kind == OpKind::send;
    ring ? time_ring(pass, traffic[t], budget.exposed[t]) : time_traffic(pass, traffic[t], budget.exposed[t]);
  }
}

// The closed form has the mean of recomputed and other layers.
double recomputed_times(const spec::Job& job, const program::Layer& layer) {
  if (job.layout.recompute != spec::Recompute::full || job.layout.recompute_layers == 0) return 1;
  if (!layer.recomputed) return 0;
  const int of_stage = (job.model.layers + job.layout.pp - 1) / job.layout.pp;
  return std::max(1.0, static_cast<double>(of_stage) / job.layout.recompute_layers);
}

// Units of both halves: embedding, head, layers.
struct Units {
  std::vector<Unit> list;
  std::vector<int> half;
};

Units units_of(const OpTimer& timer, const Block& block) {
  Units units;
  std::array<std::size_t, 2> first{};
  for (int h = 0; h < (block.pair ? 2 : 1); ++h) {
    const program::Shape& shape = timer.program.shapes[static_cast<std::size_t>(block.shapes[h])];
    first[static_cast<std::size_t>(h)] = units.list.size();
    units.list.push_back({&timer.pass.pieces[kEmbedding], 1, {}, {}});
    units.list.push_back({&timer.pass.pieces[kHead], 1, {}, {}});
    for (const program::Layer& layer : shape.layers) {
      const PassTime& pass = timer.pass.pieces[layer_kind(layer.experts, layer.windowed)];
      units.list.push_back({&pass, recomputed_times(timer.job, layer), {}, {}});
    }
    units.half.resize(units.list.size(), h);
  }
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    const Op& op = block.ops[i];
    if (op.lane == Lane::pipe || op.lane == Lane::host || is_overlapped_bucket(op)) continue;
    std::size_t at = first[op.half] + (op.segment == Segment::head ? 1 : 0);
    if (op.layer >= 0) at = first[op.half] + 2 + static_cast<std::size_t>(op.layer);
    Unit& unit = units.list[at];
    op.lane == Lane::data ? unit.shards.push_back(i) : unit.ops[static_cast<std::size_t>(op.phase)].push_back(i);
  }
  return units;
}

// What a stack does not hide of the transfers between stages keeps a stage from its next pass. It waits at the end of a
// pass for what that sends; what comes from the same neighbour comes at the same time. Returns how long.
double block_stage(PassTimer& pass, int half) {
  const std::vector<Op>& ops = pass.block.ops;
  std::size_t last = ops.size();
  std::size_t send = ops.size();
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].half != half) continue;
    if (ops[i].lane == Lane::pipe && ops[i].kind == OpKind::send) send = i;
    if (ops[i].kind == OpKind::compute) last = i;
  }
  if (send == ops.size() || last == ops.size()) return 0;
  const double all = pass.pace * transfer_time(pass.timer, ops[send]).seconds();
  const spec::Job& job = pass.timer.job;
  const double shows = (1 - job.stack.physics.p2p_hidden) * all + pass.pace * exchange_stop_s(job);
  pass.times[last].latency_s += shows;
  return shows;
}

// Activations go to the host while the next layer works and come back while the one before does; what that takes longer
// than the layer is in its computation. The last to go and the first to come have no such layer in their pass, but both
// directions of the link and the passes around them: nothing waits for those.
void free_ends_of_parking(PassTimer& pass) {
  const std::size_t none = pass.times.size();
  std::size_t last_write = none;
  std::size_t first_read = none;
  for (std::size_t i = 0; i < none; ++i) {
    const Op& op = pass.block.ops[i];
    if (op.lane != Lane::host) continue;
    if (op.kind == OpKind::write && op.phase == Phase::forward) last_write = i;
    if (op.kind == OpKind::read && first_read == none) first_read = i;
  }
  for (const std::size_t i : {last_write, first_read}) {
    if (i < none) pass.times[i].latency_s = 0;
  }
}

// Returns what transfers between stages add to the pass.
double time_other_ops(PassTimer& pass) {
  const spec::Job& job = pass.timer.job;
  for (std::size_t i = 0; i < pass.block.ops.size(); ++i) {
    const Op& op = pass.block.ops[i];
    sim::OpTime& time = pass.times[i];
    if (op.lane == Lane::pipe && op.kind == OpKind::send) {
      time = transfer_time(pass.timer, op);
      time.latency_s *= pass.pace;
      time.transfer_s *= pass.pace;
      time.exposed = job.stack.physics.p2p_hidden;
    }
    // Gradients that the host adds up after every micro-batch count in its update: the closed form hides none of them.
    const bool gradients = op.kind == OpKind::write && op.phase != Phase::forward;
    if (op.lane == Lane::host && !gradients && job.cluster.device.host_bytes_per_s > 0)
      time.latency_s = pass.pace * op.bytes / job.cluster.device.host_bytes_per_s;
  }
  free_ends_of_parking(pass);
  return block_stage(pass, 0) + (pass.block.pair ? block_stage(pass, 1) : 0);
}

}  // namespace

BlockTimes pass_times_of(const OpTimer& timer, const Block& block) {
  PassTimer pass{timer, block, BlockTimes(block.ops.size()), timer.job.stack.physics.pace};
  if (block.phase == Phase::update) return pass.times;
  const Units units = units_of(timer, block);
  double target = 0;
  for (std::size_t u = 0; u < units.list.size(); ++u) {
    const Unit& unit = units.list[u];
    std::array<Budget, 6> budgets = budgets_of(timer.job, unit);
    target += pass.pace * add_shards(pass, unit, units.half[u] == 1 ? Phase::backward : block.phase, budgets);
    for (std::size_t p = 0; p < budgets.size(); ++p) {
      target += pass.pace * budgets[p].total();
      time_phase(pass, unit.ops[p], budgets[p]);
    }
  }
  target += time_other_ops(pass);
  fit_pass(timer, block, target, pass.times);
  return pass.times;
}

}  // namespace twinpod::plan
