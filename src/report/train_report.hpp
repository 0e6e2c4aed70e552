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
  std::string basis = {};  // where the figures of the prediction come from: "measured here just now"
  const OpTotals* predicted = nullptr;
  const OpTotals* measured = nullptr;
  std::vector<std::string> notes = {};
  const Error* error = nullptr;  // what was not done; the rest stands
};

// Median of the steps, the first ones left out: they warm up.
double step_seconds(const train::LoopResult& run);

// A table of about a dozen steps, the first and the last among them, and of those that were evaluated.
std::string losses_text(const std::vector<train::StepNote>& steps);

std::string train_text(const TrainView& view);
std::string train_json(const TrainView& view);
// Of a run that did no step: it had ended before, or was asked to stop at once.
std::string idle_json(const train::LoopResult& run, int steps);

struct ProgressView {
  const spec::Job& job;
  const train::StepNote& note;
  double step_s = 0;           // of a step, on average over the last
  double evaluation_loss = 0;  // the last; 0: not evaluated yet
  double peak_flop_per_s = 0;
};

// Median of the steps that were measured; 0: of none.
double scale_factor(const train::LoopResult& run);

// One line of progress: "train  [########------------]  40 %  step 120/300  loss 2.31  evaluation 2.40
// 45.1 k tokens/s  MFU 71 %  scale factor 0.95  2 min left".
std::string progress_text(const ProgressView& view);
// One line of metrics, JSON.
std::string metrics_line(const spec::Job& job, const train::StepNote& note);

}  // namespace twinpod::report
