// What `twinpod validate --simulate` prints: measured, closed form and simulated steps side by side.
#pragma once

#include <string>
#include <vector>

#include "validate/simulate_check.hpp"

namespace twinpod::report {

std::string simulate_check_text(const std::vector<validate::SimulatedRun>& runs);
std::string simulate_check_json(const std::vector<validate::SimulatedRun>& runs);

}  // namespace twinpod::report
