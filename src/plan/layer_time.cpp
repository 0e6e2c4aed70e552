#include "plan/layer_time.hpp"

#include <algorithm>
#include <cmath>

#include "cluster/device_time.hpp"
#include "cluster/network.hpp"
#include "model/activation.hpp"
#include "plan/layer_kernels.hpp"
#include "program/volume.hpp"
#include "program/work.hpp"

namespace twinpod::plan {
namespace {

using cluster::Verb;

constexpr double kCheapLaunches = 0.2;   // the same of launches
constexpr double kAsyncTensor = 0.8;     // of tensor-parallel time that products cut in pieces leave
constexpr double kPairOverlap = 0.9;     // of a paired micro-batch's computation that communication can hide behind
constexpr double kBackwardLaunch = 1.6;  // kernels of a backward pass over those of the forward pass

double collective(const spec::Job& job, Verb verb, double bytes, const cluster::Group& group) {
  return cluster::collective_s(job.cluster, job.stack.physics, verb, bytes, group);
}

double tensor_s(const spec::Job& job, const program::LayerVolumes& v) {
  if (v.tensor_calls == 0) return 0;
  const double one = job.layout.sequence_parallel
                         ? collective(job, Verb::all_gather, v.tensor_bytes, v.tensor_group) +
                               collective(job, Verb::reduce_scatter, v.tensor_bytes, v.tensor_group)
                         : collective(job, Verb::all_reduce, v.tensor_bytes, v.tensor_group);
  return one * v.tensor_calls;
}

// Dispatch and combine of one pass through the experts.
double exchange_s(const spec::Job& job, const program::LayerVolumes& v) {
  const spec::Physics& p = job.stack.physics;
  return 2 * cluster::exchange_s(job.cluster, p, v.exchange_group, v.exchange_inside_bytes, v.exchange_outside_bytes) *
         p.expert_pace;
}

// DualPipe runs the forward pass of one micro-batch beside the backward pass of another, so that the exchanges of
// either hide behind the computation of both (DeepSeek-V3's report, section 3.2.1).
double exposed_beside_pair(const PassTime& pass, double exchange) {
  const double computation = pass.forward.total() + pass.backward.total();
  return std::max((1 - kPairOverlap) * exchange, exchange - kPairOverlap * computation / 2);
}

void add_kernels(const KernelTime& kernels, PassTime& pass) {
  const ProductTime& products = kernels.products;
  pass.forward[Part::products] = products.forward;
  pass.forward[Part::attention] = kernels.attention_forward;
  pass.forward[Part::elements] = kernels.elements_forward;
  pass.backward[Part::products] = products.input_gradient + products.weight_gradient;
  pass.backward[Part::attention] = kernels.attention_backward;
  pass.backward[Part::elements] = kernels.elements_backward;
  pass.weight_s = products.weight_gradient;
}

void add_communication(const spec::Job& job, const LayerBase& base, PassTime& pass) {
  const spec::Physics& p = job.stack.physics;
  const double tensor = base.tensor_s * (1 - p.tp_hidden) * (job.layout.async_tp ? kAsyncTensor : 1);
  pass.forward[Part::tensor] = tensor;
  pass.backward[Part::tensor] = tensor * (job.layout.sequence_parallel ? p.sp_backward : 1);
  pass.forward[Part::context] = base.context_s * (1 - p.cp_hidden);
  pass.backward[Part::context] = 2 * pass.forward[Part::context];
  const bool in_pairs = job.layout.schedule == spec::Schedule::dualpipe;
  const double exposed = in_pairs ? exposed_beside_pair(pass, base.exchange_s) : base.exchange_s * (1 - p.ep_hidden);
  pass.forward[Part::expert] = exposed;
  pass.backward[Part::expert] = exposed;
}

// Share of a stage's layers that full recomputation does again.
double recomputed_share(const spec::Job& job) {
  const double layers = std::ceil(static_cast<double>(job.model.layers) / job.layout.pp);
  const double share = job.layout.recompute_layers > 0 ? std::min(1.0, job.layout.recompute_layers / layers) : 1.0;
  return share * job.stack.physics.recompute_share;
}

// What of the forward pass is done again in the backward pass: seconds, and the share of its launches.
struct Repeat {
  double seconds = 0;
  double launches = 0;
};

Repeat selective_repeat(const spec::Job& job, const KernelTime& kernels, const PassTime& pass) {
  const double expanded = job.model.attention.kv_rank > 0 ? program::kLatentExpansion * kernels.projections.forward : 0;
  const double cheap = job.stack.fused_attention ? program::kCheapElements * kernels.elements_forward + expanded
                                                 : kernels.attention_forward;
  const double share = job.stack.selective_products;
  return {cheap + share * (kernels.products.forward + pass.forward[Part::tensor] / 2), kCheapLaunches + share};
}

Repeat repeat_of(const spec::Job& job, const KernelTime& kernels, const PassTime& pass) {
  switch (job.layout.recompute) {
    case spec::Recompute::none:
      return {};
    case spec::Recompute::selective:
      return selective_repeat(job, kernels, pass);
    case spec::Recompute::full:
      return {recomputed_share(job) * pass.forward.total(), recomputed_share(job)};
  }
  return {};
}

double executed_flop(const spec::Job& job, const LayerBase& base) {
  double again = 0;
  if (job.layout.recompute == spec::Recompute::full) again = recomputed_share(job) * base.forward_flop;
  if (job.layout.recompute == spec::Recompute::selective && !job.stack.fused_attention) again = base.attention_flop;
  return 3 * base.forward_flop + again;
}

// Gathering of the next layer runs beside this layer's computation: the longer decides, and they disturb each other.
double exposed_beside(const spec::Job& job, double compute, double traffic) {
  if (traffic <= 0) return 0;
  const double beside = std::cbrt(compute * compute * compute + traffic * traffic * traffic);
  return beside - compute + job.stack.physics.zero3_overlap * std::min(compute, traffic);
}

struct ShardTime {
  double gather = 0;
  double scatter = 0;
};

void add(const spec::Job& job, const program::ShardVolumes& v, ShardTime& time) {
  if (v.calls <= 0) return;
  time.gather += v.calls * collective(job, Verb::all_gather, v.gather_bytes / v.calls, v.group);
  time.scatter += v.calls * collective(job, Verb::reduce_scatter, v.scatter_bytes / v.calls, v.group);
}

// REQUIRES: ZeRO-3.
void add_sharding(const spec::Job& job, const program::PieceParameters& piece, bool gathers_again, PassTime& pass) {
  ShardTime time;
  add(job, program::dense_shard_volumes(job, piece.dense), time);
  add(job, program::expert_shard_volumes(job, piece.experts), time);
  // What is gathered once for all micro-batches is shared by them.
  const bool once = program::gathers_once_a_step(job);
  const double sharers = once ? spec::micro_batches(job) : 1;
  const double again = gathers_again && !once ? time.gather : 0;
  pass.forward[Part::shard] = exposed_beside(job, pass.forward.total(), time.gather) / sharers;
  pass.backward[Part::shard] = exposed_beside(job, pass.backward.total(), again + time.scatter) / sharers;
}

// Activations on their way to host memory and back travel beside the computation; what takes longer than that shows.
void add_parking(const spec::Job& job, const model::Shard& shard, model::LayerKind kind, PassTime& pass) {
  if (!job.layout.offload_activations || job.cluster.device.host_bytes_per_s <= 0) return;
  const double bytes = model::layer_activation_bytes(job.model, shard, kind, model::activation_rules(job));
  const double travel = bytes / job.cluster.device.host_bytes_per_s;
  pass.forward[Part::parking] = std::max(0.0, travel - pass.forward.total());
  pass.backward[Part::parking] = std::max(0.0, travel - pass.backward.total());
}

double cube(double x) { return x * x * x; }

// Host time to launch a layer's forward pass. Ranks of a tensor-parallel group wait for the slowest host among them at
// every collective.
double host_s(const spec::Job& job, model::LayerKind kind) {
  const spec::Physics& p = job.stack.physics;
  double host = job.stack.launches * p.launch_s;
  if (job.layout.tp > 1 && host > 0) host += p.launch_tp_s * cube(job.layout.tp / 8.0);
  if (kind == model::LayerKind::experts && !job.stack.expert_sync) host += p.launch_expert_s;
  return host;
}

void wait_for_host(Parts& pass, double host) {
  const double busy = pass.total();
  pass[Part::launch] += smooth_max(busy, host) - busy;
}

void add_launches(const spec::Job& job, model::LayerKind kind, double repeated, PassTime& pass) {
  // A host that must read how many tokens each expert got cannot run ahead of the device.
  if (kind == model::LayerKind::experts && job.stack.expert_sync) {
    pass.forward[Part::launch] += job.stack.physics.launch_expert_s;
    pass.backward[Part::launch] += job.stack.physics.launch_expert_s;
  }
  const double host = host_s(job, kind);
  wait_for_host(pass.forward, host);
  wait_for_host(pass.backward, host * (kBackwardLaunch + repeated));
}

}  // namespace

double smooth_max(double a, double b) {
  const double high = std::max(a, b);
  if (high <= 0) return 0;
  const double third = cube(std::min(a, b) / high);
  return high * std::pow(1 + third * third, 1.0 / 6);
}

LayerBase layer_base(const spec::Job& job, const model::Shard& shard, model::LayerKind kind, bool windowed) {
  const model::LayerWork work = model::layer_work(job.model, shard, kind, windowed);
  const program::LayerVolumes volumes = program::layer_volumes(job, shard, work, kind);
  LayerBase base;
  base.kind = kind;
  base.kernels = layer_kernels(job, work);
  base.tensor_s = tensor_s(job, volumes);
  base.context_s = collective(job, Verb::all_gather, volumes.context_bytes, volumes.context_group);
  base.exchange_s = exchange_s(job, volumes);
  base.attention_flop = attention_flop(job, work.attention);
  base.forward_flop =
      work.attention_gemms.flop() + work.mlp_gemms.flop() + work.expert_gemms.flop() + base.attention_flop;
  return base;
}

PassTime layer_time(const spec::Job& job, const model::Shard& shard, const LayerBase& base) {
  PassTime pass;
  add_kernels(base.kernels, pass);
  add_communication(job, base, pass);
  const Repeat repeat = repeat_of(job, base.kernels, pass);
  pass.backward[Part::recompute] = repeat.seconds;
  const double busy = pass.backward.total();
  add_parking(job, shard, base.kind, pass);
  if (job.layout.zero == 3)
    add_sharding(job, program::layer_parameters(job, shard, base.kind), job.stack.reshard_after_forward, pass);
  add_launches(job, base.kind, repeat.launches, pass);
  // Waiting stretches all of the backward pass, the part that a zero-bubble schedule moves included.
  if (busy > 0) pass.weight_s *= pass.backward.total() / busy;
  pass.executed_flop = executed_flop(job, base);
  return pass;
}

PassTime layer_time(const spec::Job& job, const model::Shard& shard, model::LayerKind kind, bool windowed) {
  return layer_time(job, shard, layer_base(job, shard, kind, windowed));
}

PassTime head_base(const spec::Job& job, const model::Shard& shard) {
  const cluster::DeviceTime device(job.cluster.device, job.stack.physics);
  const spec::Physics& p = job.stack.physics;
  const spec::Precision wide = wide_precision(job);
  const model::HeadWork work = model::head_work(job.model, shard);
  const model::Gemm& g = work.logits;
  const double copies = 1 + job.model.mtp_layers;
  // A prediction module joins two hidden vectors to one before its layer.
  const model::Gemm join{g.m, g.k, 2 * g.k};
  const double joining = job.model.mtp_layers * device.product(join.m, join.n / shard.tp, join.k, 1, wide);
  const double loss = device.memory_bound(p.logit_bytes * work.logit_elements);
  const double weights = device.product(g.k, g.n, g.m, 1, wide);
  const double forward = device.product(g.m, g.n, g.k, 1, wide) + loss / 2;
  const double backward = device.product(g.m, g.k, g.n, 1, wide) + weights + loss / 2;
  PassTime pass;
  pass.forward[Part::head] = smooth_max(copies * forward + joining, p.launch_head_s / 3);
  pass.backward[Part::head] = smooth_max(copies * backward + 2 * joining, p.launch_head_s * 2 / 3);
  pass.weight_s = copies * weights;
  pass.executed_flop = 3 * (copies * g.flop() + job.model.mtp_layers * join.flop() / shard.tp);
  return pass;
}

PassTime head_time(const spec::Job& job, const model::Shard& shard, const PassTime& base) {
  PassTime pass = base;
  const double parameters = static_cast<double>(job.model.vocab) * job.model.hidden / shard.tp;
  if (job.layout.zero == 3) add_sharding(job, {parameters, 0}, true, pass);
  return pass;
}

PassTime head_time(const spec::Job& job, const model::Shard& shard) {
  return head_time(job, shard, head_base(job, shard));
}

PassTime embedding_time(const spec::Job& job, const model::Shard& shard) {
  const cluster::DeviceTime device(job.cluster.device, job.stack.physics);
  PassTime pass;
  pass.forward[Part::head] = device.memory_bound(model::embedding_bytes(job.model, shard));
  pass.backward[Part::head] = 2 * pass.forward[Part::head];
  const cluster::Group group = cluster::group_of(job.cluster, job.layout.tp, 1);
  const double bytes = shard.tokens() * job.model.hidden * program::activation_bytes(job);
  pass.forward[Part::tensor] = collective(job, Verb::all_reduce, bytes, group);
  return pass;
}

}  // namespace twinpod::plan
