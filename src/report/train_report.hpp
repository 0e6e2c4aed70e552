// What `twinpod train` prints: how the loss fell, how fast it went, and prediction beside measurement.
#pragma once

#include <string>
#include <vector>

#include "report/compare.hpp"
#include "spec/job.hpp"
#include "train/loop.hpp"

namespace twinpod::report {

struct TrainView {
  const spec::Job& job;
  const train::LoopResult& run;
  std::string transport = {};  // processes, threads, mpi
  double peak_flop_per_s = 0;  // of a rank: measured
  double predicted_step_s = 0;
  std::string basis = {};  // of the prediction
  const OpTotals* predicted = nullptr;
  const OpTotals* measured = nullptr;
  std::vector<std::string> notes = {};
};

// Median of the steps, the first ones left out: they warm up.
double step_seconds(const train::LoopResult& run);

std::string train_text(const TrainView& view);
std::string train_json(const TrainView& view);

// One line of progress: "step 120/500  loss 2.314  45.1 k tokens/s  MFU 71 %  2 min left".
std::string progress_text(const spec::Job& job, const train::StepNote& note, double peak_flop_per_s);
// One line of metrics, JSON.
std::string metrics_line(const spec::Job& job, const train::StepNote& note);

}  // namespace twinpod::report
