// Predicted beside measured memory: every published row that prints what a device used.
//
//     Result<std::vector<MemoryCase>> cases = check_memory_rows(catalog, runs);
//     const Statistics all = statistics(memory_errors(*cases, [](const MemoryCase&) { return true; }));
//
// Sources do not print the same thing. One reads the driver's counter, one the framework's; one divides by 2^30 and
// writes GB; one logs the first rank only. What each reads is a rule on the framework (meter_of), never on a row.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "plan/memory.hpp"
#include "spec/catalog.hpp"
#include "validate/published_run.hpp"
#include "validate/run_job.hpp"
#include "validate/validation.hpp"

namespace twinpod::validate {

enum class Counter { allocated, reserved, used };

// How a source reads memory.
struct Meter {
  Counter counter = Counter::used;
  double unit = 1e9;        // bytes of what it writes as GB
  bool first_rank = false;  // of the first pipeline stage, not of the fullest
  bool first_node = false;  // of the fullest stage on the first node: what one looks at who reads the driver there
};

Meter meter_of(const PublishedRun& run);

struct MemoryCase {
  PublishedRun run;
  RunJob made;
  std::string not_covered;  // why the arithmetic does not cover the row; empty: it does
  Meter meter;
  plan::MemoryUse use;
  double measured_bytes = 0;
  double predicted_bytes = 0;

  bool covered() const { return not_covered.empty(); }
  double error() const { return predicted_bytes / measured_bytes - 1; }
};

// Rows of kind `memory` and `llm_training` that print their memory, in the order of the runs. Others are passed over.
std::vector<MemoryCase> check_memory_rows(const spec::Catalog& catalog, const std::vector<PublishedRun>& runs);

std::vector<double> memory_errors(const std::vector<MemoryCase>& cases,
                                  const std::function<bool(const MemoryCase&)>& wanted);

}  // namespace twinpod::validate
