#include "plan/layer_time.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cluster/device_time.hpp"
#include "cluster/network.hpp"
#include "model/arithmetic.hpp"
#include "plan/memory.hpp"

namespace twinpod::plan {
namespace {

using cluster::DeviceTime;
using cluster::Verb;
using model::Gemm;
using model::GemmList;

constexpr double kHalf = 2;               // bytes of a 16-bit element
constexpr double kBackwardAttention = 2.5;  // fused backward recomputes the scores: five products for two
constexpr double kLatentExpansion = 0.4;    // share of latent attention's projections that expand the compressed vectors
constexpr double kPairOverlap = 0.9;        // of a paired micro-batch's computation that communication can hide behind
constexpr double kBackwardLaunch = 1.6;     // kernels of a backward pass over those of the forward pass

struct Scene {
  const spec::Job& job;
  const model::Shard& shard;
  const spec::Physics& physics;
  DeviceTime device;
  bool narrow;              // products in 8 or 4 bits
  spec::Precision wide;     // of what never goes below 16 bits: attention, head
};

Scene scene_of(const spec::Job& job, const model::Shard& shard) {
  const spec::Precision p = job.training.precision;
  return {job, shard, job.stack.physics, DeviceTime(job.cluster.device, job.stack.physics),
          p == spec::Precision::fp8 || p == spec::Precision::fp4,
          p == spec::Precision::fp32 || p == spec::Precision::tf32 ? p : spec::Precision::bf16};
}

struct ProductTime {
  double forward = 0;
  double input_gradient = 0;
  double weight_gradient = 0;
};

ProductTime product_time(const Scene& scene, const GemmList& gemms, double slowdown, spec::Precision precision) {
  ProductTime time;
  for (const Gemm& g : gemms) {
    time.forward += slowdown * scene.device.product(g.m, g.n, g.k, g.groups, precision);
    time.input_gradient += slowdown * scene.device.product(g.m, g.k, g.n, g.groups, precision);
    time.weight_gradient += slowdown * scene.device.product(g.k, g.n, g.m, g.groups, precision);
  }
  return time;
}

void add(ProductTime& sum, const ProductTime& other) {
  sum.forward += other.forward;
  sum.input_gradient += other.input_gradient;
  sum.weight_gradient += other.weight_gradient;
}

// A head width that is no multiple of 8 leaves the fast path of the matrix units, one step for each missing factor of two.
double misalignment_factor(const Scene& scene, int head_dim) {
  const int missing = 3 - static_cast<int>(std::log2(std::gcd(head_dim, 8)));
  return 1 + scene.physics.misalignment * missing;
}

struct Attention {
  double forward = 0;
  double backward = 0;
};

Attention attention_time(const Scene& scene, const model::AttentionWork& work) {
  const spec::Physics& p = scene.physics;
  if (scene.job.stack.fused_attention) {
    // Softmax and its products run in 16 bits, whatever the projections do, unless the whole job is wider.
    const double flop = work.causal_flop() / scene.device.peak(scene.wide);
    return {flop / (p.attention_forward * p.attention_software),
            flop * kBackwardAttention / (p.attention_backward * p.attention_software)};
  }
  // Scores go through memory: two batched products forward and four backward, each bound by its own shape or by the scores
  // that it writes or reads, and softmax, mask and dropout as further passes over the scores.
  const double groups = work.heads * work.batch;
  const double slow = misalignment_factor(scene, work.qk_dim);
  const auto batched = [&](double m, double n, double k) { return slow * scene.device.product(m, n, k, groups, scene.wide); };
  const double scores = batched(work.queries, work.keys, work.qk_dim);
  const double values = batched(work.queries, work.v_dim, work.keys);
  const double gradients = batched(work.keys, work.v_dim, work.queries) + batched(work.queries, work.keys, work.v_dim) +
                           batched(work.queries, work.qk_dim, work.keys) + batched(work.keys, work.qk_dim, work.queries);
  const double bytes = work.score_elements() * p.unfused_bytes;
  return {scores + values + scene.device.memory_bound(bytes), gradients + scene.device.memory_bound(1.35 * bytes)};
}

// Tensor-parallel communication of a layer's forward pass: one all-reduce behind attention and one behind the MLP (or, with
// sequence parallelism, a gather and a scatter of the same volume). A parallel block needs one.
double tensor_s(const Scene& scene, model::LayerKind kind) {
  const spec::Job& job = scene.job;
  if (job.layout.tp <= 1) return 0;
  const cluster::Group group = cluster::group_of(job.cluster, job.layout.tp, 1);
  const double bytes = scene.shard.tokens() * job.model.hidden * kHalf;
  double one = 0;
  if (job.layout.sequence_parallel) {
    one = cluster::collective_s(job.cluster, scene.physics, Verb::all_gather, bytes, group) +
          cluster::collective_s(job.cluster, scene.physics, Verb::reduce_scatter, bytes, group);
  } else {
    one = cluster::collective_s(job.cluster, scene.physics, Verb::all_reduce, bytes, group);
  }
  const bool experts_apart = kind == model::LayerKind::experts && scene.shard.etp == 1 && model::shared_ffn(job.model.experts) <= 0;
  return one * (job.model.parallel_block || experts_apart ? 1 : 2);
}

// Keys and values travel round the ring, or are gathered: each rank receives those of the others.
double context_s(const Scene& scene) {
  const spec::Job& job = scene.job;
  if (job.layout.cp <= 1) return 0;
  const model::AttentionWidths w = model::attention_widths(job.model);
  const cluster::Group group = cluster::group_of(job.cluster, job.layout.cp, job.layout.tp);
  const double bytes = scene.shard.tokens() * (w.key + w.value) / job.layout.tp * kHalf * job.layout.cp;
  return cluster::collective_s(job.cluster, scene.physics, Verb::all_gather, bytes, group);
}

// Copies of a token that leave its scale-up domain, on average. A plain all-to-all sends one for each expert out there; a
// two-level one (DeepEP and alike) sends one for each domain that holds any of the token's k experts: n (1 - (1 - 1/n)^k)
// of n domains are hit, and one of them is the token's own.
double copies_sent_out(const Scene& scene, const cluster::Group& group) {
  const double n = group.domains();
  const double k = scene.job.model.experts.per_token;
  if (n <= 1) return 0;
  const double hit = scene.job.stack.two_level_dispatch ? n * (1 - std::pow(1 - 1 / n, k)) : k;
  return hit * (1 - 1 / n);
}

// Dispatch and combine of one pass through the experts.
double expert_s(const Scene& scene, const model::LayerWork& work) {
  const spec::Job& job = scene.job;
  if (job.layout.ep <= 1 || work.routed_tokens <= 0) return 0;
  const double stride = scene.shard.etp > 1 ? scene.shard.etp : 1;
  const cluster::Group group = cluster::group_of(job.cluster, job.layout.ep, stride);
  const double token_bytes = work.routed_tokens * job.model.hidden * kHalf;
  const double inside = token_bytes * job.model.experts.per_token * (group.per_domain - 1) / group.per_domain;
  const double outside = token_bytes * copies_sent_out(scene, group);
  return 2 * cluster::exchange_s(job.cluster, scene.physics, inside, outside);
}

double layer_parameters(const Scene& scene, model::LayerKind kind) {
  const model::ParameterCount count = model::parameters(scene.job.model);
  const double etp = scene.shard.etp;
  double total = count.attention / scene.shard.tp + count.norms;
  if (kind == model::LayerKind::dense) return total + count.mlp / scene.shard.tp;
  return total + count.shared_experts / scene.shard.tp + count.routed_experts / (scene.shard.ep * etp);
}

struct ShardTraffic {
  double gather = 0;
  double scatter = 0;
};

ShardTraffic shard_traffic(const Scene& scene, double parameters) {
  const spec::Job& job = scene.job;
  if (job.layout.zero < 3) return {};
  const cluster::Group group = cluster::group_of(job.cluster, shard_ranks(job), job.layout.tp);
  const bool narrow_gather = scene.narrow && job.stack.fp8_gather;
  const double calls = std::max(1.0, job.stack.gathers_per_layer);
  const double gather_bytes = parameters * (narrow_gather ? 1 : job.stack.gather_bytes) / calls;
  const double scatter_bytes = parameters * job.stack.scatter_bytes / calls;
  return {calls * cluster::collective_s(job.cluster, scene.physics, Verb::all_gather, gather_bytes, group),
          calls * cluster::collective_s(job.cluster, scene.physics, Verb::reduce_scatter, scatter_bytes, group)};
}

// Gathering of the next layer runs beside this layer's computation: the longer decides, and they disturb each other.
double shard_exposed_s(const Scene& scene, double compute, double traffic) {
  if (traffic <= 0) return 0;
  const double beside = std::cbrt(compute * compute * compute + traffic * traffic * traffic);
  return beside - compute + scene.physics.zero3_overlap * std::min(compute, traffic);
}

double cube(double x) { return x * x * x; }

// Ranks of a tensor-parallel group wait for the slowest host among them at every collective.
double host_s(const Scene& scene, model::LayerKind kind) {
  const spec::Physics& p = scene.physics;
  double host = scene.job.stack.launches * p.launch_s;
  if (scene.job.layout.tp > 1 && host > 0) host += p.launch_tp_s * cube(scene.job.layout.tp / 8.0);
  if (kind == model::LayerKind::experts && !scene.job.stack.expert_sync) host += p.launch_expert_s;
  return host;
}

// Share of a stage's layers that full recomputation does again.
double recomputed_share(const spec::Job& job) {
  const double layers = std::ceil(static_cast<double>(job.model.layers) / job.layout.pp);
  const double share = job.layout.recompute_layers > 0 ? std::min(1.0, job.layout.recompute_layers / layers) : 1.0;
  return share * job.stack.physics.recompute_share;
}

void wait_for_host(Parts& pass, double host) {
  const double busy = pass.total();
  pass[Part::launch] += smooth_max(busy, host) - busy;
}

// DualPipe runs the forward pass of one micro-batch beside the backward pass of another, so that the exchanges of either
// hide behind the computation of both (DeepSeek-V3's report, section 3.2.1).
void hide_behind_pair(PassTime& pass, double exchange) {
  pass.forward[Part::expert] = 0;
  pass.backward[Part::expert] = 0;
  const double computation = pass.forward.total() + pass.backward.total();
  const double exposed = std::max((1 - kPairOverlap) * exchange, exchange - kPairOverlap * computation / 2);
  pass.forward[Part::expert] = exposed;
  pass.backward[Part::expert] = exposed;
}

}  // namespace

double smooth_max(double a, double b) {
  const double high = std::max(a, b);
  if (high <= 0) return 0;
  const double ratio = std::min(a, b) / high;
  const double third = ratio * ratio * ratio;
  return high * std::pow(1 + third * third, 1.0 / 6);
}

PassTime layer_time(const spec::Job& job, const model::Shard& shard, model::LayerKind kind, bool windowed) {
  const Scene scene = scene_of(job, shard);
  const spec::Physics& p = scene.physics;
  const model::LayerWork work = model::layer_work(job.model, shard, kind, windowed);
  const double rowwise = scene.narrow && job.training.rowwise_scaling ? p.rowwise_factor : 1;
  const spec::Precision precision = job.training.precision;

  const ProductTime attention_products = product_time(scene, work.attention_gemms, rowwise, precision);
  ProductTime products = attention_products;
  add(products, product_time(scene, work.mlp_gemms, rowwise, precision));
  if (work.expert_gemms.size > 0) add(products, product_time(scene, work.expert_gemms, rowwise * p.expert_pace / (scene.narrow ? p.grouped_efficiency_fp8 : p.grouped_efficiency), precision));
  const Attention attention = attention_time(scene, work.attention);

  const double cast = scene.narrow ? scene.device.memory_bound(p.cast_bytes * work.gemm_input_elements) : 0;
  const double permute = scene.device.memory_bound(2 * work.permute_bytes * p.element_factor * p.expert_pace);
  const double forward_elements = scene.device.memory_bound(work.elements.forward_bytes * p.element_factor) + permute +
                                  work.elements.forward_kernels * p.kernel_launch_s + cast;
  const double backward_elements = scene.device.memory_bound(work.elements.backward_bytes * p.element_factor) + permute +
                                   work.elements.backward_kernels * p.kernel_launch_s + 2 * cast;

  const double async = job.layout.async_tp ? 0.8 : 1;
  const double tensor = tensor_s(scene, kind) * (1 - p.tp_hidden) * async;
  const double context = context_s(scene) * (1 - p.cp_hidden);
  const double exchange = expert_s(scene, work) * p.expert_pace;
  const double expert = exchange * (1 - p.ep_hidden);

  PassTime pass;
  pass.forward[Part::products] = products.forward;
  pass.forward[Part::attention] = attention.forward;
  pass.forward[Part::elements] = forward_elements;
  pass.forward[Part::tensor] = tensor;
  pass.forward[Part::context] = context;
  pass.forward[Part::expert] = expert;

  pass.backward[Part::products] = products.input_gradient + products.weight_gradient;
  pass.backward[Part::attention] = attention.backward;
  pass.backward[Part::elements] = backward_elements;
  pass.backward[Part::tensor] = tensor * (job.layout.sequence_parallel ? p.sp_backward : 1);
  pass.backward[Part::context] = 2 * context;
  pass.backward[Part::expert] = expert;
  pass.weight_s = products.weight_gradient;
  if (job.layout.schedule == spec::Schedule::dualpipe && exchange > 0) hide_behind_pair(pass, exchange);

  const double forward_busy = pass.forward.total();
  double repeat = 0;  // kernels of the forward pass launched again
  const double recomputed = recomputed_share(job);
  if (job.layout.recompute == spec::Recompute::full) {
    pass.backward[Part::recompute] = recomputed * forward_busy;
    repeat = recomputed;
  } else if (job.layout.recompute == spec::Recompute::selective) {
    const double expanded = job.model.attention.kv_rank > 0 ? kLatentExpansion * attention_products.forward : 0;
    const double kept_scores = job.stack.fused_attention ? 0.3 * forward_elements + expanded : attention.forward;
    pass.backward[Part::recompute] = kept_scores + job.stack.selective_products * (products.forward + tensor / 2);
    repeat = 0.2 + job.stack.selective_products;
  }
  const double attention_flop = job.stack.fused_attention ? work.attention.causal_flop() : work.attention.full_flop();
  const double forward_flop = work.attention_gemms.flop() + work.mlp_gemms.flop() + work.expert_gemms.flop() + attention_flop;
  const double again = job.layout.recompute == spec::Recompute::full ? recomputed * forward_flop
                       : job.layout.recompute == spec::Recompute::selective && !job.stack.fused_attention ? attention_flop : 0;
  pass.executed_flop = 3 * forward_flop + again;

  const ShardTraffic traffic = shard_traffic(scene, layer_parameters(scene, kind));
  const double again_gather = job.stack.reshard_after_forward ? traffic.gather : 0;
  pass.forward[Part::shard] = shard_exposed_s(scene, pass.forward.total(), traffic.gather);
  pass.backward[Part::shard] = shard_exposed_s(scene, pass.backward.total(), again_gather + traffic.scatter);

  // A host that must read how many tokens each expert got cannot run ahead of the device.
  if (kind == model::LayerKind::experts && job.stack.expert_sync) {
    pass.forward[Part::launch] += p.launch_expert_s;
    pass.backward[Part::launch] += p.launch_expert_s;
  }
  const double host = host_s(scene, kind);
  wait_for_host(pass.forward, host);
  wait_for_host(pass.backward, host * (kBackwardLaunch + repeat));
  return pass;
}

PassTime head_time(const spec::Job& job, const model::Shard& shard) {
  const Scene scene = scene_of(job, shard);
  const model::HeadWork work = model::head_work(job.model, shard);
  const Gemm& g = work.logits;
  const double copies = 1 + job.model.mtp_layers;
  const double loss = scene.device.memory_bound(scene.physics.logit_bytes * work.logit_elements);
  PassTime pass;
  const double forward = scene.device.product(g.m, g.n, g.k, 1, scene.wide) + loss / 2;
  const double backward = scene.device.product(g.m, g.k, g.n, 1, scene.wide) + scene.device.product(g.k, g.n, g.m, 1, scene.wide) + loss / 2;
  pass.forward[Part::head] = smooth_max(copies * forward, scene.physics.launch_head_s / 3);
  pass.backward[Part::head] = smooth_max(copies * backward, scene.physics.launch_head_s * 2 / 3);
  pass.weight_s = copies * scene.device.product(g.k, g.n, g.m, 1, scene.wide);
  pass.executed_flop = 3 * copies * g.flop();
  if (job.layout.zero == 3) {
    const ShardTraffic traffic = shard_traffic(scene, static_cast<double>(job.model.vocab) * job.model.hidden / shard.tp);
    pass.forward[Part::shard] = shard_exposed_s(scene, forward, traffic.gather);
    pass.backward[Part::shard] = shard_exposed_s(scene, backward, traffic.gather + traffic.scatter);
  }
  return pass;
}

PassTime embedding_time(const spec::Job& job, const model::Shard& shard) {
  const Scene scene = scene_of(job, shard);
  PassTime pass;
  pass.forward[Part::head] = scene.device.memory_bound(model::embedding_bytes(job.model, shard));
  pass.backward[Part::head] = 2 * pass.forward[Part::head];
  if (job.layout.tp > 1) {
    const cluster::Group group = cluster::group_of(job.cluster, job.layout.tp, 1);
    const double bytes = shard.tokens() * job.model.hidden * kHalf;
    pass.forward[Part::tensor] = cluster::collective_s(job.cluster, scene.physics, Verb::all_reduce, bytes, group);
  }
  return pass;
}

}  // namespace twinpod::plan
