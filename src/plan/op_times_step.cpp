// Seconds of what belongs to the step as a whole: gradient traffic, update, input, and what no op explains.
//
// The closed form exposes x of the gradient traffic. Buckets that run beside the passes take the hidden share h of
// their time, and show what of that finds nothing to hide behind: the first gather, the last reduction, what does not
// fit. The rest of x stands in front of the update.
#include <algorithm>

#include "plan/op_times_parts.hpp"
#include "program/state.hpp"
#include "program/volume.hpp"

namespace twinpod::plan {
namespace {

using program::Block;
using program::Instance;
using program::Kind;
using program::Lane;
using program::Op;
using program::OpKind;
using program::Phase;

const Block& block_of(const OpTimer& timer, const Instance& instance) {
  return timer.program.blocks[static_cast<std::size_t>(instance.block)];
}

// Shares of bucket traffic that the stack hides, as in step_pieces.cpp.
double hidden_of_buckets(const spec::Job& job) {
  return 1 - (1 - program::hidden_share(job)) / std::max(1, job.layout.virtual_stages);
}

void scale_buckets(const OpTimer& timer, double share, sim::StepTimes& times) {
  for (std::size_t b = 0; b < times.ops.size(); ++b) {
    const std::vector<Op>& ops = timer.program.blocks[b].ops;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (!is_overlapped_bucket(ops[i])) continue;
      const sim::OpTime full = transfer_time(timer, ops[i]);
      times.ops[b][i] = stretched(full, share * full.seconds());
    }
  }
}

bool has_buckets(const Block& block, bool forward) {
  return std::any_of(block.ops.begin(), block.ops.end(),
                     [&](const Op& op) { return is_overlapped_bucket(op) && (op.phase == Phase::forward) == forward; });
}

// The passes of the first stage beside which parameters are gathered, and those beside which gradients are reduced.
struct Overlap {
  std::vector<TimedBlock> gathers;
  std::vector<TimedBlock> reductions;
};

Overlap overlap_of(const OpTimer& timer, const sim::StepTimes& times) {
  const std::vector<Instance>& list = timer.program.kinds.front().instances;
  std::size_t last_gather = 0;
  std::size_t first_reduction = list.size();
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (has_buckets(block_of(timer, list[i]), true)) last_gather = i + 1;
    if (has_buckets(block_of(timer, list[i]), false)) first_reduction = std::min(first_reduction, i);
  }
  Overlap overlap;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Block& block = block_of(timer, list[i]);
    if (block.phase == Phase::update) continue;
    const TimedBlock timed{&block, &times.ops[static_cast<std::size_t>(list[i].block)]};
    if (i < last_gather) overlap.gathers.push_back(timed);
    if (i >= first_reduction) overlap.reductions.push_back(timed);
  }
  return overlap;
}

struct Shown {
  double gathers = 0;
  double reductions = 0;
};

// Times the buckets, and returns how much of the exposed seconds they do not show.
double time_buckets(const OpTimer& timer, double exposed, sim::StepTimes& times) {
  if (!program::overlaps_data(timer.job)) return exposed;
  const Overlap overlap = overlap_of(timer, times);
  if (overlap.gathers.empty() && overlap.reductions.empty()) return exposed;
  const auto run = [&](double share) {
    scale_buckets(timer, share, times);
    return Shown{run_blocks(overlap.gathers).chain_s, run_blocks(overlap.reductions).all_s};
  };
  const Shown none{run(0).gathers, run_blocks(overlap.reductions).chain_s};
  const auto shown = [&](double share) {
    const Shown some = run(share);
    return some.gathers - none.gathers + std::max(0.0, some.reductions - none.reductions);
  };
  const double hidden = hidden_of_buckets(timer.job);
  const double rest = exposed - shown(hidden);
  if (rest >= 0) return rest;
  double low = 0;
  double high = hidden;
  for (int i = 0; i < 30; ++i) {
    const double middle = (low + high) / 2;
    (shown(middle) < exposed ? low : high) = middle;
  }
  shown(low);
  return 0;
}

// Push and pull as the closed form has them: bound by the servers' interfaces, whatever one rank sends.
bool is_gradient_traffic(const Op& op) {
  if (op.kind == OpKind::push || op.kind == OpKind::pull) return true;
  if (op.kind != OpKind::collective || op.lane != Lane::data) return false;
  using enum layout::Group;
  return op.group == data || op.group == expert_data || op.group == domain || op.group == expert_domain ||
         op.group == replica;
}

bool is_norm(const Op& op) { return op.kind == OpKind::collective && op.group == layout::Group::world; }

sim::OpTime server_time(const OpTimer& timer, const Op& op) {
  const spec::Job& job = timer.job;
  const spec::Physics& p = job.stack.physics;
  const program::Servers& servers = timer.program.servers;
  const double of_device = job.cluster.scale_out_bytes_per_s > 0
                               ? job.cluster.scale_out_bytes_per_s * p.scale_out_efficiency
                               : job.cluster.device.host_bytes_per_s;
  const double rate = std::max(1.0, of_device * std::min(job.cluster.devices, job.cluster.devices_per_node));
  const double element = op.kind == OpKind::push ? job.stack.scatter_bytes : job.stack.gather_bytes;
  sim::OpTime time;
  time.latency_s = p.collective_latency_s + job.cluster.scale_out_latency_s;
  time.transfer_s = servers.parameters * servers.domains * element / rate;
  time.bytes_per_s = time.transfer_s > 0 ? op.bytes / time.transfer_s : 0;
  return time;
}

