// What a calibration found, for people and for scripts: each log before and after, the numbers that moved and those
// that could not, memory.
//
//     std::fputs(calibration_text(calibration).c_str(), stdout);
#pragma once

#include <string>

#include "validate/calibrate.hpp"

namespace twinpod::report {

// Where the fitted stack stands.
struct CalibrationOutput {
  std::string stack;  // its text
  std::string path;   // the file that it was written to; empty: none
};

std::string calibration_text(const validate::Calibration& calibration, const CalibrationOutput& output);
std::string calibration_json(const validate::Calibration& calibration, const CalibrationOutput& output);

}  // namespace twinpod::report
