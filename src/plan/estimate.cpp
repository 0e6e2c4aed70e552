#include "plan/estimate.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cluster/device_time.hpp"
#include "cluster/network.hpp"
#include "model/arithmetic.hpp"
#include "plan/layer_time.hpp"
#include "plan/memory.hpp"
#include "program/schedule.hpp"
#include "program/volume.hpp"

namespace twinpod::plan {
namespace {

using cluster::Verb;

constexpr double kOverlaps = 0.1;  // a stack that hides more than this of its gradient traffic overlaps it by design

constexpr std::array<std::string_view, kNumParts> kPartNames = {
    "products", "attention", "elements", "head",   "recompute", "launch",    "tensor", "context",    "expert",
    "shard",    "parking",   "pipeline", "bubble", "data",      "optimizer", "input",  "stragglers", "fixed"};

// The four kinds of layer that a model can have, each computed once.
struct LayerTimes {
  std::array<PassTime, 4> times{};
  static std::size_t index(bool experts, bool windowed) { return (experts ? 2U : 0U) + (windowed ? 1U : 0U); }
  const PassTime& of(bool experts, bool windowed) const { return times[index(experts, windowed)]; }
};

LayerTimes layer_times(const spec::Job& job, const model::Shard& shard) {
  LayerTimes layers;
  const int experts = model::num_expert_layers(job.model);
  const int windowed = model::num_windowed_layers(job.model);
  for (const bool e : {false, true}) {
    for (const bool w : {false, true}) {
      const bool exists =
          (e ? experts > 0 : experts < job.model.layers) && (w ? windowed > 0 : windowed < job.model.layers);
      if (!exists) continue;
      const auto kind = e ? model::LayerKind::experts : model::LayerKind::dense;
      layers.times[LayerTimes::index(e, w)] = layer_time(job, shard, kind, w);
    }
  }
  return layers;
}

// A stage: what its rank does for one micro-batch.
struct StageTime {
  PassTime pass;
  double total() const { return pass.forward.total() + pass.backward.total(); }
};

void add(PassTime& sum, const PassTime& one, double times) {
  Parts forward = one.forward;
  Parts backward = one.backward;
  sum.forward += (forward *= times);
  sum.backward += (backward *= times);
  sum.weight_s += one.weight_s * times;
  sum.executed_flop += one.executed_flop * times;
}

// DualPipe feeds micro-batches from both ends: a rank holds stage i for one half of them and stage p-1-i for the other.
std::vector<StageTime> paired(const std::vector<StageTime>& stages) {
  std::vector<StageTime> ranks(stages.size());
  for (std::size_t i = 0; i < stages.size(); ++i) {
    add(ranks[i].pass, stages[i].pass, 0.5);
    add(ranks[i].pass, stages[stages.size() - 1 - i].pass, 0.5);
  }
  return ranks;
}

std::vector<StageTime> stage_times(const spec::Job& job, const model::Shard& shard) {
  const std::vector<int> layers = program::layers_of_stages(job.model.layers, job.layout);
  const LayerTimes times = layer_times(job, shard);
  std::vector<StageTime> stages(layers.size());
  int layer = 0;
  for (std::size_t s = 0; s < layers.size(); ++s) {
    std::array<int, 4> counts{};
    for (int i = 0; i < layers[s]; ++i, ++layer) {
      ++counts[LayerTimes::index(model::is_expert_layer(job.model, layer), model::is_windowed_layer(job.model, layer))];
    }
    for (std::size_t k = 0; k < 4; ++k) {
      if (counts[k] > 0) add(stages[s].pass, times.times[k], counts[k]);
    }
  }
  add(stages.front().pass, embedding_time(job, shard), 1);
  add(stages.back().pass, head_time(job, shard), 1);
  if (job.model.mtp_layers > 0) {
    const bool windowed = model::num_windowed_layers(job.model) == job.model.layers;
    add(stages.back().pass, times.of(job.model.experts.count > 0, windowed), job.model.mtp_layers);
  }
  return job.layout.schedule == spec::Schedule::dualpipe ? paired(stages) : stages;
}

// One micro-batch's transfer to the next stage and of its gradient back, of one chunk.
double transfer_s(const spec::Job& job, const model::Shard& shard) {
  if (job.layout.pp <= 1) return 0;
  const double stride = static_cast<double>(job.cluster.devices) / job.layout.pp;
  const cluster::Group pair = cluster::group_of(job.cluster, 2, stride);
  const double bytes = program::transfer_bytes(job, shard);
  return 2 * cluster::collective_s(job.cluster, job.stack.physics, Verb::send, bytes, pair);
}

struct DataTime {
  double reduce = 0;  // gradients
  double gather = 0;  // updated parameters
};

DataTime data_time(const spec::Job& job, const RankParameters& rank) {
  const spec::Physics& p = job.stack.physics;
  const double ranks = static_cast<double>(spec::data_parallel(job)) * job.layout.cp;
  const cluster::Group all = cluster::group_of(job.cluster, ranks, job.layout.tp);
  const double gradient = job.stack.scatter_bytes;
  DataTime time;
  if (job.layout.zero == 3) {
    // Shards that live in a smaller group are still summed over its copies.
    const double copies = ranks / program::shard_ranks(job);
    if (copies > 1) {
      const cluster::Group over = cluster::group_of(job.cluster, copies, job.layout.tp * program::shard_ranks(job));
      time.reduce = cluster::collective_s(job.cluster, p, Verb::all_reduce,
                                          rank.total() / program::shard_ranks(job) * gradient, over);
    }
    return time;
  }
  const auto reduce = [&](double parameters, const cluster::Group& group) {
    if (job.layout.zero == 0) {
      time.reduce += cluster::collective_s(job.cluster, p, Verb::all_reduce, parameters * gradient, group);
      return;
    }
    time.reduce += cluster::collective_s(job.cluster, p, Verb::reduce_scatter, parameters * gradient, group);
    time.gather += cluster::collective_s(job.cluster, p, Verb::all_gather, parameters * job.stack.gather_bytes, group);
  };
  reduce(rank.dense, all);
  if (rank.experts > 0) {
    reduce(rank.experts, cluster::group_of(job.cluster, program::expert_shard_ranks(job),
                                           static_cast<double>(job.layout.ep) * model::shard_of(job).etp));
  }
  return time;
}

double exposed_data_s(const spec::Job& job, const RankParameters& rank, double backward_s) {
  const spec::Physics& p = job.stack.physics;
  const DataTime time = data_time(job, rank);
  const double traffic = time.reduce + time.gather;
  if (traffic <= 0) return 0;
  // Overlap needs something to hide behind: the backward pass of the last micro-batch, the forward pass of the first.
  const double window = 0.9 * (time.gather > 0 ? 1.5 : 1.0) * backward_s;
  // Interleaved chunks finish one after another: only the last one's gradients have no backward pass to hide behind.
  const double hidden = p.dp_hidden > kOverlaps ? 1 - (1 - p.dp_hidden) / job.layout.virtual_stages : p.dp_hidden;
  double exposed = traffic - std::min(hidden * traffic, window);
  const cluster::Group all = cluster::group_of(job.cluster, program::shard_ranks(job), job.layout.tp);
  if (job.stack.broadcasts_shards && job.layout.zero >= 1 && all.per_domain < all.ranks)
    exposed += p.broadcast_s * all.ranks;
  return exposed;
}

double optimizer_s(const spec::Job& job, const RankParameters& rank) {
  const cluster::DeviceTime device(job.cluster.device, job.stack.physics);
  double owned = rank.total();
  if (job.layout.zero >= 1)
    owned = rank.dense / program::shard_ranks(job) + rank.experts / program::expert_shard_ranks(job);
  if (job.layout.offload_optimizer) {
    // Gradients go to the host and parameters come back; the update itself is bound by the host's memory.
    return owned * (4 + 2) / std::max(1.0, job.cluster.device.host_bytes_per_s) + owned * 28 / 100e9;
  }
  return device.memory_bound(owned * job.stack.physics.optimizer_bytes);
}

// Training data are read ahead, beside the step before: only a storage system that is slower than the step shows.
double input_s(const spec::Job& job, double step_s) {
  if (job.cluster.storage_read_bytes_per_s <= 0) return 0;
  const double bytes = job.training.global_batch * job.training.sequence * job.training.bytes_per_token;
  return std::max(0.0, bytes / job.cluster.storage_read_bytes_per_s - step_s);
}

// What the ranks of the first stage update; with DualPipe they hold the last stage too.
RankParameters first_rank_parameters(const spec::Job& job) {
  const auto of_stage = [&](int stage) {
    const program::StageLayers own = program::layers_of_stage(job.model.layers, job.layout, stage);
    const int before = model::expert_layers_before(job.model, own.first);
    const int experts = model::expert_layers_before(job.model, own.first + own.count) - before;
    return rank_parameters(job, stage, own.count, experts);
  };
  RankParameters rank = of_stage(0);
  if (job.layout.schedule != spec::Schedule::dualpipe) return rank;
  const RankParameters mirrored = of_stage(job.layout.pp - 1);
  rank.dense += mirrored.dense;
  rank.experts += mirrored.experts;
  return rank;
}

}  // namespace

std::string_view part_name(Part part) { return kPartNames[static_cast<std::size_t>(part)]; }

double Parts::total() const {
  double sum = 0;
  for (const double s : seconds) sum += s;
  return sum;
}

Parts& Parts::operator+=(const Parts& other) {
  for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] += other.seconds[i];
  return *this;
}

