#include "plan/step_pieces.hpp"

#include <algorithm>
#include <cmath>

#include "cluster/device_time.hpp"
#include "cluster/network.hpp"
#include "model/arithmetic.hpp"
#include "plan/memory.hpp"
#include "program/schedule.hpp"
#include "program/state.hpp"
#include "program/volume.hpp"

namespace twinpod::plan {
namespace {

using cluster::Verb;

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

// Push and pull between the workers and the servers' network interfaces, of which each has those of one node.
void add_servers(const spec::Job& job, DataTime& time) {
  const program::ServerVolumes volumes = program::server_volumes(job, mean_rank_parameters(job));
  const spec::Physics& p = job.stack.physics;
  const double of_device = job.cluster.scale_out_bytes_per_s > 0
                               ? job.cluster.scale_out_bytes_per_s * p.scale_out_efficiency
                               : job.cluster.device.host_bytes_per_s;
  const double rate = std::max(1.0, of_device * std::min(job.cluster.devices, job.cluster.devices_per_node));
  const double latency = p.collective_latency_s + job.cluster.scale_out_latency_s;
  time.reduce += latency + volumes.push_bytes / rate;
  time.gather += latency + volumes.pull_bytes / rate;
}

DataTime data_time(const spec::Job& job, const RankParameters& rank) {
  DataTime time;
  for (const program::DataTransfer& one : program::data_volumes(job, rank)) {
    const double seconds = cluster::collective_s(job.cluster, job.stack.physics, one.verb, one.bytes, one.group);
    (one.verb == Verb::all_gather ? time.gather : time.reduce) += seconds;
  }
  if (job.layout.servers > 0) add_servers(job, time);
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
  const double share = program::hidden_share(job);
  const double hidden = program::overlaps_data(job) ? 1 - (1 - share) / job.layout.virtual_stages : share;
  double exposed = traffic - std::min(hidden * traffic, window);
  const cluster::Group all = cluster::group_of(job.cluster, program::shard_ranks(job), job.layout.tp);
  if (job.stack.broadcasts_shards && job.layout.zero >= 1 && all.per_domain < all.ranks)
    exposed += p.broadcast_s * all.ranks;
  return exposed;
}

// A tied embedding stands on the first and on the last stage, which add up its gradients when all else is reduced.
// Where one rank holds both stages there is nothing to send.
double tied_s(const spec::Job& job) {
  const spec::Layout& layout = job.layout;
  using enum spec::Schedule;
  const bool folded = layout.schedule == dualpipe || layout.schedule == dualpipe_v || layout.schedule == zb_v;
  if (!job.model.tied_embeddings || layout.pp <= 1 || folded) return 0;
  const double stride = static_cast<double>(job.cluster.devices) / layout.pp * (layout.pp - 1);
  const double shards = layout.zero == 3 ? program::shard_ranks(job) : 1;
  const double table = static_cast<double>(job.model.vocab) * job.model.hidden / layout.tp / shards;
  const cluster::Group ends = cluster::group_of(job.cluster, 2, stride);
  return cluster::collective_s(job.cluster, job.stack.physics, Verb::all_reduce, table * job.stack.scatter_bytes, ends);
}

double optimizer_s(const spec::Job& job, const RankParameters& rank) {
  const cluster::DeviceTime device(job.cluster.device, job.stack.physics);
  double owned = rank.total();
  if (job.layout.servers > 0) {
    // Each server adds up what the domains sent, and updates.
    const program::ServerVolumes volumes = program::server_volumes(job, mean_rank_parameters(job));
    const double bytes = kHostUpdateBytes + 2 * job.stack.scatter_bytes * volumes.domains;
    return volumes.parameters * bytes / kHostMemoryBytesPerS;
  }
  if (job.layout.zero >= 1)
    owned = rank.dense / program::shard_ranks(job) + rank.experts / program::expert_shard_ranks(job);
  if (job.layout.offload_optimizer) {
    // Gradients go to the host and parameters come back; the update itself is bound by the host's memory, which all
    // devices of the node share.
    // From ZeRO 2 on, without a pipeline, they are summed there, so they go after every micro-batch.
    const double times = job.layout.zero >= 2 && job.layout.pp == 1 ? spec::micro_batches(job) : 1;
    const double travel = owned * (4 * times + 2) / std::max(1.0, job.cluster.device.host_bytes_per_s);
    const double devices = std::min(job.cluster.devices, job.cluster.devices_per_node);
    return travel + owned * devices * kHostUpdateBytes / kHostMemoryBytesPerS;
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

// The layers of a stage by kind, embedding and head with them.
StageShare share_of(const spec::Job& job, int stage) {
  const spec::Model& model = job.model;
  const program::StageLayers own = program::layers_of_stage(model.layers, job.layout, stage);
  StageShare share;
  if (model.experts.count == 0 && model::num_windowed_layers(model) == 0) {
    share.pieces[layer_kind(false, false)] = own.count;
  } else {
    for (int i = own.first; i < own.first + own.count; ++i)
      share.pieces[layer_kind(model::is_expert_layer(model, i), model::is_windowed_layer(model, i))] += 1;
  }
  if (stage == 0) share.pieces[kEmbedding] = 1;
  if (stage < job.layout.pp - 1) return share;
  share.pieces[kHead] = 1;
  const bool windowed = model::num_windowed_layers(model) == model.layers;
  if (model.mtp_layers > 0) share.pieces[layer_kind(model.experts.count > 0, windowed)] += model.mtp_layers;
  return share;
}

StageShare paired(const StageShare& one, const StageShare& mirrored) {
  StageShare share;
  for (std::size_t k = 0; k < kNumPieces; ++k) share.pieces[k] = (one.pieces[k] + mirrored.pieces[k]) / 2;
  return share;
}

struct PipeWait {
  double forward = 0;
  double backward = 0;
};

PassSum sum_of(const PassTime& pass) {
  return {pass.forward.total(), pass.backward.total(), pass.weight_s, pass.executed_flop};
}

PassSum sum_of(const PassTimes& pass, const StageShare& stage) {
  PassSum sum;
  for (std::size_t k = 0; k < kNumPieces; ++k) {
    const double times = stage.pieces[k];
    const PassSum& one = pass.sums[k];
    sum.forward += times * one.forward;
    sum.backward += times * one.backward;
    sum.weight += times * one.weight;
    sum.flop += times * one.flop;
  }
  return sum;
}

}  // namespace

double exchange_stop_s(const spec::Job& job) {
  using spec::Schedule;
  const Schedule schedule = job.layout.schedule;
  const bool blocks = schedule == Schedule::gpipe || schedule == Schedule::one_f_one_b ||
                      schedule == Schedule::interleaved || schedule == Schedule::custom;
  return blocks && job.layout.pp > 1 ? job.stack.physics.p2p_stop_s : 0;
}

namespace {

// What a stage waits for the pipe with one micro-batch, forward and backward. It waits for what it sends: what it
// receives from the same neighbour comes at the same time. The first stage has nowhere to send a gradient, the last one
// nowhere to send an output; a DualPipe rank at an end is each for half of the micro-batches.
PipeWait pipe_wait(const spec::Job& job, double transfer, bool first, bool last) {
  const double one = (1 - job.stack.physics.p2p_hidden) * transfer / 2 + exchange_stop_s(job);
  const double sends = job.layout.virtual_stages;
  if (job.layout.schedule == spec::Schedule::dualpipe) {
    const double both = (sends - (first || last ? 0.5 : 0)) * one;
    return {both, both};
  }
  return {(sends - (last ? 1 : 0)) * one, (sends - (first ? 1 : 0)) * one};
}

// Fills in the slowest stage, and gives them all, the wait for the pipe included.
std::vector<program::StageRun> stage_runs(const spec::Job& job, const PassTimes& pass, const StageShares& stages,
                                          double transfer, StepSum& step) {
  std::vector<program::StageRun> runs;
  runs.reserve(stages.size());
  double slowest = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const PassSum sum = sum_of(pass, stages[i]);
    const PipeWait wait = pipe_wait(job, transfer, i == 0, i + 1 == stages.size());
    const program::MicroBatchTime time{sum.forward + wait.forward, sum.backward - sum.weight + wait.backward,
                                       sum.weight};
    runs.push_back({time, stages[i].stages});
    step.flop += stages[i].stages * sum.flop;
    if (time.total() <= slowest) continue;
    slowest = time.total();
    step.slowest = i;
    step.slowest_s = sum.forward + sum.backward;
    step.pipeline_s = wait.forward + wait.backward;
  }
  return runs;
}

}  // namespace

ShardTimes shard_times(const spec::Job& job) {
  ShardTimes times;
  times.shard = model::shard_of(job);
  const int experts = model::num_expert_layers(job.model);
  const int windowed = model::num_windowed_layers(job.model);
  for (const bool e : {false, true}) {
    for (const bool w : {false, true}) {
      const bool exists =
          (e ? experts > 0 : experts < job.model.layers) && (w ? windowed > 0 : windowed < job.model.layers);
      if (!exists) continue;
      const auto kind = e ? model::LayerKind::experts : model::LayerKind::dense;
      times.exists[layer_kind(e, w)] = true;
      times.layers[layer_kind(e, w)] = layer_base(job, times.shard, kind, w);
    }
  }
  times.embedding = embedding_time(job, times.shard);
  times.head = head_base(job, times.shard);
  return times;
}

PassTimes pass_times(const spec::Job& job, const ShardTimes& shard) {
  PassTimes times;
  for (std::size_t k = 0; k < kNumLayerKinds; ++k) {
    if (shard.exists[k]) times.pieces[k] = layer_time(job, shard.shard, shard.layers[k]);
  }
  times.pieces[kEmbedding] = shard.embedding;
  times.pieces[kHead] = head_time(job, shard.shard, shard.head);
  for (std::size_t k = 0; k < kNumPieces; ++k) times.sums[k] = sum_of(times.pieces[k]);
  return times;
}

StageShares stage_shares(const spec::Job& job) {
  const int pp = job.layout.pp;
  const bool in_pairs = job.layout.schedule == spec::Schedule::dualpipe;
  StageShares shares;
  for (int stage = 0; stage < pp; ++stage) {
    const StageShare own = share_of(job, stage);
    const StageShare share = in_pairs ? paired(own, share_of(job, pp - 1 - stage)) : own;
    if (shares.empty() || shares.back().pieces != share.pieces) {
      shares.push_back(share);
    } else {
      ++shares.back().stages;
    }
  }
  return shares;
}

StepSum step_sum(const spec::Job& job, const ShardTimes& shard, const PassTimes& pass, const StageShares& stages) {
  const spec::Physics& p = job.stack.physics;
  StepSum step;
  step.micro_batches = spec::micro_batches(job);
  const double transfer = transfer_s(job, shard.shard);
  const std::vector<program::StageRun> runs = stage_runs(job, pass, stages, transfer, step);
  step.pipeline_s *= p.pace * step.micro_batches;
  // While the pipeline fills and drains there is nothing to hide a transfer behind.
  const double hops = (job.layout.pp - 1) * p.p2p_hidden * transfer;
  step.bubble_s = p.pace * (p.bubble_factor * program::bubble_s(job.layout, step.micro_batches, runs) + hops);
  const double paced = p.pace * step.micro_batches * step.slowest_s + step.pipeline_s + step.bubble_s;

  const double nodes = std::max(1.0, static_cast<double>(job.cluster.devices) / job.cluster.devices_per_node);
  step.stragglers_s = paced * p.growth * std::log2(nodes);

  const RankParameters rank = first_rank_parameters(job);
  step.data_s = exposed_data_s(job, rank, sum_of(pass, stages.front()).backward * p.pace);
  step.tied_s = tied_s(job);
  step.optimizer_s = optimizer_s(job, rank);
  const double known = paced + step.stragglers_s + step.data_s + step.tied_s + step.optimizer_s + p.step_fixed_s;
  step.input_s = input_s(job, known);
  step.total_s = known + step.input_s;
  return step;
}

}  // namespace twinpod::plan
