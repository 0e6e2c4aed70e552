// What `twinpod validate --simulate` prints: measured, closed form and simulated steps side by side.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "validate/simulate_check.hpp"

namespace twinpod::report {

struct SimulateChecks {
  std::vector<validate::SimulatedRun> runs;
  std::vector<std::pair<std::string, std::string>> left_out;  // runs that no Program can be made of, and why
  int worst = -1;                                             // rows to print, those with the largest errors; -1: all
};

std::string simulate_check_text(const SimulateChecks& checks);
std::string simulate_check_json(const SimulateChecks& checks);

}  // namespace twinpod::report
