#include "validate/validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/hash.hpp"
#include "core/parallel.hpp"

namespace twinpod::validate {
namespace {

// Mixture rows repeat few configurations over many releases and scatter by tens of per cent: they settle the numbers of
// experts, and should hardly move those that dense rows know better.
constexpr double kMixtureWeight = 0.5;

std::string group_of(const Case& one) {
  const PublishedRun& r = one.run;
  const bool narrow = r.precision.find("FP8") != std::string::npos || r.precision.find("FP4") != std::string::npos;
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", stack_of(r), r.layers, r.hidden, r.heads, r.ffn, r.seq,
                     r.tp, r.pp, r.cp, r.mbs, r.device, narrow);
}

double quantile(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return 0;
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

void predict_where(std::vector<Case>& cases, const spec::Parameters& parameters,
                   const std::function<bool(const Case&)>& wanted) {
  parallel_for(cases.size(), [&](std::size_t i) {
    Case& one = cases[i];
    if (!one.covered() || !wanted(one)) return;
    one.predicted_s = predicted_s(one.made.job, parameters);
    if (!std::isfinite(one.predicted_s)) one.not_covered = "no finite prediction";
  });
}

}  // namespace

Result<std::vector<Case>> load_cases(const spec::Catalog& catalog, const std::vector<PublishedRun>& runs) {
  Library library(catalog);
  std::vector<Case> cases;
  cases.reserve(runs.size());
  for (const PublishedRun& run : runs) {
    if (run.kind != "llm_training") continue;
    Case one;
    one.run = run;
    one.not_covered = why_not_covered(run);
    one.group = group_of(one);
    one.fold = static_cast<int>(fnv1a(one.group) % kFolds);
    if (one.covered()) {
      Result<RunJob> made = job_of(run, library);
      if (made)
        one.made = std::move(*made);
      else
        one.not_covered = made.error().message;
    }
    cases.push_back(std::move(one));
  }
  return cases;
}

std::vector<Sample> samples_of(const std::vector<Case>& cases, const std::function<bool(const Case&)>& wanted) {
  std::vector<Sample> samples;
  for (const Case& one : cases) {
    if (one.covered() && one.documented() && wanted(one))
      samples.push_back({one.made.job, one.run.measured_s(), one.mixture() ? kMixtureWeight : 1.0});
  }
  return samples;
}

void predict(std::vector<Case>& cases, const spec::Parameters& parameters) {
  predict_where(cases, parameters, [](const Case&) { return true; });
}

void cross_validate(std::vector<Case>& cases, const spec::Parameters& shape, const FitOptions& options,
                    const Tick& tick) {
  for (int fold = 0; fold < kFolds; ++fold) {
    const FitResult fitted = fit(samples_of(cases, [&](const Case& c) { return c.fold != fold; }), shape, options);
    predict_where(cases, fitted.parameters, [&](const Case& c) { return c.fold == fold; });
    if (tick) tick(fold + 1, kFolds);
  }
}

void leave_stack_out(std::vector<Case>& cases, const spec::Parameters& shape, const FitOptions& options,
                     const Tick& tick) {
  std::set<std::string> stacks;
  for (const Case& one : cases) {
    if (one.covered()) stacks.insert(one.made.job.stack.name);
  }
  int done = 0;
  for (const std::string& stack : stacks) {
    spec::Parameters without = shape;
    without.by_stack.erase(stack);
    const FitResult fitted =
        fit(samples_of(cases, [&](const Case& c) { return c.made.job.stack.name != stack; }), without, options);
    predict_where(cases, fitted.parameters, [&](const Case& c) { return c.made.job.stack.name == stack; });
    if (tick) tick(++done, static_cast<int>(stacks.size()));
  }
}

Statistics statistics(std::vector<double> signed_errors) {
  Statistics s;
  s.count = static_cast<int>(signed_errors.size());
  if (s.count == 0) return s;
  std::sort(signed_errors.begin(), signed_errors.end());
  s.bias = quantile(signed_errors, 0.5);
  std::vector<double> sizes;
  sizes.reserve(signed_errors.size());
  for (const double e : signed_errors) sizes.push_back(std::fabs(e));
  std::sort(sizes.begin(), sizes.end());
  s.median = quantile(sizes, 0.5);
  s.p90 = quantile(sizes, 0.9);
  double sum = 0;
  for (const double e : sizes) sum += e;
  s.mean = sum / s.count;
  return s;
}

std::vector<double> errors(const std::vector<Case>& cases, const std::function<bool(const Case&)>& wanted) {
  std::vector<double> list;
  for (const Case& one : cases) {
    if (one.covered() && wanted(one)) list.push_back(one.error());
  }
  return list;
}

}  // namespace twinpod::validate
