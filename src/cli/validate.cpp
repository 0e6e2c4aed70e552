// twinpod validate: prediction beside measurement for every published run.
#include <fmt/format.h>

#include <array>

#include "cli/command.hpp"
#include "cli/validate_measured.hpp"
#include "core/files.hpp"
#include "core/progress.hpp"
#include "core/thousands.hpp"
#include "report/plan_check_report.hpp"
#include "report/scatter.hpp"
#include "report/simulate_check_report.hpp"
#include "report/validation_report.hpp"
#include "validate/accuracy.hpp"

namespace twinpod::cli {
namespace {

using validate::Case;

constexpr std::array kFlagsOfValidate = {
    Flag{"split", "", "rows used for fitting and rows never used, apart", ""},
    Flag{"cross-validate", "", "predict each fold by parameters fitted to the others", ""},
    Flag{"leave-stack-out", "", "predict each stack by parameters fitted without it", ""},
    Flag{"by", "stack|device", "statistics for each stack (the default) or device", ""},
    Flag{"worst", "N", "print only the N worst rows", ""},
    Flag{"reference", "", "only the best-documented runs", ""},
    Flag{"collectives", "", "predicted times of collectives beside measured ones", ""},
    Flag{"gemm", "", "predicted times of matrix products beside measured ones", ""},
    Flag{"plans", "", "is the plan as fast as the layouts that were published, and does it find their winners?", ""},
    Flag{"simulate", "", "the same runs simulated op by op (the best-documented ones, or all of a file)", ""},
    Flag{"refit", "FILE", "fit the parameters again, write them, and predict by them", ""},
    Flag{"svg", "FILE", "draw prediction against measurement, one dot a run", ""},
    Flag{"write-accuracy", "FILE", "write the ranges of later estimates (with --cross-validate)", ""},
};

Result<void> check_arguments(const Arguments& arguments) {
  if (arguments.words.size() > 1) {
    return input_error(
        fmt::format("validate takes one file of runs at most, but {} are given", arguments.words.size()));
  }
  const std::string by = arguments.value_or("by", "stack");
  if (by != "stack" && by != "device") {
    return input_error(fmt::format("--by: found `{}`, expected stack or device", by));
  }
  if (arguments.has("write-accuracy") && !arguments.has("cross-validate")) {
    return input_error("--write-accuracy needs predictions that never saw their rows", "add --cross-validate");
  }
  const bool several = arguments.has("cross-validate") + arguments.has("leave-stack-out") + arguments.has("refit") > 1;
  if (several)
    return input_error("--cross-validate, --leave-stack-out and --refit are three ways to predict", "choose one");
  return {};
}

Result<std::vector<validate::PublishedRun>> runs_of(const Arguments& arguments, const spec::Catalog& catalog) {
  if (arguments.words.empty()) return validate::read_catalog_runs(catalog);
  return validate::read_runs(arguments.words.front());
}

Result<std::set<std::string>> catalog_ids(const spec::Catalog& catalog) {
  const Result<std::vector<validate::PublishedRun>> runs = validate::read_catalog_runs(catalog);
  if (!runs) return tl::unexpected(runs.error());
  std::set<std::string> ids;
  for (const validate::PublishedRun& run : *runs) ids.insert(run.id);
  return ids;
}

Result<report::Validation> load(const Arguments& arguments, const spec::Catalog& catalog) {
  const auto runs = runs_of(arguments, catalog);
  if (!runs) return tl::unexpected(runs.error());
  Result<std::vector<Case>> cases = validate::load_cases(catalog, *runs);
  if (!cases) return tl::unexpected(cases.error());
  const Result<std::vector<std::string>> reference = validate::reference_ids(catalog);
  if (!reference) return tl::unexpected(reference.error());
  report::Validation validation;
  validation.cases = std::move(*cases);
  validation.memory = validate::check_memory_rows(catalog, *runs);
  validation.reference.insert(reference->begin(), reference->end());
  Result<std::set<std::string>> ids = catalog_ids(catalog);
  if (!ids) return tl::unexpected(ids.error());
  validation.fittable = std::move(*ids);
  // Ranges are extra here: this is the command that writes them.
  if (Result<plan::Accuracy> accuracy = plan::read_accuracy(catalog.folder() + "/accuracy.yaml")) {
    validation.accuracy = std::move(*accuracy);
  }
  return validation;
}

using LongValidation = void (*)(std::vector<Case>&, const spec::Parameters&, const validate::FitOptions&,
                                const validate::Tick&);

void run_with_progress(LongValidation run, const char* label, const spec::Parameters& shape, std::vector<Case>& cases) {
  constexpr int kTicks = 100;
  Progress progress(label, kTicks);
  int shown = 0;
  run(cases, shape, {}, [&](int done, int total) {
    const int now = kTicks * done / total;
    progress.advance(static_cast<std::size_t>(now - shown));
    shown = now;
  });
}

Result<void> refit(const std::string& path, const spec::Parameters& shape, report::Validation& validation) {
  const auto may_be_used = [](const Case& c) { return c.fold != validate::kHeldOutFold; };
  const validate::FitResult fitted = validate::fit(validate::samples_of(validation.cases, may_be_used), shape, {});
  validate::predict(validation.cases, fitted.parameters);
  validation.predicted_by =
      fmt::format("{} parameters fitted again: loss {:.1f} before, {:.1f} after {}", spec::count(fitted.parameters),
                  fitted.loss_before, fitted.loss_after, counted(fitted.iterations, "round"));
  return write_file(path, spec::write_parameters(fitted.parameters));
}

Result<void> predict_cases(const Arguments& arguments, const spec::Parameters& parameters,
                           report::Validation& validation) {
  const int free = spec::count(parameters);
  if (arguments.has("cross-validate")) {
    run_with_progress(validate::cross_validate, "cross-validation", parameters, validation.cases);
    validation.predicted_by = fmt::format("{} parameters fitted to the other folds ({} folds, siblings kept together)",
                                          free, validate::kFolds);
    const std::optional<std::string> path = arguments.value("write-accuracy");
    if (!path) return {};
    std::vector<Case> stack_left_out = validation.cases;
    run_with_progress(validate::leave_stack_out, "leaving stacks out", parameters, stack_left_out);
    validation.accuracy = validate::accuracy_of(validation.cases, stack_left_out);
    return write_file(*path, plan::write_accuracy(validation.accuracy));
  }
  if (arguments.has("leave-stack-out")) {
    run_with_progress(validate::leave_stack_out, "leaving stacks out", parameters, validation.cases);
    validation.predicted_by = fmt::format("{} parameters fitted without any row of the same stack", free);
    return {};
  }
  if (const std::optional<std::string> path = arguments.value("refit")) return refit(*path, parameters, validation);
  validate::predict(validation.cases, parameters);
  validation.predicted_by = fmt::format("the {} parameters of the catalog", free);
  return {};
}

// The reference runs, or all of a file that is given.
Result<std::string> check_plans(const Arguments& arguments, const spec::Catalog& catalog) {
  const auto runs = runs_of(arguments, catalog);
  if (!runs) return tl::unexpected(runs.error());
  const Result<std::vector<std::string>> reference = validate::reference_ids(catalog);
  if (!reference) return tl::unexpected(reference.error());
  const Result<std::vector<validate::Sweep>> sweeps = validate::read_catalog_sweeps(catalog);
  if (!sweeps) return tl::unexpected(sweeps.error());
  const std::set<std::string> wanted(reference->begin(), reference->end());
  validate::Library library(catalog);
  report::PlanChecks checks;
  for (const validate::PublishedRun& run : *runs) {
    if (arguments.words.empty() && !wanted.contains(run.id)) continue;
    if (!validate::why_not_covered(run).empty()) continue;
    const Result<validate::PlanCheck> check = validate::check_plan(run, library);
    if (!check) return tl::unexpected(check.error());
    checks.runs.push_back(*check);
  }
  for (const validate::Sweep& sweep : *sweeps) {
    const Result<validate::SweepRanking> ranking = validate::rank_points(sweep, library);
    if (!ranking) return tl::unexpected(ranking.error());
    checks.sweeps.emplace_back(sweep, *ranking);
  }
  return arguments.has("json") ? report::plan_checks_json(checks) : report::plan_checks_text(checks);
}

Result<std::string> check_simulation(const Arguments& arguments, const spec::Catalog& catalog) {
  const auto runs = runs_of(arguments, catalog);
  if (!runs) return tl::unexpected(runs.error());
  Result<std::vector<Case>> cases = validate::load_cases(catalog, *runs);
  if (!cases) return tl::unexpected(cases.error());
  const Result<std::vector<std::string>> reference = validate::reference_ids(catalog);
  if (!reference) return tl::unexpected(reference.error());
  const std::set<std::string> wanted(reference->begin(), reference->end());
  std::erase_if(*cases,
                [&](const Case& c) { return !c.covered() || (arguments.words.empty() && !wanted.contains(c.run.id)); });
  Progress progress("simulated runs", cases->size());
  report::SimulateChecks checks;
  const Result<int> worst = whole_number(arguments, "worst", 0, -1);
  if (!worst) return tl::unexpected(worst.error());
  checks.worst = *worst;
  for (const Case& one : *cases) {
    const Result<validate::SimulatedRun> run = validate::simulate_run(one);
    progress.advance(1);
    if (run) {
      checks.runs.push_back(*run);
    } else {
      checks.left_out.emplace_back(one.run.id, run.error().message);
    }
  }
  return arguments.has("json") ? report::simulate_check_json(checks) : report::simulate_check_text(checks);
}

Result<std::string> run_validation(const Arguments& arguments) {
  if (arguments.has("collectives") || arguments.has("gemm")) return validate_measured(arguments);
  const Result<void> valid = check_arguments(arguments);
  if (!valid) return tl::unexpected(valid.error());
  if (arguments.has("plans")) return check_plans(arguments, catalog_of(arguments));
  if (arguments.has("simulate")) return check_simulation(arguments, catalog_of(arguments));
  const Result<int> worst = whole_number(arguments, "worst", 0, -1);
  if (!worst) return tl::unexpected(worst.error());
  const spec::Catalog catalog = catalog_of(arguments);
  Result<report::Validation> validation = load(arguments, catalog);
  if (!validation) return tl::unexpected(validation.error());
  const Result<spec::Parameters> parameters = catalog.parameters();
  if (!parameters) return tl::unexpected(parameters.error());
  const Result<void> predicted = predict_cases(arguments, *parameters, *validation);
  if (!predicted) return tl::unexpected(predicted.error());
  if (const std::optional<std::string> path = arguments.value("svg")) {
    const Result<void> drawn = write_file(*path, report::scatter_svg(validation->cases));
    if (!drawn) return tl::unexpected(drawn.error());
  }
  const report::ValidationOptions options{arguments.has("split"), arguments.has("reference"),
                                          arguments.value_or("by", ""), *worst};
  if (arguments.has("json")) return report::validation_json(*validation, options);
  return report::validation_text(*validation, options);
}

}  // namespace

const Command kValidate = {"validate",
                           "[RUNS.yaml] [flags]",
                           "prediction beside measurement for every published run, and the error by groups",
                           "twinpod validate --worst 20\n"
                           "twinpod validate --reference\n"
                           "twinpod validate --split --worst 0\n"
                           "twinpod validate --cross-validate --worst 0\n"
                           "twinpod validate --cross-validate --worst 0 --svg accuracy.svg\n"
                           "twinpod validate --plans\n"
                           "twinpod validate --simulate\n"
                           "twinpod validate --collectives --cross-validate\n"
                           "twinpod validate --gemm my-products.csv --json\n"
                           "twinpod validate my-runs.yaml --json\n",
                           kFlagsOfValidate,
                           run_validation};

}  // namespace twinpod::cli
