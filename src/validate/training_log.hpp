// The log of somebody's own training run: what each step took, and what a device's memory reached.
//
//     Result<TrainingLog> log = read_training_log("run.log");
//     Result<MeasuredStep> step = measured_step(*log, job);      // the median step, warm-up dropped
//
// Each line is looked at by itself, and a file may mix these kinds; every other line is passed over. Colour codes and
// whatever launchers write before the text ("[rank0]:", dates) do not matter.
//
//   JSON        {"step": 10, "step_time_s": 1.25, "memory_gb": 61.2}
//   Megatron    iteration       10/     100 | ... | elapsed time per iteration (ms): 1250.0 | ... | global batch size:
//   512 |
//               [Rank 0] (after 10 iterations) memory (MB) | allocated: ... | max allocated: ... | max reserved: ...
//   torchtitan  step: 10  loss:  7.1000  memory: 40.11GiB(42.21%)  tps: 7,123  tflops: 412.30  mfu: 41.70%
//
// A number that is none is refused with its file, line and column, and so is a file without a single step.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "spec/job.hpp"
#include "validate/memory_check.hpp"

namespace twinpod::validate {

// One logged step, or the mean of several when the log has a line only every so many steps. One of the three speeds is
// there; which, depends on the kind of line.
struct LoggedStep {
  std::int64_t number = -1;  // -1: not written
  double time_s = 0;
  double tokens_per_s = 0;         // of the whole job
  double device_tokens_per_s = 0;  // of one device (torchtitan's tps, in older releases wps)
  double global_batch = 0;         // sequences; 0: not written
  int line = 0;
};

struct LoggedMemory {
  Counter counter = Counter::used;
  double bytes = 0;
  int rank = -1;  // -1: not written
  int line = 0;
};

struct TrainingLog {
  std::string file;
  std::vector<LoggedStep> steps;     // in the order of the file, never empty
  std::vector<LoggedMemory> memory;  // the highest reading of each counter
};

Result<TrainingLog> read_training_log(const std::string& path);
Result<TrainingLog> parse_training_log(std::string_view text, const std::string& file);

struct MeasuredStep {
  double seconds = 0;
  int used = 0;       // logged steps behind the median
  int dropped = 0;    // as warm-up
  double spread = 0;  // half of the way from the 10th to the 90th percentile, over the median
};

// The median of the steps that are left when the first fifth of them, and at least all lines of the first step, are
// dropped: they hold compilation, caches that fill and the search for kernels. A log with nothing else keeps them.
// Steps whose line gives another global batch than the job's (a batch that ramps up) do not count; when none is left
// the log is not of this job, and is refused.
Result<MeasuredStep> measured_step(const TrainingLog& log, const spec::Job& job);

}  // namespace twinpod::validate
