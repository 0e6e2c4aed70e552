// The same answers for scripts: one JSON object, keys in snake_case with the unit as a suffix.
//
//     estimate_json(job, assessment, {})    {"job": "...", "step_time_s": 29.4, ...}
//
// What is not known is null. Numbers are written with all their digits, so that sums still add up.
#pragma once

#include <string>

#include "core/error.hpp"
#include "plan/assessment.hpp"
#include "report/tables.hpp"
#include "spec/job.hpp"

namespace twinpod::report {

std::string estimate_json(const spec::Job& job, const plan::Assessment& assessment, const EstimateOptions& options);

// {"error": {"kind": "input", "message": ..., "hint": ..., "file": ..., "line": ..., "column": ...}}
std::string error_json(const Error& error);

}  // namespace twinpod::report
