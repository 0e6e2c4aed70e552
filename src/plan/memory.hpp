// Memory of a rank at the peak of the step, for each pipeline stage.
//
//     const MemoryUse use = peak_memory(job);      // of the fullest stage
//     use.total() <= job.cluster.device.memory_bytes
#pragma once

#include "spec/job.hpp"

namespace twinpod::plan {

struct MemoryUse {
  int stage = 0;
  double parameters = 0;
  double gradients = 0;
  double optimizer = 0;
  double activations = 0;
  double communication = 0;   // gather and reduce buffers, pipeline transfers
  double runtime = 0;         // context, libraries, allocator's reserve
  double total() const { return parameters + gradients + optimizer + activations + communication + runtime; }
};

// Parameters whose products, gradients and updates one rank of a stage works on, before ZeRO shards them.
struct RankParameters {
  double dense = 0;     // reduced over the data-parallel ranks
  double experts = 0;   // routed experts, reduced over the ranks that hold the same experts
  double total() const { return dense + experts; }
};
RankParameters rank_parameters(const spec::Job& job, int stage, int stage_layers, int stage_expert_layers);

MemoryUse stage_memory(const spec::Job& job, int stage);
MemoryUse peak_memory(const spec::Job& job);

// Ranks over which ZeRO shards a dense parameter, and a routed expert's.
double shard_ranks(const spec::Job& job);
double expert_shard_ranks(const spec::Job& job);

}  // namespace twinpod::plan
