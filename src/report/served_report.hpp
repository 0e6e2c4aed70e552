// What `twinpod train --servers` prints: how the loss fell, how fast it went, how stale reads were, what servers and
// workers did with their time, and whether every update is accounted for.
#pragma once

#include <string>
#include <vector>

#include "core/error.hpp"
#include "ps/choice.hpp"
#include "spec/job.hpp"
#include "train/served_run.hpp"

namespace twinpod::report {

struct ServedView {
  const spec::Job& job;
  const ps::Choice& choice;
  const train::ServedResult& run;
  double peak_flop_per_s = 0;   // of a rank: measured
  double predicted_step_s = 0;  // of all workers; 0: not known
  std::vector<std::string> notes = {};
};

// Share of the workers' time that was passes.
double served_scale_factor(const ps::ServedReport& report);

std::string served_text(const ServedView& view);
std::string served_json(const ServedView& view);

// For ui.perfetto.dev or chrome://tracing. Steps of all workers: waiting for values, passes, pushing. Messages of all
// servers: updates, answers, and how many waited. Of one clock, or of all (-1). docs/trace.md says what each event
// holds.
std::string served_trace(const ps::ServedReport& report, std::int64_t clock = -1);

}  // namespace twinpod::report
