// Prediction beside measurement: all published runs, in the sample and out of it.
//
// Rows that share stack, model dimensions, sequence, layout, micro-batch, device and precision form a group; a row's
// siblings would give its answer away, so a group is always kept together. The group's hash decides its fold, and fold
// 0 is never used to fit what is shipped (catalog/parameters.yaml): which row is which is a rule, not a choice.
//
//     Result<std::vector<Case>> cases = load_cases(catalog, runs);
//     predict(*cases, *catalog.parameters());
//     const Statistics all = statistics(errors(*cases));
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "spec/catalog.hpp"
#include "validate/fit.hpp"
#include "validate/published_run.hpp"
#include "validate/run_job.hpp"

namespace twinpod::validate {

inline constexpr int kFolds = 5;
inline constexpr int kHeldOutFold = 0;

struct Case {
  PublishedRun run;
  RunJob made;
  std::string not_covered;  // why the arithmetic does not cover the row; empty: it does
  std::string group;
  int fold = 0;
  double predicted_s = 0;

  bool covered() const { return not_covered.empty(); }
  bool mixture() const { return run.experts > 0; }
  bool documented() const { return run.grade == "A" || run.grade == "B"; }
  double error() const { return predicted_s / run.measured_s() - 1; }
};

Result<std::vector<Case>> load_cases(const spec::Catalog& catalog, const std::vector<PublishedRun>& runs);

// Rows that may be used for fitting: covered and documented.
std::vector<Sample> samples_of(const std::vector<Case>& cases, const std::function<bool(const Case&)>& wanted);

void predict(std::vector<Case>& cases, const spec::Parameters& parameters);

// Called after each fit of a long validation.
using Tick = std::function<void(int done, int total)>;

// Each fold is predicted by parameters fitted to the others.
void cross_validate(std::vector<Case>& cases, const spec::Parameters& shape, const FitOptions& options,
                    const Tick& tick = {});

// Each stack is predicted by parameters fitted without any of its rows: it has only its traits.
void leave_stack_out(std::vector<Case>& cases, const spec::Parameters& shape, const FitOptions& options,
                     const Tick& tick = {});

struct Statistics {
  int count = 0;
  double median = 0;  // of absolute relative errors
  double mean = 0;
  double p90 = 0;
  double bias = 0;  // median of signed errors
};

Statistics statistics(std::vector<double> signed_errors);
std::vector<double> errors(const std::vector<Case>& cases, const std::function<bool(const Case&)>& wanted);

}  // namespace twinpod::validate
