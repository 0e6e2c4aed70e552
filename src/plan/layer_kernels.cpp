#include "plan/layer_kernels.hpp"

#include <cmath>
#include <numeric>

namespace twinpod::plan {
namespace {

using cluster::DeviceTime;
using model::Gemm;
using model::GemmList;

constexpr double kBackwardAttention = 2.5;  // fused backward recomputes the scores: five products for two
constexpr double kBackwardScores = 1.35;    // passes over unfused scores, backward over forward

ProductTime product_time(const DeviceTime& device, const GemmList& gemms, double slowdown, spec::Precision precision) {
  ProductTime time;
  for (const Gemm& g : gemms) {
    time.forward += slowdown * device.product(g.m, g.n, g.k, g.groups, precision);
    time.input_gradient += slowdown * device.product(g.m, g.k, g.n, g.groups, precision);
    time.weight_gradient += slowdown * device.product(g.k, g.n, g.m, g.groups, precision);
  }
  return time;
}

void add(ProductTime& sum, const ProductTime& other) {
  sum.forward += other.forward;
  sum.input_gradient += other.input_gradient;
  sum.weight_gradient += other.weight_gradient;
}

void add_products(const spec::Job& job, const DeviceTime& device, const model::LayerWork& work, KernelTime& time) {
  const spec::Physics& p = job.stack.physics;
  const spec::Precision precision = job.training.precision;
  const double rowwise = spec::is_narrow(job.training.precision) && job.training.rowwise_scaling ? p.rowwise_factor : 1;
  time.projections = product_time(device, work.attention_gemms, rowwise, precision);
  time.products = time.projections;
  add(time.products, product_time(device, work.mlp_gemms, rowwise, precision));
  if (work.expert_gemms.size == 0) return;
  const double grouped = spec::is_narrow(job.training.precision) ? p.grouped_efficiency_fp8 : p.grouped_efficiency;
  add(time.products, product_time(device, work.expert_gemms, rowwise * p.expert_pace / grouped, precision));
}

// A head width that is no multiple of 8 leaves the fast path of the matrix units, one step for each missing factor of
// two.
double misalignment_factor(const spec::Physics& physics, int head_dim) {
  const int missing = 3 - static_cast<int>(std::log2(std::gcd(head_dim, 8)));
  return 1 + physics.misalignment * missing;
}

// Softmax and its products run in 16 bits, whatever the projections do, unless the whole job is wider.
void add_fused_attention(const spec::Job& job, const DeviceTime& device, const model::AttentionWork& work,
                         KernelTime& time) {
  const spec::Physics& p = job.stack.physics;
  const double at_peak = work.causal_flop() / device.peak(wide_precision(job));
  time.attention_forward = at_peak / (p.attention_forward * p.attention_software);
  time.attention_backward = at_peak * kBackwardAttention / (p.attention_backward * p.attention_software);
}

// Scores go through memory: two batched products forward and four backward, each bound by its own shape or by the
// scores that it writes or reads, and softmax, mask and dropout as further passes over the scores.
void add_unfused_attention(const spec::Job& job, const DeviceTime& device, const model::AttentionWork& work,
                           KernelTime& time) {
  const spec::Physics& p = job.stack.physics;
  const double groups = work.heads * work.batch;
  const double slow = misalignment_factor(p, work.qk_dim);
  const auto batched = [&](double m, double n, double k) {
    return slow * device.product(m, n, k, groups, wide_precision(job));
  };
  const double scores = batched(work.queries, work.keys, work.qk_dim);
  const double values = batched(work.queries, work.v_dim, work.keys);
  const double gradients = batched(work.keys, work.v_dim, work.queries) + batched(work.queries, work.keys, work.v_dim) +
                           batched(work.queries, work.qk_dim, work.keys) +
                           batched(work.keys, work.qk_dim, work.queries);
  const double bytes = work.score_elements() * p.unfused_bytes;
  time.attention_forward = scores + values + device.memory_bound(bytes);
  time.attention_backward = gradients + device.memory_bound(kBackwardScores * bytes);
}

void add_elements(const spec::Job& job, const DeviceTime& device, const model::LayerWork& work, KernelTime& time) {
  const spec::Physics& p = job.stack.physics;
  const model::ElementWork& e = work.elements;
  const double cast =
      spec::is_narrow(job.training.precision) ? device.memory_bound(p.cast_bytes * work.gemm_input_elements) : 0;
  // Tokens are sorted by expert before the experts and back after them.
  const double permute = device.memory_bound(2 * work.permute_bytes * p.element_factor * p.expert_pace);
  time.elements_forward =
      device.memory_bound(e.forward_bytes * p.element_factor) + permute + e.forward_kernels * p.kernel_launch_s + cast;
  time.elements_backward = device.memory_bound(e.backward_bytes * p.element_factor) + permute +
                           e.backward_kernels * p.kernel_launch_s + 2 * cast;
}

}  // namespace

KernelTime layer_kernels(const spec::Job& job, const model::LayerWork& work) {
  const DeviceTime device(job.cluster.device, job.stack.physics);
  KernelTime time;
  add_products(job, device, work, time);
  const auto add_attention = job.stack.fused_attention ? add_fused_attention : add_unfused_attention;
  add_attention(job, device, work.attention, time);
  add_elements(job, device, work, time);
  return time;
}

double attention_flop(const spec::Job& job, const model::AttentionWork& work) {
  return job.stack.fused_attention ? work.causal_flop() : work.full_flop();
}

spec::Precision wide_precision(const spec::Job& job) {
  return spec::is_wide(job.training.precision) ? job.training.precision : spec::Precision::bf16;
}

}  // namespace twinpod::plan
