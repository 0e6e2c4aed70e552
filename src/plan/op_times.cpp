#include "plan/op_times.hpp"

#include <algorithm>
#include <array>

#include "cluster/device_time.hpp"
#include "layout/mesh.hpp"
#include "plan/layer_kernels.hpp"
#include "plan/op_times_parts.hpp"
#include "program/generate.hpp"

namespace twinpod::plan {
namespace {

using program::Op;
using program::OpKind;

double products_s(const spec::Job& job, const program::Work& work) {
  const cluster::DeviceTime device(job.cluster.device, job.stack.physics);
  const spec::Physics& p = job.stack.physics;
  const bool narrow = spec::is_narrow(job.training.precision);
  const double rowwise = narrow && job.training.rowwise_scaling ? p.rowwise_factor : 1;
  const double grouped = p.expert_pace / (narrow ? p.grouped_efficiency_fp8 : p.grouped_efficiency);
  double sum = 0;
  for (const program::Product& one : work.products) {
    const model::Gemm& g = one.gemm;
    const spec::Precision precision = one.wide ? wide_precision(job) : job.training.precision;
    const double slowdown = (one.wide ? 1 : rowwise) * (one.experts ? grouped : 1);
    sum += slowdown * device.product(g.m, g.n, g.k, g.groups, precision);
  }
  return sum;
}

// How the members of a group lie on the machine. One span as group_of has it; further spans are further apart.
cluster::Group group_on(const OpTimer& timer, layout::Group group) {
  const layout::Mesh& mesh = timer.program.mesh;
  const spec::Cluster& cluster = timer.job.cluster;
  const int between_stages = layout::stride(mesh, layout::Axis::pp);
  if (group == layout::Group::ends) return cluster::group_of(cluster, 2, double{1} * between_stages * (mesh.pp - 1));
  if (group == layout::Group::mirror) return cluster::group_of(cluster, 2, between_stages);
  cluster::Group all;
  for (const layout::Span& span : mesh.shapes[static_cast<std::size_t>(group)]) {
    const cluster::Group one = cluster::group_of(cluster, span.size, span.stride);
    all.ranks *= one.ranks;
    all.per_domain *= one.per_domain;
    all.units *= one.units;
  }
  return all;
}

cluster::Verb verb_of(const Op& op) {
  if (op.kind == OpKind::send) return cluster::Verb::send;
  switch (op.verb) {
    case collective::Verb::all_gather:
      return cluster::Verb::all_gather;
    case collective::Verb::reduce_scatter:
      return cluster::Verb::reduce_scatter;
    default:
      return cluster::Verb::all_reduce;
  }
}

// An all-to-all: the slower of its two legs moves bytes all the time.
sim::OpTime exchange_time(const OpTimer& timer, const Op& op) {
  const spec::Cluster& cluster = timer.job.cluster;
  const double pace = timer.job.stack.physics.expert_pace;
  spec::Physics only_bytes = timer.job.stack.physics;
  const double inside = op.bytes - op.outside_bytes;
  const cluster::Group group = group_on(timer, op.group);
  const double all = pace * cluster::exchange_s(cluster, only_bytes, group, inside, op.outside_bytes);
  only_bytes.collective_latency_s = 0;
  only_bytes.collective_root = 0;
  sim::OpTime time;
  time.transfer_s = pace * cluster::exchange_s(cluster, only_bytes, group, inside, op.outside_bytes);
  time.latency_s = all - time.transfer_s;
  time.bytes_per_s = time.transfer_s > 0 ? op.bytes / time.transfer_s : 0;
  return time;
}

}  // namespace

double work_s(const spec::Job& job, const program::Work& work) {
  const cluster::DeviceTime device(job.cluster.device, job.stack.physics);
  const spec::Physics& p = job.stack.physics;
  model::LayerWork rest;
  if (work.attention_share > 0) rest.attention = work.attention;
  rest.elements.forward_bytes = work.element_bytes;
  rest.elements.forward_kernels = work.kernels;
  rest.permute_bytes = work.permute_bytes / 2;  // that of a layer is sorted twice
  rest.gemm_input_elements = work.cast_elements;
  const KernelTime kernels = layer_kernels(job, rest);
  double attention = 0;
  if (work.attention_share > 0) {
    attention = work.attention_backward ? kernels.attention_backward : kernels.attention_forward;
    attention *= work.attention_share;
  }
  const double loss = p.logit_bytes * work.logit_elements / 2;
  return products_s(job, work) + attention + kernels.elements_forward +
         device.memory_bound(loss + work.table_bytes + work.parameters * p.optimizer_bytes);
}

sim::OpTime transfer_time(const OpTimer& timer, const Op& op) {
  if (op.kind == OpKind::collective && op.verb == collective::Verb::all_to_all) return exchange_time(timer, op);
  const spec::Cluster& cluster = timer.job.cluster;
  const spec::Physics& p = timer.job.stack.physics;
  const bool between_stages = op.kind == OpKind::send && op.lane == program::Lane::pipe;
  const cluster::Group group = between_stages
                                   ? cluster::group_of(cluster, 2, layout::stride(timer.program.mesh, layout::Axis::pp))
                                   : group_on(timer, op.group);
  const cluster::Verb verb = verb_of(op);
  const double all = cluster::collective_s(cluster, p, verb, op.bytes, group);
  sim::OpTime time;
  time.bytes_per_s = cluster::bus_bytes_per_s(cluster, p, group);
  double volume = op.bytes;
  if (verb != cluster::Verb::send) volume *= (group.ranks - 1) / group.ranks;
  if (verb == cluster::Verb::all_reduce) volume *= 2;
  if (time.bytes_per_s > 0) time.transfer_s = std::min(all, volume / time.bytes_per_s);
  time.latency_s = all - time.transfer_s;
  return time;
}

sim::OpTime stretched(const sim::OpTime& time, double seconds) {
  sim::OpTime other = time;
  other.transfer_s = std::min(time.transfer_s, seconds);
  other.latency_s = seconds - other.transfer_s;
  return other;
}

bool is_overlapped_bucket(const Op& op) {
  return op.lane == program::Lane::data && op.segment == program::Segment::optimizer &&
         op.phase != program::Phase::update;
}

Ends run_blocks(const std::vector<TimedBlock>& blocks) {
  std::array<double, program::kNumLanes> free{};
  std::vector<double> released;
  Ends ends;
  for (const TimedBlock& one : blocks) {
    const program::Block& block = *one.block;
    released.assign(block.ops.size(), 0);
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
      const Op& op = block.ops[i];
      const sim::OpTime& time = (*one.times)[i];
      double& lane = free[static_cast<std::size_t>(op.lane)];
      double start = op.kind == OpKind::recv ? 0 : lane;
      for (int w = op.waits.first; w < op.waits.first + op.waits.count; ++w)
        start = std::max(start, released[static_cast<std::size_t>(block.waits[static_cast<std::size_t>(w)])]);
      released[i] = start + time.exposed * time.seconds();
      if (op.kind != OpKind::recv) lane = start + time.seconds();
      ends.all_s = std::max(ends.all_s, released[i]);
      const bool chained = op.lane == program::Lane::compute || op.lane == program::Lane::tensor;
      if (chained) ends.chain_s = std::max(ends.chain_s, released[i]);
    }
  }
  return ends;
}