// The update of the first stage takes the closed form's seconds, others by their parameters.
struct UpdateTime {
  double seconds = 0;
  double parameters = 0;  // of the first stage's ranks
};

double updated_parameters(const OpTimer& timer, const Block& block) {
  for (const Op& op : block.ops) {
    if (op.kind == OpKind::compute) return timer.program.works[static_cast<std::size_t>(op.work)].parameters;
  }
  return 0;
}

// On the host: gradients go there and parameters come back; what is left is the update itself, with gradients that went
// there after every micro-batch.
void time_update(const OpTimer& timer, const Block& block, const UpdateTime& first, BlockTimes& times) {
  const double own = updated_parameters(timer, block);
  double left = first.parameters > 0 ? first.seconds * own / first.parameters : 0;
  const double host = timer.job.cluster.device.host_bytes_per_s;
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    const Op& op = block.ops[i];
    if ((op.kind != OpKind::read && op.kind != OpKind::write) || host <= 0) continue;
    times[i].latency_s = op.bytes / host;
    left -= times[i].latency_s;
  }
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    if (block.ops[i].kind == OpKind::compute) times[i].latency_s = std::max(0.0, left);
  }
}

struct FinishTime {
  double traffic_scale = 1;
  double norm_s = 0;
  UpdateTime update;
};

void time_finish(const OpTimer& timer, const Block& block, const FinishTime& finish, BlockTimes& times) {
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    const Op& op = block.ops[i];
    if (op.kind == OpKind::push || op.kind == OpKind::pull) times[i] = server_time(timer, op);
    if (op.kind == OpKind::collective) times[i] = transfer_time(timer, op);
    if (is_gradient_traffic(op)) times[i] = stretched(times[i], finish.traffic_scale * times[i].seconds());
    if (is_norm(op)) times[i] = stretched(times[i], finish.norm_s);
    // Servers update before they answer.
    if (op.kind == OpKind::pull) times[i].latency_s += timer.sum.optimizer_s;
  }
  time_update(timer, block, finish.update, times);
}

// Every stage joins the norm of the gradients, so it takes the same time in all.
FinishTime finish_time(const OpTimer& timer, const Block& first, double exposed, double& norm_s) {
  FinishTime finish;
  finish.update = {timer.sum.optimizer_s, updated_parameters(timer, first)};
  double traffic = 0;
  for (const Op& op : first.ops) {
    const bool served = op.kind == OpKind::push || op.kind == OpKind::pull;
    if (is_gradient_traffic(op)) traffic += (served ? server_time(timer, op) : transfer_time(timer, op)).seconds();
    if (is_norm(op)) norm_s = transfer_time(timer, op).seconds();
  }
  finish.norm_s = norm_s;
  if (traffic > 0) {
    finish.traffic_scale = exposed / traffic;
  } else {
    finish.norm_s += exposed;
  }
  return finish;
}

// One way between two stages, nothing hidden.
double transfer_s(const OpTimer& timer) {
  const spec::Job& job = timer.job;
  if (job.layout.pp <= 1) return 0;
  Op op;
  op.kind = OpKind::send;
  op.lane = Lane::pipe;
  op.bytes = program::transfer_bytes(job, model::shard_of(job));
  return transfer_time(timer, op).seconds();
}

// What the stack's bubble is longer than the schedule's.
double longer_bubble_s(const OpTimer& timer) {
  const spec::Physics& p = timer.job.stack.physics;
  const double hops = p.pace * (timer.job.layout.pp - 1) * p.p2p_hidden * 2 * transfer_s(timer);
  if (p.bubble_factor <= 0) return 0;
  return (timer.sum.bubble_s - hops) * (1 - 1 / p.bubble_factor);
}

// Read one step ahead. What takes longer than the step stands at its end (input_s).
void time_input(const OpTimer& timer, const Block& block, BlockTimes& times) {
  const spec::Job& job = timer.job;
  if (job.cluster.storage_read_bytes_per_s <= 0) return;
  const double bytes = job.training.global_batch * job.training.sequence * job.training.bytes_per_token;
  const double passes = timer.sum.micro_batches * timer.sum.slowest_s * job.stack.physics.pace;
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    if (block.ops[i].kind == OpKind::read)
      times[i].latency_s = std::min(passes, bytes / job.cluster.storage_read_bytes_per_s);
  }
}

}  // namespace

void add_step_times(const OpTimer& timer, sim::StepTimes& times) {
  const double rest = time_buckets(timer, timer.sum.data_s, times);
  const Kind& first = timer.program.kinds.front();
  double norm_s = 0;
  const FinishTime finish = finish_time(timer, block_of(timer, first.instances.back()), rest, norm_s);
  for (std::size_t b = 0; b < times.ops.size(); ++b) {
    const Block& block = timer.program.blocks[b];
    if (block.phase != Phase::update) continue;
    const bool reads = !block.ops.empty() && block.ops.front().segment == program::Segment::input;
    reads ? time_input(timer, block, times.ops[b]) : time_finish(timer, block, finish, times.ops[b]);
  }
  // The norm of the gradients is a part of what each step takes whatever its size.
  const double fixed = std::max(0.0, timer.job.stack.physics.step_fixed_s - norm_s);
  times.tail_s = timer.sum.stragglers_s + fixed + timer.sum.input_s + longer_bubble_s(timer);
  // Without a norm that all wait for, there is no op to put it on.
  if (norm_s <= 0) times.tail_s += finish.norm_s;
}

}  // namespace twinpod::plan