Parts& Parts::operator*=(double factor) {
  for (double& s : seconds) s *= factor;
  return *this;
}

StepTime step_time(const spec::Job& job) {
  const spec::Physics& p = job.stack.physics;
  const model::Shard shard = model::shard_of(job);
  const std::vector<StageTime> stages = stage_times(job, shard);
  const auto slowest = std::max_element(stages.begin(), stages.end(),
                                        [](const StageTime& a, const StageTime& b) { return a.total() < b.total(); });
  StepTime step;
  step.micro_batches = program::micro_batches(job);

  // The slowest stage computes all micro-batches; the others wait for it, and it waits for the pipeline to fill.
  step.parts = slowest->pass.forward;
  step.parts += slowest->pass.backward;
  step.parts *= step.micro_batches;
  const double transfer = transfer_s(job, shard);
  step.parts[Part::pipeline] = step.micro_batches * job.layout.virtual_stages * transfer * (1 - p.p2p_hidden);

  program::MicroBatchTime mean;
  double executed = 0;
  for (const StageTime& stage : stages) {
    mean.forward += stage.pass.forward.total();
    mean.backward_weight += stage.pass.weight_s;
    mean.backward_input += stage.pass.backward.total() - stage.pass.weight_s;
    executed += stage.pass.executed_flop;
  }
  const double stage_share = 1.0 / static_cast<double>(stages.size());
  mean.forward *= stage_share;
  mean.backward_input *= stage_share;
  mean.backward_weight *= stage_share;
  // While the pipeline fills and drains there is nothing to hide a transfer behind.
  step.parts[Part::bubble] = p.bubble_factor * program::bubble_s(job.layout, mean) + (job.layout.pp - 1) * transfer;
  step.parts *= p.pace;

  const double nodes = std::max(1.0, static_cast<double>(job.cluster.devices) / job.cluster.devices_per_node);
  step.parts[Part::stragglers] = step.parts.total() * p.growth * std::log2(nodes);

  const RankParameters rank = first_rank_parameters(job);
  step.parts[Part::data] = exposed_data_s(job, rank, stages.front().pass.backward.total() * p.pace);
  step.parts[Part::optimizer] = optimizer_s(job, rank);
  step.parts[Part::fixed] = p.step_fixed_s;
  step.parts[Part::input] = input_s(job, step.parts.total());
  step.total_s = step.parts.total();
  step.executed_flop = executed * step.micro_batches * job.cluster.devices / job.layout.pp;
  return step;
}

}  // namespace twinpod::plan
