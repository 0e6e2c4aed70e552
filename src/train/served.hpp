// A worker of a parameter server (ps/launch.hpp) at work: it runs forward and backward passes on its share of the
// batch, and servers run the optimizer.
//
//     const ServedTensors tensors = served_tensors(job, program);                 // of a worker's job
//     const ps::LaunchOptions options = served_options(job, tensors, choice);
//     ps::launch(options, [&](ps::Client& client) {
//       return train_served<float>({job, program, tensors, choice, steps, read}, client);
//     });
//
// served_run.hpp does all of it. A worker is a rank, or a group of ranks that add their gradients up by all-reduce
// before the first of them pushes. With local steps the ranks run the optimizer themselves, and what it changed is
// pushed. In sync mode gradients are clipped by the norm of their mean, as the all-reduce trainer clips them: servers
// sum up squares of the parts that its ranks would have, workers make the norm of them. In other modes each gradient is
// clipped by its own norm, before it is pushed.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/error.hpp"
#include "program/program.hpp"
#include "ps/choice.hpp"
#include "ps/launch.hpp"
#include "spec/job.hpp"
#include "train/rank.hpp"

namespace twinpod::train {

// The parameters of a rank, in the order of the forward pass.
struct ServedTensors {
  std::vector<std::int64_t> offsets;  // in the rank's flat buffer
  std::vector<std::int64_t> counts;
  std::vector<bool> decays;
  std::vector<std::vector<ps::NormPart>> parts;  // of which each rank of all workers sums up the squares
};

// `ranks`: of all workers. REQUIRES: the job has no other parallelism than copies of the model.
ServedTensors served_tensors(const spec::Job& job, const program::Program& program, int ranks = 1);

// The number that a worker's gradients are divided by already, beside its own tokens: in sync mode all workers, so that
// their sum is the mean that an all-reduce trainer has, to the last bit.
int divided_by(const ps::Choice& choice);

// The optimizer is the job's.
ps::LaunchOptions served_options(const spec::Job& job, const ServedTensors& tensors, const ps::Choice& choice);

// One step of a worker, as it tells it.
struct ServedStep {
  int worker = 0;          // its place
  int part = 0;            // of the batch; the same as its place, unless parts are claimed
  std::int64_t step = 0;   // whose part it is, from 0
  std::int64_t clock = 0;  // of this worker
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  double waited_s = 0;       // for values
  double computed_s = 0;     // in passes; slowed down and paced
  double loss_sum = 0;       // over its tokens
  double gradient_norm = 0;  // of its mean gradient
  double rate = 0;
};

template <typename T>
struct ServedRun {
  const spec::Job& job;  // of a worker; its global batch is what gradients are divided by
  const program::Program& program;
  const ServedTensors& tensors;
  const ps::Choice& choice;
  std::int64_t steps = 0;
  // Fills rank.tokens and rank.labels with a part of a step: one of as many as there are workers.
  std::function<Result<void>(Rank<T>& rank, int part, std::int64_t step)> read = {};
  // The next part that nobody has: clock · workers + part, from 0 on; what is beyond the last ends the work. Without it
  // each worker has its own part of each clock.
  std::function<std::int64_t()> claim = {};
  std::function<void(const ServedStep& step)> note = {};  // behind each step
  // New values; the last are those at the end, when all workers are through.
  std::function<void(const ps::Client& client, const std::vector<ps::Arrival>& values, bool ended)> pulled = {};
  std::function<void(const Rank<T>& rank)> ended = {};  // on each rank
};

// From joining to leaving.
template <typename T>
Result<std::string> train_served(const ServedRun<T>& run, ps::Client& client);

}  // namespace twinpod::train
