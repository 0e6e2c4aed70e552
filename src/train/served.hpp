// Trains with a parameter server (ps/launch.hpp): a worker runs forward and backward passes on its share of the batch,
// and servers run the optimizer.
//
//     const ServedTensors tensors = served_tensors(job, program);                 // of a job on one device
//     const ps::LaunchOptions options = served_options(job, tensors, {.servers = 2, .workers = 4});
//     ps::launch(options, [&](ps::Client& client) {
//       return train_served<float>({job, program, tensors, steps, read}, client);
//     });
//
// The job is that of one worker: one device, its share of the global batch. In sync mode two or four workers come to
// the bits of a data-parallel run on two or four ranks (for other numbers the mean is rounded differently). A gradient
// is clipped by its own norm, before it is pushed: no server sees the norm of the sum.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/error.hpp"
#include "program/program.hpp"
#include "ps/launch.hpp"
#include "spec/job.hpp"
#include "train/rank.hpp"

namespace twinpod::train {

// The parameters of a rank, in the order of the forward pass.
struct ServedTensors {
  std::vector<std::int64_t> offsets;  // in the rank's flat buffer
  std::vector<std::int64_t> counts;
  std::vector<bool> decays;
};

// REQUIRES: the job is for one device.
ServedTensors served_tensors(const spec::Job& job, const program::Program& program);

struct ServedRequest {
  int servers = 1;
  int workers = 1;
  int copies = 1;
  ps::Settings mode = {};  // sync, async or ssp (ps::parse_mode)
};

// The optimizer is the job's.
ps::LaunchOptions served_options(const spec::Job& job, const ServedTensors& tensors, const ServedRequest& request);

template <typename T>
struct ServedRun {
  const spec::Job& job;
  const program::Program& program;
  const ServedTensors& tensors;
  std::int64_t steps = 0;
  // Fills rank.tokens and rank.labels with this worker's part of a step.
  std::function<Result<void>(Rank<T>& rank, int worker, std::int64_t step)> read = {};
  std::function<void(std::int64_t step, const StepResult& result)> note = {};  // behind each step
};

// From joining to leaving. The answer is the loss of each step on this worker's part, in hexadecimal, so that nothing
// is rounded.
template <typename T>
Result<std::string> train_served(const ServedRun<T>& run, ps::Client& client);

}  // namespace twinpod::train
