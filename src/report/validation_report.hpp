// Prediction beside measurement, for people and for scripts: rows, statistics by group, memory, and what is not
// covered.
//
//     Validation validation;
//     validation.cases = ...; predict(validation.cases, parameters);
//     std::fputs(validation_text(validation, {}).c_str(), stdout);
#pragma once

#include <set>
#include <string>
#include <vector>

#include "plan/range.hpp"
#include "validate/memory_check.hpp"
#include "validate/validation.hpp"

namespace twinpod::report {

struct Validation {
  std::vector<validate::Case> cases;
  std::vector<validate::MemoryCase> memory;
  std::set<std::string> reference;  // ids of the best-documented runs
  std::set<std::string> fittable;   // ids of the catalog's runs: no other row can have been used for fitting
  plan::Accuracy accuracy;
  std::string predicted_by;  // where the numbers behind the predictions come from
};

struct ValidationOptions {
  bool split = false;  // rows used for fitting and rows never used, apart
  bool only_reference = false;
  std::string by = "";  // "stack", "device" or empty: further groups of the statistics
  int worst = -1;       // print so many rows, the worst first; -1: all, in order
};

// Whether the shipped parameters were fitted to this row. A rule: the row's group decides its fold, and one fold is
// kept out.
bool is_used_for_fit(const Validation& validation, const validate::Case& one);

std::string validation_text(const Validation& validation, const ValidationOptions& options);
std::string validation_json(const Validation& validation, const ValidationOptions& options);

}  // namespace twinpod::report
