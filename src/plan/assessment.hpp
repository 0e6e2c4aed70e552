// Everything that an estimate says of a job: time, memory, metrics, range, and what to be careful about.
//
//     const Assessment a = assess(job, accuracy);
//
// REQUIRES: a job that passed layout::check.
#pragma once

#include <string>
#include <vector>

#include "plan/estimate.hpp"
#include "plan/memory.hpp"
#include "plan/metrics.hpp"
#include "plan/range.hpp"
#include "spec/job.hpp"

namespace twinpod::plan {

struct Assessment {
  StepTime step;
  MemoryUse memory;               // of the fullest stage
  std::vector<MemoryUse> stages;  // of every stage, in order
  Metrics metrics;
  Range range;
  std::vector<std::string> warnings;
};

Assessment assess(const spec::Job& job, const Accuracy& accuracy);

// What a reader of the numbers should know: uneven stages, tensor parallelism across nodes, a nearly full device, ...
std::vector<std::string> warnings(const spec::Job& job, const MemoryUse& memory);

}  // namespace twinpod::plan
