// How a run goes, told by rank 0: on a terminal a line with a bar that moves, in a file a line of JSON for each step.
#pragma once

#include <chrono>
#include <ostream>
#include <string>
#include <vector>

#include "spec/job.hpp"
#include "train/loop.hpp"

namespace twinpod::cli {

class Teller {
 public:
  // A stream that is not open is not written.
  Teller(const spec::Job& job, double peak_flop_per_s, std::ofstream& metrics);

  void tell(const train::StepNote& note);
  void warn(const std::string& text);                                  // on standard error, terminal or not
  void end();                                                          // the line goes away
  const std::string& metrics_error() const { return metrics_error_; }  // empty: all steps are in the file

 private:
  void write_metrics(const train::StepNote& note);

  const spec::Job& job_;
  const double peak_flop_per_s_;
  std::ofstream& metrics_;
  std::string metrics_error_ = {};
  const bool draws_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point drawn_at_ = {};
  std::vector<double> seconds_ = {};  // of the last steps
  double evaluation_loss_ = 0;        // the last
};

}  // namespace twinpod::cli
