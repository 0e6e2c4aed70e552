// A step in three pieces, each of which many layouts share. A search computes a piece once and puts them together for
// millions of layouts; step_time() makes all three for one.
//
//     const ShardTimes shard = shard_times(job);        // tp, cp, ep, etp, sequence_parallel, micro_batch, devices
//
//     const PassTimes pass = pass_times(job, shard);    // and recompute, offloaded activations, ZeRO-3, DualPipe
//
//     const StageShares stages = stage_shares(job);     // pp and how layers are dealt out
//
//     step_sum(job, shard, pass, stages).total_s
//
// REQUIRES everywhere: a job that passed layout::check.
#pragma once

#include <array>
#include <vector>

#include "plan/layer_time.hpp"
#include "spec/job.hpp"

namespace twinpod::plan {

inline constexpr double kHostUpdateBytes = 28;  // that an update of one parameter moves in a host's memory
// What updates on all cores of a host get of its memory: DeepSpeed's CPU Adam takes about 0.3 s for 10^9 parameters.
inline constexpr double kHostMemoryBytesPerS = 100e9;

// What a stage is made of: layers of four kinds (with experts or not, windowed or not), embedding, head.
inline constexpr std::size_t kNumLayerKinds = 4;
inline constexpr std::size_t kEmbedding = 4;
inline constexpr std::size_t kHead = 5;
inline constexpr std::size_t kNumPieces = 6;
inline std::size_t layer_kind(bool experts, bool windowed) { return (experts ? 2U : 0U) + (windowed ? 1U : 0U); }

struct ShardTimes {
  model::Shard shard;
  std::array<bool, kNumLayerKinds> exists{};
  std::array<LayerBase, kNumLayerKinds> layers{};
  PassTime embedding;
  PassTime head;  // before ZeRO-3
};

ShardTimes shard_times(const spec::Job& job);

// Seconds of one piece for one micro-batch, without the parts.
struct PassSum {
  double forward = 0;
  double backward = 0;
  double weight = 0;  // of the backward pass
  double flop = 0;
};

struct PassTimes {
  std::array<PassTime, kNumPieces> pieces{};
  std::array<PassSum, kNumPieces> sums{};
};

PassTimes pass_times(const spec::Job& job, const ShardTimes& shard);

// How many of each piece the ranks of a stage work on, and how many neighbouring stages are alike. DualPipe feeds
// micro-batches from both ends: a rank does half of its own stage's and half of the mirrored stage's work.
struct StageShare {
  std::array<double, kNumPieces> pieces{};
  int stages = 1;
};

// In the order of the stages.
using StageShares = std::vector<StageShare>;

StageShares stage_shares(const spec::Job& job);

// Seconds that a device idles at an exchange between stages that its host waits for: Megatron-LM synchronizes after
// each of them (p2p_communication.py, batch_p2p_sync), so that the queue of kernels runs empty, and what the host does
// next hides behind nothing. Zero-bubble and DualPipe schedules post theirs and go on.
double exchange_stop_s(const spec::Job& job);

// The step as sums. The slowest stage computes all micro-batches; the others wait for it.
struct StepSum {
  double total_s = 0;
  std::size_t slowest = 0;  // of the shares
  double micro_batches = 0;
  double slowest_s = 0;   // of one micro-batch, without pipeline transfers
  double pipeline_s = 0;  // that the slowest stage waits for transfers
  double bubble_s = 0;
  double stragglers_s = 0;
  double data_s = 0;
  double tied_s = 0;  // gradients of an embedding that two stages hold
  double optimizer_s = 0;
  double input_s = 0;
  double flop = 0;  // of one micro-batch on one rank of each stage together
};

StepSum step_sum(const spec::Job& job, const ShardTimes& shard, const PassTimes& pass, const StageShares& stages);

}  // namespace twinpod::plan
