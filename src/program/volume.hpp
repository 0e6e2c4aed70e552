// What the ranks of a job send to each other in one training step: bytes and how often, without any seconds.
//
// The closed form times these volumes and the generator of steps emits them as ops, so a change of what is communicated
// is made here, once. Bytes are those of the whole buffer that a group gathers or reduces, as in cluster/network.hpp.
//
//     const LayerVolumes v = layer_volumes(job, shard, work, LayerKind::dense);
//     v.tensor_calls == 2;   // one behind attention, one behind the MLP
#pragma once

#include "cluster/network.hpp"
#include "model/segment.hpp"
#include "spec/job.hpp"

namespace twinpod::program {

inline constexpr double kHalfBytes = 2;  // of a 16-bit element

// Micro-batches that a rank works on in a step; at least one.
double micro_batches(const spec::Job& job);

// Of one micro-batch's forward pass through one layer, on one rank.
struct LayerVolumes {
  // Tensor parallelism: all-reduces, or with sequence parallelism as many pairs of gather and scatter.
  cluster::Group tensor_group;
  double tensor_bytes = 0;
  int tensor_calls = 0;
  // Context parallelism: keys and values of the others.
  cluster::Group context_group;
  double context_bytes = 0;
  // Expert parallelism, one way (dispatch and combine are two): inside the scale-up domain and beyond it.
  double exchange_inside_bytes = 0;
  double exchange_outside_bytes = 0;
};

LayerVolumes layer_volumes(const spec::Job& job, const model::Shard& shard, const model::LayerWork& work,
                           model::LayerKind kind);

// Parameters of a piece of the model on one rank, before ZeRO shards them: routed experts have fewer copies.
struct PieceParameters {
  double dense = 0;
  double experts = 0;
};

PieceParameters layer_parameters(const spec::Job& job, const model::Shard& shard, model::LayerKind kind);

// ZeRO-3: what is gathered before, and scattered after, such a piece.
struct ShardVolumes {
  cluster::Group group;
  double calls = 0;  // collectives that share the bytes; 0: nothing is sharded
  double gather_bytes = 0;
  double scatter_bytes = 0;
};

ShardVolumes dense_shard_volumes(const spec::Job& job, double parameters);
ShardVolumes expert_shard_volumes(const spec::Job& job, double parameters);

// A pipeline would gather and reduce for every micro-batch; it keeps parameters and gradients whole for the step
// instead. So does a stack that does not drop what it gathered.
bool gathers_once_a_step(const spec::Job& job);

// Ranks over which ZeRO shards a dense parameter, and a routed expert's.
double shard_ranks(const spec::Job& job);
double expert_shard_ranks(const spec::Job& job);

// A micro-batch between two stages, one way, from one rank: each rank of a tensor-parallel group sends its part
// (scatter/gather of Narayanan 2021; sequence parallelism).
double transfer_bytes(const spec::Job& job, const model::Shard& shard);

}  // namespace twinpod::program
