#include "plan/memory.hpp"

#include <algorithm>
#include <array>

#include "model/activation.hpp"
#include "model/arithmetic.hpp"
#include "program/schedule.hpp"
#include "program/state.hpp"
#include "program/volume.hpp"

namespace twinpod::plan {
namespace {

using model::LayerKind;

constexpr int kGatheredLayers = 2;  // ZeRO-3 gathers the next layer while one is computed

// What all stages of a job have in common, computed once: a search asks for the peak of millions of layouts.
struct Scene {
  const spec::Job& job;
  model::ParameterCount count;
  model::Shard shard;
  model::ActivationRules rules;
  program::ParameterBytes bytes;
  double micro_batches = 1;
  double shards = 1;
  double expert_shards = 1;
  double dense_layer = 0;  // bytes that one layer stores for one micro-batch
  double expert_layer = 0;
  double dense_working = 0;
  double expert_working = 0;
  double kept_dense_layer = 0;  // the same of layers that partial recompute leaves alone
  double kept_expert_layer = 0;
};

Scene scene_of(const spec::Job& job) {
  Scene scene{job, model::parameters(job.model), model::shard_of(job), model::activation_rules(job),
              program::bytes_of_parameter(job)};
  const spec::Model& model = job.model;
  scene.micro_batches = spec::micro_batches(job);
  scene.shards = program::shard_ranks(job);
  scene.expert_shards = program::expert_shard_ranks(job);
  const auto stored = [&](LayerKind kind) { return layer_activation_bytes(model, scene.shard, kind, scene.rules); };
  const auto working = [&](LayerKind kind) { return layer_working_bytes(model, scene.shard, kind, scene.rules); };
  scene.dense_layer = stored(LayerKind::dense);
  scene.dense_working = working(LayerKind::dense);
  if (model.experts.count > 0) {
    scene.expert_layer = stored(LayerKind::experts);
    scene.expert_working = working(LayerKind::experts);
  }
  scene.kept_dense_layer = scene.dense_layer;
  scene.kept_expert_layer = scene.expert_layer;
  if (scene.rules.recompute == spec::Recompute::full && job.layout.recompute_layers > 0) {
    model::ActivationRules none = scene.rules;
    none.recompute = spec::Recompute::none;
    scene.kept_dense_layer = layer_activation_bytes(model, scene.shard, LayerKind::dense, none);
    if (model.experts.count > 0)
      scene.kept_expert_layer = layer_activation_bytes(model, scene.shard, LayerKind::experts, none);
  }
  return scene;
}

Stage stage_of(const spec::Job& job, int index) {
  const program::StageLayers own = program::layers_of_stage(job.model.layers, job.layout, index);
  const int before = model::expert_layers_before(job.model, own.first);
  return {index, own.count, model::expert_layers_before(job.model, own.first + own.count) - before,
          index == job.layout.pp - 1};
}

// Of one micro-batch. Layers beyond `recompute_layers` keep everything.
double stored_bytes(const Scene& scene, const Stage& stage) {
  const int limit = scene.job.layout.recompute_layers;
  const double again = limit > 0 && stage.layers > 0 ? std::min(1.0, static_cast<double>(limit) / stage.layers) : 1;
  const double dense = again * scene.dense_layer + (1 - again) * scene.kept_dense_layer;
  const double expert = again * scene.expert_layer + (1 - again) * scene.kept_expert_layer;
  double total = stage.dense_layers() * dense + stage.expert_layers * expert;
  if (stage.last) total += scene.job.model.mtp_layers * (scene.job.model.experts.count > 0 ? expert : dense);
  if (stage.index == 0) total += model::embedding_activation_bytes(scene.job.model, scene.shard);
  return total;
}

StageActivations activations_of(const Scene& scene, const Stage& stage) {
  const spec::Job& job = scene.job;
  StageActivations use;
  use.in_flight = program::micro_batches_in_flight(job.layout, scene.micro_batches, stage.index);
  use.stored = stored_bytes(scene, stage) * use.in_flight;
  // The others wait in host memory; one layer is at work, one on its way.
  if (job.layout.offload_activations) {
    const double all = use.stored;
    use.stored = std::min(all, 2 * std::max(scene.dense_layer, scene.expert_layer));
    use.parked = all - use.stored;
  }
  use.working = stage.dense_layers() > 0 ? scene.dense_working : 0;
  if (stage.expert_layers > 0) use.working = std::max(use.working, scene.expert_working);
  if (stage.last) use.working = std::max(use.working, head_activation_bytes(job.model, scene.shard, scene.rules));
  return use;
}

RankParameters parameters_of(const Scene& scene, const Stage& stage) {
  const spec::Job& job = scene.job;
  const model::ParameterCount& count = scene.count;
  const double tp = job.layout.tp;
  const double router = count.router;
  const double expert_layer = (count.shared_experts - router) / tp + router;
  const double routed = count.routed_experts / (static_cast<double>(job.layout.ep) * spec::expert_tp(job.layout));
  RankParameters rank;
  rank.dense = stage.layers * (count.attention / tp + count.norms) + stage.dense_layers() * count.mlp / tp +
               stage.expert_layers * expert_layer;
  rank.experts = stage.expert_layers * routed;
  if (stage.index == 0) rank.dense += count.embedding / tp;
  if (!stage.last) return rank;
  const bool copied = job.model.tied_embeddings && job.layout.pp > 1;
  rank.dense += (copied ? static_cast<double>(job.model.vocab) * job.model.hidden : count.head) / tp + count.final_norm;
  if (job.model.mtp_layers > 0) {
    const double routed_mtp = job.model.experts.count > 0 ? job.model.mtp_layers * count.routed_experts : 0;
    rank.dense += (count.mtp - routed_mtp) / tp;
    rank.experts += job.model.mtp_layers * routed;
  }
  return rank;
}

// A pipeline would gather and reduce for every micro-batch; it keeps parameters and gradients whole for the step
// instead.
bool keeps_whole_gradients(const spec::Job& job) { return job.layout.pp > 1; }

bool keeps_whole_parameters(const Scene& scene) {
  const spec::Job& job = scene.job;
  return scene.shards > 1 && program::gathers_once_a_step(job);
}

// Parameters that ZeRO-3 gathers at one time: this layer and the next, and what stands outside the layers.
double gathered_parameters(const Scene& scene, const Stage& stage, const RankParameters& rank) {
  const double tp = scene.job.layout.tp;
  const double outside = ((stage.index == 0 ? scene.count.embedding : 0) + (stage.last ? scene.count.head : 0)) / tp;
  const double layer = (rank.total() - outside) / std::max(1, stage.layers);
  return std::min(rank.total(), kGatheredLayers * layer + outside);
}

double communication_bytes(const Scene& scene, const Stage& stage, const RankParameters& rank) {
  const spec::Job& job = scene.job;
  const double ends = scene.shard.tokens() * job.model.hidden * scene.rules.element_bytes;
  const double split = scene.shard.sequence_parallel ? job.layout.tp : 1;
  double bytes = 0;
  if (job.layout.zero == 3 && scene.shards > 1 && !keeps_whole_parameters(scene)) {
    // Their gradients stand there in full until they are scattered.
    bytes += gathered_parameters(scene, stage, rank) * (scene.bytes.gathered + program::kHalfBytes);
  }
  if (spec::data_parallel(job) > 1)
    bytes += std::min(job.stack.memory.bucket_bytes, rank.total() * scene.bytes.gradient);
  if (job.layout.pp > 1) bytes += program::kTransferBuffers * ends / split;
  if (split > 1) bytes += ends;  // the gathered input of a product
  return bytes;
}

// Parameters of which this rank holds what is sharded from ZeRO stage `from` on.
double held(const Scene& scene, const RankParameters& rank, int from) {
  if (scene.job.layout.zero < from) return rank.total();
  return rank.dense / scene.shards + rank.experts / scene.expert_shards;
}

// Whole 16-bit parameters hold the shard too, unless the shard is the fp32 master copy.
double parameter_bytes(const Scene& scene, const RankParameters& rank) {
  const double shard = scene.bytes.parameter * held(scene, rank, 3);
  if (!keeps_whole_parameters(scene)) return shard;
  return scene.bytes.gathered * rank.total() + (scene.bytes.parameter > scene.bytes.gathered ? shard : 0);
}

double gradient_bytes(const Scene& scene, const RankParameters& rank) {
  return scene.bytes.gradient * (keeps_whole_gradients(scene.job) ? rank.total() : held(scene, rank, 2));
}

// The host or a parameter server holds the optimizer's state.
bool updates_elsewhere(const spec::Job& job) { return job.layout.offload_optimizer || job.layout.servers > 0; }

void add_update(const Scene& scene, double owned, MemoryUse& use) {
  const spec::Job& job = scene.job;
  const spec::MemoryHabits& habits = job.stack.memory;
  const double transient = use.activations + use.communication;
  const double update = updates_elsewhere(job) ? 0 : habits.update_bytes * owned;
  const double flattened = job.layout.zero < 3 && !updates_elsewhere(job) ? habits.flatten_bytes * owned : 0;
  use.update = std::max(0.0, update - transient);
  const double wanted = std::min(update, transient) + flattened + habits.reserve * transient;
  const double capacity = job.cluster.device.memory_bytes;
  use.cache = capacity > 0 ? std::clamp(capacity - use.needed(), 0.0, wanted) : wanted;
}

// What a rank holds and does: its stage, and with DualPipe, which feeds the pipeline from both ends, the mirrored stage
// too, each for one half of the micro-batches.
struct RankLoad {
  RankParameters parameters;
  StageActivations activations;
};

RankLoad load_of(const Scene& scene, const Stage& stage) {
  RankLoad load{parameters_of(scene, stage), activations_of(scene, stage)};
  if (scene.job.layout.schedule != spec::Schedule::dualpipe) return load;
  const Stage mirrored = stage_of(scene.job, scene.job.layout.pp - 1 - stage.index);
  const RankParameters more = parameters_of(scene, mirrored);
  const StageActivations other = activations_of(scene, mirrored);
  load.parameters.dense += more.dense;
  load.parameters.experts += more.experts;
  load.activations.stored = (load.activations.stored + other.stored) / 2;
  load.activations.parked = (load.activations.parked + other.parked) / 2;
  load.activations.working = std::max(load.activations.working, other.working);
  return load;
}

MemoryUse memory_of(const Scene& scene, const Stage& stage) {
  const spec::Job& job = scene.job;
  const RankLoad load = load_of(scene, stage);
  const RankParameters& rank = load.parameters;
  const double owned = held(scene, rank, 1);
  const bool gradients_on_host = job.layout.offload_optimizer && job.layout.zero >= 2 && !keeps_whole_gradients(job);
  MemoryUse use;
  use.stage = stage.index;
  use.parameters = parameter_bytes(scene, rank);
  use.gradients = gradients_on_host ? 0 : gradient_bytes(scene, rank);
  (updates_elsewhere(job) ? use.elsewhere : use.optimizer) = scene.bytes.optimizer * owned;
  if (gradients_on_host) use.elsewhere += scene.bytes.gradient * owned;
  use.activations = load.activations.total();
  use.parked = load.activations.parked;
  use.communication = communication_bytes(scene, stage, rank);
  use.runtime = job.stack.memory.runtime_bytes;
  add_update(scene, owned, use);
  return use;
}

}  // namespace

RankParameters rank_parameters(const spec::Job& job, int stage, int stage_layers, int stage_expert_layers) {
  const Scene scene{job, model::parameters(job.model), {}, {}, {}};
  return parameters_of(scene, {stage, stage_layers, stage_expert_layers, stage == job.layout.pp - 1});
}

RankParameters mean_rank_parameters(const spec::Job& job) {
  const Scene scene{job, model::parameters(job.model), {}, {}, {}};
  RankParameters sum;
  for (int index = 0; index < job.layout.pp; ++index) {
    const RankParameters rank = parameters_of(scene, stage_of(job, index));
    sum.dense += rank.dense;
    sum.experts += rank.experts;
  }
  return {sum.dense / job.layout.pp, sum.experts / job.layout.pp};
}

double state_bytes_of_parameter(const spec::Job& job) {
  const program::ParameterBytes bytes = program::bytes_of_parameter(job);
  return bytes.optimizer + bytes.gradient;
}

StageActivations stage_activations(const spec::Job& job, int stage) {
  return activations_of(scene_of(job), stage_of(job, stage));
}

MemoryUse stage_memory(const spec::Job& job, int stage) { return memory_of(scene_of(job), stage_of(job, stage)); }

std::vector<Stage> telling_stages(const spec::Job& job) {
  const int last = job.layout.pp - 1;
  std::vector<Stage> stages = {stage_of(job, 0)};
  if (last > 0) stages.push_back(stage_of(job, last));
  // DualPipe holds as many micro-batches on every stage, and adds the mirrored stage to each.
  const bool in_pairs = job.layout.schedule == spec::Schedule::dualpipe;
  std::vector<std::array<int, 4>> seen;
  for (int index = 1; index < last; ++index) {
    const Stage stage = stage_of(job, index);
    const Stage other = in_pairs ? stage_of(job, last - index) : Stage{};
    const std::array kind = {stage.layers, stage.expert_layers, other.layers, other.expert_layers};
    if (std::find(seen.begin(), seen.end(), kind) != seen.end()) continue;
    seen.push_back(kind);
    stages.push_back(stage);
  }
  return stages;
}

MemoryUse peak_memory(const spec::Job& job, const std::vector<Stage>& telling) {
  const Scene scene = scene_of(job);
  MemoryUse peak = memory_of(scene, telling.front());
  for (std::size_t i = 1; i < telling.size(); ++i) {
    const MemoryUse use = memory_of(scene, telling[i]);
    if (use.needed() > peak.needed()) peak = use;
  }
  return peak;
}

MemoryUse peak_memory(const spec::Job& job) { return peak_memory(job, telling_stages(job)); }

}  // namespace twinpod::plan
