// Answers to questions (plan/questions.hpp) for people, as tables, and for scripts, as JSON objects.
//
//     std::fputs(what_if_text(*worlds).c_str(), stdout);
//     json["what_if"] = what_if_json(*worlds);                or printed(what_if_json(*worlds)) alone
//
// In JSON what is not known, or does not fit, is null.
#pragma once

#include <string>
#include <vector>

#include "plan/questions.hpp"
#include "report/json_parts.hpp"

namespace twinpod::report {

std::string what_if_text(const std::vector<plan::World>& worlds);
Json what_if_json(const std::vector<plan::World>& worlds);

std::string scale_curve_text(const plan::ScaleCurve& curve);
Json scale_curve_json(const plan::ScaleCurve& curve);

std::string deadline_text(const plan::DeadlineAnswer& answer);
Json deadline_json(const plan::DeadlineAnswer& answer);

std::string largest_sequence_text(const plan::LargestSequence& answer);
Json largest_sequence_json(const plan::LargestSequence& answer);

std::string largest_batch_text(const plan::LargestBatch& answer);
Json largest_batch_json(const plan::LargestBatch& answer);

std::string largest_model_text(const plan::LargestModel& answer);
Json largest_model_json(const plan::LargestModel& answer);

// The best of each column is marked with *.
std::string side_by_side_text(const std::vector<plan::Contender>& contenders);
Json side_by_side_json(const std::vector<plan::Contender>& contenders);

// One answer: devices, layout, batch, step, rates, memory, time and cost of the run.
Json answer_json(const plan::Answer& answer);

}  // namespace twinpod::report
