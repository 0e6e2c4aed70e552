#include "plan/memory.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/activation.hpp"
#include "model/arithmetic.hpp"
#include "program/schedule.hpp"

namespace twinpod::plan {
namespace {

constexpr double kRuntimeBytes = 1.5e9;        // context, library workspaces and communication channels of one process
constexpr double kAllocatorReserve = 0.03;     // of what the step allocates and frees: holes of a caching allocator

struct ParameterBytes {
  double parameter, gradient, optimizer;
};

// Bytes of one parameter. Mixed precision keeps a 16-bit copy for the products, a gradient, and in fp32 the master
// copy and Adam's two moments; fp32 training has no second copy; FP8 keeps an 8-bit copy (and its transpose) of weights.
ParameterBytes bytes_of_parameter(const spec::Job& job) {
  const spec::Precision p = job.training.precision;
  const bool wide = p == spec::Precision::fp32 || p == spec::Precision::tf32;
  double moments = 2;
  if (job.training.optimizer == spec::Optimizer::sgd_momentum) moments = 1;
  if (job.training.optimizer == spec::Optimizer::sgd) moments = 0;
  if (job.training.optimizer == spec::Optimizer::adafactor) moments = 0.01;
  const double gradient = job.training.gradient_bytes > 0 ? job.training.gradient_bytes : job.stack.gradient_bytes;
  if (wide) return {4, 4, 4 * moments};
  if (job.training.pure_low_precision) return {2, 2, 2 * moments};
  const bool narrow = p == spec::Precision::fp8 || p == spec::Precision::fp4;
  return {narrow && !job.stack.fp8_gather ? 4.0 : 2.0, gradient, 4 + 4 * moments};
}

int expert_layers_of_stage(const spec::Job& job, const std::vector<int>& stages, int stage) {
  int first = 0;
  for (int i = 0; i < stage; ++i) first += stages[static_cast<std::size_t>(i)];
  int count = 0;
  for (int i = first; i < first + stages[static_cast<std::size_t>(stage)]; ++i) {
    count += model::is_expert_layer(job.model, i) ? 1 : 0;
  }
  return count;
}

double activation_memory(const spec::Job& job, int stage, int layers, int expert_layers) {
  const spec::Layout& layout = job.layout;
  const model::Shard shard = model::shard_of(job);
  const model::ActivationRules rules = model::activation_rules(job);
  const double micro_batches = std::max(1.0, job.training.global_batch / (spec::data_parallel(job) * layout.micro_batch));
  const double in_flight = program::micro_batches_in_flight(layout, micro_batches, stage);
  const auto each = [&](const model::ActivationRules& r) {
    return (layers - expert_layers) * model::layer_activation_bytes(job.model, shard, model::LayerKind::dense, r) +
           expert_layers * model::layer_activation_bytes(job.model, shard, model::LayerKind::experts, r);
  };
  double stored = each(rules);
  if (rules.recompute == spec::Recompute::full && layout.recompute_layers > 0 && layout.recompute_layers < layers) {
    model::ActivationRules kept = rules;
    kept.recompute = spec::Recompute::none;
    const double share = static_cast<double>(layout.recompute_layers) / layers;
    stored = share * stored + (1 - share) * each(kept);
  }
  double total = stored * in_flight;
  if (layout.offload_activations) total = stored;  // the others wait in host memory
  const bool experts = expert_layers > 0;
  const auto kind = experts ? model::LayerKind::experts : model::LayerKind::dense;
  total += model::layer_working_bytes(job.model, shard, kind, rules);
  if (stage == layout.pp - 1) total += model::head_activation_bytes(job.model, shard);
  if (stage == 0) total += model::embedding_bytes(job.model, shard) / 3 * in_flight;
  return total;
}

}  // namespace

double shard_ranks(const spec::Job& job) {
  const double all = static_cast<double>(spec::data_parallel(job)) * job.layout.cp;
  return job.layout.shard_group > 0 ? std::min<double>(job.layout.shard_group, all) : all;
}

double expert_shard_ranks(const spec::Job& job) {
  const double etp = job.layout.etp > 0 ? job.layout.etp : job.layout.tp;
  const double copies = static_cast<double>(spec::data_parallel(job)) * job.layout.cp * job.layout.tp / (job.layout.ep * etp);
  return std::max(1.0, copies);
}

RankParameters rank_parameters(const spec::Job& job, int stage, int stage_layers, int stage_expert_layers) {
  const model::ParameterCount count = model::parameters(job.model);
  const double tp = job.layout.tp;
  const double etp = job.layout.etp > 0 ? job.layout.etp : tp;
  RankParameters rank;
  rank.dense = stage_layers * (count.attention / tp + count.norms) + (stage_layers - stage_expert_layers) * count.mlp / tp +
               stage_expert_layers * (count.shared_experts - job.model.hidden * job.model.experts.count) / tp +
               stage_expert_layers * static_cast<double>(job.model.hidden) * job.model.experts.count;
  rank.experts = stage_expert_layers * count.routed_experts / (job.layout.ep * etp);
  if (stage == 0) rank.dense += count.embedding / tp;
  if (stage == job.layout.pp - 1) {
    const bool copy = job.model.tied_embeddings && job.layout.pp > 1;
    rank.dense += (copy ? static_cast<double>(job.model.vocab) * job.model.hidden : count.head) / tp + count.final_norm;
  }
  return rank;
}

MemoryUse stage_memory(const spec::Job& job, int stage) {
  const std::vector<int> stages = program::layers_of_stages(job.model.layers, job.layout);
  const int layers = stages[static_cast<std::size_t>(stage)];
  const int expert_layers = expert_layers_of_stage(job, stages, stage);
  const RankParameters rank = rank_parameters(job, stage, layers, expert_layers);
  const ParameterBytes bytes = bytes_of_parameter(job);
  const double copies = program::parameter_copies(job.layout.schedule);
  const int zero = job.layout.zero;
  const auto sharded = [&](int from_stage) {
    if (zero < from_stage) return rank.total() * copies;
    return (rank.dense / shard_ranks(job) + rank.experts / expert_shard_ranks(job)) * copies;
  };
  MemoryUse use;
  use.stage = stage;
  use.parameters = bytes.parameter * sharded(3);
  use.gradients = bytes.gradient * sharded(2);
  use.optimizer = job.layout.offload_optimizer ? 0 : bytes.optimizer * sharded(1);
  use.activations = activation_memory(job, stage, layers, expert_layers);
  const double layer = rank.total() / std::max(1, layers);
  if (zero == 3) use.communication += 2 * layer * bytes.parameter + layer * bytes.gradient;  // this layer and the next
  else if (spec::data_parallel(job) > 1) use.communication += std::min(rank.total(), 1e8) * bytes.gradient;
  const model::Shard shard = model::shard_of(job);
  if (job.layout.pp > 1) use.communication += 4 * shard.tokens() * job.model.hidden * 2 / (shard.sequence_parallel ? shard.tp : 1);
  if (shard.sequence_parallel && shard.tp > 1) use.communication += 2 * shard.tokens() * job.model.hidden;
  use.runtime = kRuntimeBytes + kAllocatorReserve * (use.activations + use.communication);
  return use;
}

MemoryUse peak_memory(const spec::Job& job) {
  MemoryUse peak = stage_memory(job, 0);
  // Activations fall and the head comes in towards the last stage; the ends and the second stage bound the others.
  for (const int stage : {1, job.layout.pp / 2, job.layout.pp - 1}) {
    if (stage <= 0 || stage >= job.layout.pp) continue;
    const MemoryUse use = stage_memory(job, stage);
    if (use.total() > peak.total()) peak = use;
  }
  return peak;
}

}  // namespace twinpod::plan