namespace {

// In the order of the axes that the closed form knows.
sim::StepTimes usual_times(const spec::Job& job, const program::Program& program) {
  const ShardTimes shard = shard_times(job);
  OpTimer timer{job, program, pass_times(job, shard), {}, {}};
  timer.sum = step_sum(job, shard, timer.pass, stage_shares(job));
  timer.work_s.reserve(program.works.size());
  for (const program::Work& work : program.works) timer.work_s.push_back(work_s(job, work));
  sim::StepTimes times;
  times.ops.reserve(program.blocks.size());
  for (const program::Block& block : program.blocks) times.ops.push_back(pass_times_of(timer, block));
  add_step_times(timer, times);
  return times;
}

// Communication in another order of the axes takes longer by as much as it would with nothing hidden, and as many of
// its seconds hide as in the usual one: computation does not grow with it.
sim::OpTime moved(const sim::OpTime& fitted, const sim::OpTime& usual, const sim::OpTime& here) {
  if (usual.seconds() <= 0 || here.seconds() <= 0) return fitted;
  const double seconds = fitted.seconds() * here.seconds() / usual.seconds();
  sim::OpTime time = stretched(here, seconds);
  const double hidden = std::min(seconds, (1 - fitted.exposed) * fitted.seconds());
  time.exposed = 1 - hidden / seconds;
  return time;
}

bool is_transfer(const Op& op) { return op.kind == OpKind::collective || op.kind == OpKind::send; }

}  // namespace

sim::StepTimes op_times(const spec::Job& job, const program::Program& program) {
  if (program.mesh.order == layout::kUsualOrder) return usual_times(job, program);
  const Result<program::Program> usual = program::generate(job);
  if (!usual || usual->blocks.size() != program.blocks.size()) return usual_times(job, program);
  sim::StepTimes times = usual_times(job, *usual);
  const OpTimer there{job, *usual, {}, {}, {}};
  const OpTimer here{job, program, {}, {}, {}};
  for (std::size_t b = 0; b < program.blocks.size(); ++b) {
    const std::vector<Op>& ops = program.blocks[b].ops;
    for (std::size_t i = 0; i < std::min(ops.size(), usual->blocks[b].ops.size()); ++i) {
      if (!is_transfer(ops[i])) continue;
      sim::OpTime& time = times.ops[b][i];
      time = moved(time, transfer_time(there, usual->blocks[b].ops[i]), transfer_time(here, ops[i]));
    }
  }
  return times;
}

}  // namespace twinpod::plan
