// How the planner compares with published layouts and sweeps, for people and for scripts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "validate/plan_check.hpp"
#include "validate/sweep.hpp"

namespace twinpod::report {

struct PlanChecks {
  std::vector<validate::PlanCheck> runs;
  std::vector<std::pair<validate::Sweep, validate::SweepRanking>> sweeps;
};

std::string plan_checks_text(const PlanChecks& checks);
std::string plan_checks_json(const PlanChecks& checks);

}  // namespace twinpod::report
