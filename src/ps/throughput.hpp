// How fast a run with parameter servers was.
#pragma once

#include <algorithm>
#include <map>

#include "ps/choice.hpp"

namespace twinpod::ps {

// Tokens a second while all workers were at work: until the first of them had done its last step. Where nobody waits
// for the others the fast are through long before the slow, and what comes then says nothing of a run that goes on.
inline double steady_tokens_per_second(const ServedReport& report) {
  if (report.steps.empty()) return 0;
  double begin = report.steps.front().begin_s;
  std::map<int, double> last;
  for (const WorkerStep& step : report.steps) {
    begin = std::min(begin, step.begin_s);
    double& end = last[step.worker];
    end = std::max(end, step.end_s);
  }
  double until = last.begin()->second;
  for (const auto& [worker, end] : last) until = std::min(until, end);
  double done = 0;  // steps, and the part of each that was under way
  for (const WorkerStep& step : report.steps) {
    const double length = step.end_s - step.begin_s;
    if (step.begin_s < until) done += step.end_s <= until || length <= 0 ? 1 : (until - step.begin_s) / length;
  }
  const double tokens = report.tokens / static_cast<double>(report.steps.size());
  return until > begin ? done * tokens / (until - begin) : 0;
}

// Of the time of all workers, what they waited for values.
inline double waiting_share(const ServedReport& report) {
  double waited = 0;
  double all = 0;
  for (const WorkerStep& step : report.steps) {
    waited += step.waited_s;
    all += step.end_s - step.begin_s;
  }
  return all > 0 ? waited / all : 0;
}

// Mean of the reads.
inline double mean_staleness(const ServedReport& report) {
  double sum = 0;
  double reads = 0;
  for (std::size_t k = 0; k < report.staleness_histogram.size(); ++k) {
    sum += static_cast<double>(k) * static_cast<double>(report.staleness_histogram[k]);
    reads += static_cast<double>(report.staleness_histogram[k]);
  }
  return reads > 0 ? sum / reads : 0;
}

}  // namespace twinpod::ps
