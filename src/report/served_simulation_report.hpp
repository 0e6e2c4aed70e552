// What `twinpod simulate --workers` prints: the run with servers, under the names that `train --servers` has.
#pragma once

#include <string>

#include "sim/served.hpp"
#include "spec/job.hpp"

namespace twinpod::report {

struct SimulatedServedView {
  const spec::Job& job;  // of one worker
  const sim::ServedInput& input;
  const sim::ServedRun& run;
  double alone_tokens_per_s = 0;  // of one worker without servers
  double seconds = 0;             // that the simulation took
};

// Tokens a second of all workers, of as many alone.
double scale_factor(const SimulatedServedView& view);

std::string simulated_served_text(const SimulatedServedView& view);
std::string simulated_served_json(const SimulatedServedView& view);

}  // namespace twinpod::report
