// What a step's time and memory mean: throughput, utilisation, scale factor, time to train, cost, energy.
//
//     const Metrics m = metrics(job, step_time(job));
//     for (const MetricLine& line : described(m, job)) ...     each with its formula, numbers filled in
//
// Letters: n devices, T_n tokens/s of n devices, T of one, X FLOP/s of a device.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/estimate.hpp"
#include "plan/scaling_law.hpp"
#include "spec/job.hpp"

namespace twinpod::plan {

struct Metrics {
  double step_time_s = 0;
  double tokens_per_step = 0;
  double tokens_per_s = 0;
  double tokens_per_s_per_device = 0;
  double model_flop_per_s = 0;     // of one device; causal attention at half, nothing done twice
  double hardware_flop_per_s = 0;  // of one device; all that it executes
  double peak_flop_per_s = 0;      // of one device, at the training precision
  double mfu = 0;
  double hfu = 0;
  double one_device_tokens_per_s = 0;  // T, as if one device had memory enough
  double scale_factor = 0;
  double computation_rate_flop_per_s = 0;
  double cluster_utilisation = 0;  // share of device time that computes
  double bubble_share = 0;
  double training_tokens = 0;  // asked, or needed for the target loss; 0: neither
  std::optional<double> time_to_train_s;
  std::optional<double> time_to_train_8tp_s;
  std::optional<double> device_hours;
  std::optional<double> cost_usd;  // empty when the price is not known, too
  std::optional<double> energy_kwh;
  std::optional<TimeToAccuracy> accuracy;
};

// What a step does, whatever the layout; with it the rates of many layouts are cheap.
struct StepWork {
  double tokens = 0;
  double flop_of_token = 0;    // of the model; causal attention at half, nothing done twice
  double peak_flop_per_s = 0;  // of one device, at the training precision
  double tokens_per_s(double step_s) const { return tokens / step_s; }
  double model_flop_per_s(double step_s, double devices) const {
    return flop_of_token * (tokens_per_s(step_s) / devices);
  }
  double mfu(double step_s, double devices) const { return model_flop_per_s(step_s, devices) / peak_flop_per_s; }
};
StepWork step_work(const spec::Job& job);

// REQUIRES: a job that passed layout::check, and its step.
Metrics metrics(const spec::Job& job, const StepTime& step);

// The same work on one device that has memory enough: the T of the scale factor.
spec::Job single_device_job(const spec::Job& job);

// Parameters that a token visits: all of a dense model's, the routed ones of a mixture.
double visited_parameters(const spec::Job& job);

double usd_per_device_hour(const spec::Cluster& cluster);  // 0: not known
double watts_per_device(const spec::Cluster& cluster);     // 0: not known

// One metric for people.
struct MetricLine {
  std::string key;  // as in the JSON output
  std::string label;
  std::string value;    // with its unit; "not known" and why, when there is none
  std::string formula;  // with the numbers of this job
};
std::vector<MetricLine> described(const Metrics& metrics, const spec::Job& job);

}  // namespace twinpod::plan
