// What the ranks of a job send to each other in one training step: bytes and how often, without any seconds.
//
// The closed form times these volumes and the generator of steps emits them as ops, so a change of what is communicated
// is made here, once. Bytes are those of the whole buffer that a group gathers or reduces, as in cluster/network.hpp.
//
//     const LayerVolumes v = layer_volumes(job, shard, work, LayerKind::dense);
//     v.tensor_calls == 2;   // one behind attention, one behind the MLP
#pragma once

#include <array>

#include "cluster/network.hpp"
#include "model/segment.hpp"
#include "spec/job.hpp"

namespace twinpod::program {

inline constexpr double kHalfBytes = 2;  // of a 16-bit element

// Bytes of an activation, of a gradient when it is reduced between ranks, of a parameter when ZeRO gathers it.
double activation_bytes(const spec::Job& job);
double scattered_bytes(const spec::Job& job);
double gathered_bytes(const spec::Job& job);

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
  cluster::Group exchange_group;
  double exchange_inside_bytes = 0;
  double exchange_outside_bytes = 0;
};

LayerVolumes layer_volumes(const spec::Job& job, const model::Shard& shard, const model::LayerWork& work,
                           model::LayerKind kind);

// Parameters of a piece of the model on one rank, before ZeRO shards them.
struct PieceParameters {
  double dense = 0;    // reduced over the data-parallel ranks
  double experts = 0;  // routed experts: fewer copies, reduced over the ranks that hold the same experts
  double total() const { return dense + experts; }
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

// Data parallelism, once a step: what the ranks that hold the same parameters send to each other.
struct DataTransfer {
  cluster::Verb verb = cluster::Verb::all_reduce;
  double bytes = 0;
  cluster::Group group;
};

struct DataVolumes {
  std::array<DataTransfer, 4> items{};
  int size = 0;
  void add(const DataTransfer& transfer) { items[static_cast<std::size_t>(size++)] = transfer; }
  const DataTransfer* begin() const { return items.data(); }
  const DataTransfer* end() const { return items.data() + size; }
};

// All-reduces, or with ZeRO as many pairs of scatter and gather. With parameter servers: what the ranks of a scale-up
// domain reduce among themselves before one of them sends it, and spread when it comes back.
DataVolumes data_volumes(const spec::Job& job, const PieceParameters& rank);

// Parameter servers, once a step: `servers` hosts, beside the workers on the nodes, share the parameters evenly. Each
// scale-up domain sends its sum and gets the updated parameters.
struct ServerVolumes {
  double push_bytes = 0;  // into one server: gradients of all domains
  double pull_bytes = 0;  // out of it: parameters
  double parameters = 0;  // that it keeps and updates
  double domains = 1;     // that send to it: contributions to each of them
};

// `mean` is what a rank holds on average over the stages.
ServerVolumes server_volumes(const spec::Job& job, const PieceParameters& mean);

// A micro-batch between two stages, one way, from one rank: each rank of a tensor-parallel group sends its part
// (scatter/gather of Narayanan 2021; sequence parallelism). The trainer's ranks send all of it without.
double transfer_bytes(const spec::Job& job, const model::Shard& shard);

}  // namespace twinpod::program
