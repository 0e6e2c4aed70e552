// A stack fitted to somebody's own cluster, from the logs of runs whose jobs are known.
//
//     std::vector<CalibrationRun> runs = {{"job.yaml", *read_training_log("run.log"), job}, ...};
//     Result<Calibration> calibration = calibrate(runs);
//     write_file("my-cluster.yaml", stack_text(*calibration, "megatron-core-2024"));
//
// What is fitted. One run says only how fast the cluster is: pace. Runs of jobs that differ say more: a number of
// kFurtherNumbers is freed when
//   - it can be told apart: moving it by the width of its prior changes the pattern of the predictions (the part of its
//     derivative that no number freed before explains) by more than kVisible, and
//   - freeing it lowers the loss of the fit by more than kCharge; of several the one that lowers it most comes first,
//   and
//   - numbers stay fewer than different jobs (with one job: pace alone).
// Every number is pulled to the base stack's value, so it leaves it only as far as the logs ask.
//
// With three different jobs or more each is also predicted by a calibration that never saw it, selection included: that
// is the error to expect of a job that has not been run.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "spec/job.hpp"
#include "spec/physics.hpp"
#include "validate/calibrate_memory.hpp"
#include "validate/training_log.hpp"

namespace twinpod::validate {

inline constexpr double kVisible = 0.01;  // change of the predicted steps' pattern, as a share of a step
inline constexpr double kCharge = 2;      // of the loss, for one more number (Akaike's criterion)
inline constexpr std::array<std::string_view, 6> kFurtherNumbers = {
    "launch_s", "scale_out_efficiency", "dp_hidden", "tp_hidden", "attention_software", "step_fixed_s"};

// A log and the job that wrote it, with the stack to start from.
struct CalibrationRun {
  std::string job_file;
  TrainingLog log;
  spec::Job job;
};

// What became of a number that might be fitted.
enum class Standing {
  fitted,
  not_told,     // these jobs cannot tell it from the ones that are fitted
  not_needed,   // they could, but it explains nothing more
  too_few_jobs  // they could, and one more different job would free it
};

struct CalibratedNumber {
  const spec::PhysicsField* field = nullptr;
  Standing standing = Standing::not_told;
  double before = 0;
  double after = 0;
  bool at_bound() const { return after <= field->low * 1.001 || after >= field->high * 0.999; }
};

struct CalibratedRun {
  std::string log;
  std::string job_file;
  MeasuredStep measured;
  double before_s = 0;
  double after_s = 0;
  double unseen_s = 0;  // predicted by a calibration without this job; 0: there are fewer than three jobs

  double error(double predicted_s) const { return predicted_s / measured.seconds - 1; }
};

struct Calibration {
  std::string base;                       // name of the stack that it starts from
  std::string device;                     // family
  int jobs = 0;                           // that differ
  std::vector<CalibratedNumber> numbers;  // pace first, then kFurtherNumbers in their order
  std::vector<CalibratedRun> runs;        // in the order given
  MemoryCalibration memory;

  bool has_unseen() const { return jobs >= 3; }
};

// Refuses runs on devices of different families, and logs that do not belong to their job.
// REQUIRES: at least one run; all jobs have the same stack, and pass layout::check.
Result<Calibration> calibrate(const std::vector<CalibrationRun>& runs);

// The stack as a file that `--stack FILE` reads. `base` is what it stands on: a name of the catalog, or a path.
std::string stack_text(const Calibration& calibration, const std::string& base);

}  // namespace twinpod::validate
