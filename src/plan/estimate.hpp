// The closed form: how long one training step takes, and where the time goes.
//
//     const StepTime step = step_time(job);
//     step.total_s == sum of step.parts
//
// It is built from the segments of `model`, the schedules of `program` and the device and network times of `cluster`,
// so a search can afford it for millions of layouts. The job must be valid (layout/check.hpp) before it comes here.
#pragma once

#include <array>
#include <string_view>

#include "spec/job.hpp"

namespace twinpod::plan {

// What a step's time is spent on, along the slowest rank. The parts add up to the step.
enum class Part {
  products,   // matrix products of the layers, forward and backward
  attention,  // scores, softmax, weighted values
  elements,   // memory-bound kernels
  head,       // embedding, head and loss
  recompute,  // forward work done again in the backward pass
  launch,     // device waits for the host that launches its kernels
  tensor,     // tensor- and sequence-parallel communication that is not hidden
  context,    // context-parallel communication that is not hidden
  expert,     // all-to-all of experts that is not hidden
  shard,      // ZeRO-3 gathers and scatters that are not hidden
  parking,    // activations on their way to and from host memory that computation does not hide
  pipeline,   // transfers between stages that are not hidden
  bubble,     // waiting for other stages, uneven stages included
  data,       // gradient reduction and parameter gathering of data parallelism that is not hidden; of tied embeddings
  optimizer,
  input,       // reading of training data that the step is too short to hide
  stragglers,  // waiting for the slowest of many nodes
  fixed,       // of each step, whatever its size
};
inline constexpr int kNumParts = 18;
std::string_view part_name(Part part);

struct Parts {
  std::array<double, kNumParts> seconds{};
  double& operator[](Part part) { return seconds[static_cast<std::size_t>(part)]; }
  double operator[](Part part) const { return seconds[static_cast<std::size_t>(part)]; }
  double total() const;
  Parts& operator+=(const Parts& other);
  Parts& operator*=(double factor);
};

struct StepTime {
  double total_s = 0;
  Parts parts;
  double micro_batches = 0;
  double executed_flop = 0;  // of all devices, recomputation included
};

StepTime step_time(const spec::Job& job);

}  // namespace twinpod::plan
