// How fast a run with parameter servers was.
#pragma once

#include <algorithm>
#include <map>

#include "ps/choice.hpp"

namespace twinpod::ps {

// Tokens a second while all workers were at work: from the moment in which the last of them began until the first had
// done its last step. What was before and comes then says nothing of a run that goes on. Of steps that were under way
// at these moments, their part counts.
inline double steady_tokens_per_second(const ServedReport& report) {
  if (report.steps.empty()) return 0;
  struct Span {
    double first_s = 0;
    double last_s = 0;
  };
  std::map<int, Span> spans;
  for (const WorkerStep& step : report.steps) {
    const auto [found, is_new] = spans.insert({step.worker, {step.begin_s, step.end_s}});
    found->second.first_s = std::min(found->second.first_s, step.begin_s);
    found->second.last_s = std::max(found->second.last_s, step.end_s);
  }
  Span all = spans.begin()->second;
  for (const auto& [worker, span] : spans) {
    all = {std::max(all.first_s, span.first_s), std::min(all.last_s, span.last_s)};
  }
  if (all.last_s <= all.first_s) return tokens_per_second(report);
  double done = 0;  // steps
  for (const WorkerStep& step : report.steps) {
    const double inside = std::min(step.end_s, all.last_s) - std::max(step.begin_s, all.first_s);
    if (inside > 0) done += inside / (step.end_s - step.begin_s);
  }
  return done * report.tokens / static_cast<double>(report.steps.size()) / (all.last_s - all.first_s);
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
