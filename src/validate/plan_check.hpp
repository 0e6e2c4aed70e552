// Is the planner at least as good as the people whose runs were published? For a run with a layout of its own: the
// best layout for the same model, devices, batch and stack, and where the published one stands among all.
//
//     const Result<PlanCheck> check = check_plan(run, library);
//     check->best.step_time_s <= check->published.step_time_s;  check->rank of check->feasible
#pragma once

#include <cstdint>
#include <string>

#include "core/error.hpp"
#include "plan/search.hpp"
#include "validate/published_run.hpp"
#include "validate/run_job.hpp"

namespace twinpod::validate {

struct PlanCheck {
  std::string id;
  plan::Candidate published;   // by our own estimate, as `best` is
  double memory_share = 0;     // of the device, that it needs
  plan::Candidate best;        // devices 0: nothing fits
  std::uint64_t rank = 0;      // of the published layout; 0: it is not in the list
  std::uint64_t feasible = 0;  // layouts in the list
};

// The search keeps to what the stack of the run can.
Result<PlanCheck> check_plan(const PublishedRun& run, Library& library);

}  // namespace twinpod::validate
