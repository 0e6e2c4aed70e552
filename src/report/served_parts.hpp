// What reports of real and of simulated runs with parameter servers have in common.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "ps/choice.hpp"
#include "report/json_parts.hpp"

namespace twinpod::report {

// "2 servers, 4 workers, ssp:3, 2 copies"
std::string choice_text(const ps::Choice& choice);

void add_choice(const ps::Choice& choice, Json& json);
void add_protocol(const ps::ServedReport& report, Json& json);

inline double mean_of(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace twinpod::report
