// Memory of a rank at the peak of the step, for each pipeline stage.
//
//     const MemoryUse use = peak_memory(job);      // of the fullest stage
//     use.total() <= job.cluster.device.memory_bytes
//
// The parts are bytes of one device and add up to what its driver reports as used. A framework's own counters are
// lower: allocated() is what tensors take at the peak (torch's max_memory_allocated), reserved() what the caching
// allocator holds. The cache takes only memory that is free, so a job fits when total() does, and exactly then when
// needed() does.
#pragma once

#include <vector>

#include "program/volume.hpp"
#include "spec/job.hpp"

namespace twinpod::plan {

struct MemoryUse {
  int stage = 0;
  double parameters = 0;
  double gradients = 0;
  double optimizer = 0;
  double activations = 0;
  double communication = 0;  // gathered parameters, gradient buckets, pipeline transfers
  double update = 0;         // temporaries of the optimizer's update that do not fit where activations were
  double cache = 0;          // freed by the step and kept by the allocator, while nobody else needs it
  double runtime = 0;        // context, libraries, communication channels
  // Not on the device, but for it:
  double elsewhere = 0;  // optimizer state, on the host or on a parameter server
  double parked = 0;     // activations that wait in the host's memory
  double allocated() const { return parameters + gradients + optimizer + activations + communication + update; }
  double reserved() const { return allocated() + cache; }
  double needed() const { return allocated() + runtime; }
  double total() const { return allocated() + cache + runtime; }
};

MemoryUse stage_memory(const spec::Job& job, int stage);
MemoryUse peak_memory(const spec::Job& job);

// The layers of one stage.
struct Stage {
  int index = 0;
  int layers = 0;
  int expert_layers = 0;
  bool last = false;
  int dense_layers() const { return layers - expert_layers; }
};

// The stages among which the fullest is: both ends, and of those between that hold the same layers the first, because
// micro-batches in flight only fall from stage to stage. They depend on the model, on pp and on how layers are dealt
// out, so a search lists them once for many layouts.
std::vector<Stage> telling_stages(const spec::Job& job);
MemoryUse peak_memory(const spec::Job& job, const std::vector<Stage>& telling);

// Activations of a stage: what waits for the backward pass, and what is there for a moment only.
struct StageActivations {
  double in_flight = 0;  // micro-batches that wait
  double stored = 0;     // of all of them
  double working = 0;    // of the layer or the head at work
  double parked = 0;     // in the host's memory; not part of the others
  double total() const { return stored + working; }
};
StageActivations stage_activations(const spec::Job& job, int stage);

// Parameters whose products, gradients and updates one rank of a stage works on, before ZeRO shards them.
using RankParameters = program::PieceParameters;
RankParameters rank_parameters(const spec::Job& job, int stage, int stage_layers, int stage_expert_layers);

// The same on average over the stages: what the ranks of all stages hold, divided by their number.
RankParameters mean_rank_parameters(const spec::Job& job);

// Optimizer state and gradient of one parameter, as a host keeps them.
double state_bytes_of_parameter(const spec::Job& job);

}  // namespace twinpod::plan
