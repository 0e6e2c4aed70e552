// What reports of real and of simulated runs with parameter servers have in common.
#pragma once

#include <string>

#include "ps/choice.hpp"
#include "report/json_parts.hpp"

namespace twinpod::report {

// "2 servers, 4 workers, ssp:3, 2 copies"
std::string choice_text(const ps::Choice& choice);

void add_choice(const ps::Choice& choice, Json& json);
void add_protocol(const ps::ServedReport& report, Json& json);

}  // namespace twinpod::report
