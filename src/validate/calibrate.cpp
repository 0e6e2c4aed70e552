#include "validate/calibrate.hpp"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <optional>

#include "core/quote.hpp"
#include "plan/estimate.hpp"
#include "validate/fit.hpp"

namespace twinpod::validate {
namespace {

using spec::FieldValues;
using spec::PhysicsField;

// A median over many steps is good to a per cent or two, and so is the closed form once it knows the stack.
constexpr double kCorner = 0.02;
constexpr double kPull = 0.5;  // width of a number's prior, in log units
constexpr int kIterations = 60;
constexpr std::string_view kPace = "pace";

double predicted_with(const spec::Job& job, const FieldValues& values) {
  spec::Job moved = job;
  spec::set_fields(values, moved.stack.physics);
  return plan::step_time(moved).total_s;
}

// ---- What the jobs can tell apart

// A number that might be freed, and its derivative: how far each job's predicted step moves, as a share of it, when the
// number moves by the width of its prior.
struct Candidate {
  const PhysicsField* field = nullptr;
  Eigen::VectorXd pattern;
};

Eigen::VectorXd pattern_of(const std::vector<Sample>& samples, const PhysicsField& field) {
  constexpr double kStep = 1e-3;
  Eigen::VectorXd pattern(static_cast<Eigen::Index>(samples.size()));
  for (Eigen::Index i = 0; i < pattern.size(); ++i) {
    const spec::Job& job = samples[static_cast<std::size_t>(i)].job;
    const double value = job.stack.physics.*field.member;
    const std::string name(field.name);
    // Downwards: shares and efficiencies may stand at their upper bound.
    const double slope =
        std::log(predicted_with(job, {{name, value}}) / predicted_with(job, {{name, value * (1 - kStep)}}));
    pattern[i] = kPull * slope / kStep;
  }
  return pattern;
}

// A number that the software settles (no launches in a compiled program) lies outside its bounds, and is left alone.
bool is_free(const spec::Physics& physics, const PhysicsField& field) {
  const double value = physics.*field.member;
  return value >= field.low && value <= field.high && value > 0;
}

std::vector<Candidate> candidates_of(const std::vector<Sample>& samples) {
  std::vector<Candidate> candidates;
  for (const std::string_view name : kFurtherNumbers) {
    const PhysicsField& field = *spec::find_physics_field(name);
    if (is_free(samples.front().job.stack.physics, field)) candidates.push_back({&field, pattern_of(samples, field)});
  }
  return candidates;
}

// Length of the part of a pattern that no combination of the chosen ones makes. Repeated jobs count once for each log.
double own_length(const Eigen::VectorXd& pattern, const std::vector<Eigen::VectorXd>& chosen) {
  Eigen::MatrixXd columns(pattern.size(), static_cast<Eigen::Index>(chosen.size()));
  for (std::size_t i = 0; i < chosen.size(); ++i) columns.col(static_cast<Eigen::Index>(i)) = chosen[i];
  const Eigen::VectorXd weights = columns.colPivHouseholderQr().solve(pattern);
  return (pattern - columns * weights).norm();
}

// ---- Selection and fit

FitResult fit_numbers(const std::vector<Sample>& samples, const FieldValues& free) {
  spec::Parameters shape;
  shape.shared = free;
  FitOptions options;
  options.corner = kCorner;
  options.pull = kPull;
  options.iterations = kIterations;
  options.base = &samples.front().job.stack.physics;
  return fit(samples, shape, options);
}

// Jobs whose steps are predicted alike are the same job.
std::vector<int> job_groups(const std::vector<Sample>& samples) {
  std::vector<double> known;
  std::vector<int> groups;
  for (const Sample& sample : samples) {
    const double predicted = plan::step_time(sample.job).total_s;
    const auto same = std::find_if(known.begin(), known.end(),
                                   [&](double other) { return std::fabs(other - predicted) <= 1e-9 * predicted; });
    groups.push_back(static_cast<int>(same - known.begin()));
    if (same == known.end()) known.push_back(predicted);
  }
  return groups;
}

int count_groups(const std::vector<int>& groups) { return 1 + *std::max_element(groups.begin(), groups.end()); }

struct Selection {
  FieldValues values;  // of what is fitted
  std::vector<std::pair<const PhysicsField*, Standing>> standings;
};

struct Search {
  const std::vector<Sample>& samples;
  std::vector<Candidate> candidates;
  std::vector<Eigen::VectorXd> chosen;  // patterns of what is fitted
  FieldValues free;
  FitResult fitted;

  bool is_fitted(const Candidate& one) const { return free.contains(std::string(one.field->name)); }
  bool is_visible(const Candidate& one) const { return own_length(one.pattern, chosen) > kVisible; }
};

struct Trial {
  const Candidate* candidate = nullptr;
  FitResult fitted;
};

// The visible candidate that lowers the loss most; none when no one pays its charge.
std::optional<Trial> best_trial(const Search& search) {
  std::optional<Trial> best;
  for (const Candidate& one : search.candidates) {
    if (search.is_fitted(one) || !search.is_visible(one)) continue;
    FieldValues free = search.free;
    free[std::string(one.field->name)] = 0;
    FitResult fitted = fit_numbers(search.samples, free);
    if (search.fitted.loss_after - fitted.loss_after <= kCharge) continue;
    if (!best || fitted.loss_after < best->fitted.loss_after) best = Trial{&one, std::move(fitted)};
  }
  return best;
}

Standing standing_of(const Search& search, const Candidate& one, bool full) {
  if (search.is_fitted(one)) return Standing::fitted;
  if (!search.is_visible(one)) return Standing::not_told;
  return full ? Standing::too_few_jobs : Standing::not_needed;
}

Selection select_numbers(const std::vector<Sample>& samples) {
  const PhysicsField& pace = *spec::find_physics_field(kPace);
  Search search{samples, candidates_of(samples), {pattern_of(samples, pace)}, {{std::string(kPace), 0}}, {}};
  search.fitted = fit_numbers(samples, search.free);
  const auto most = static_cast<std::size_t>(std::max(1, count_groups(job_groups(samples)) - 1));
  std::optional<Trial> next;
  // Also when no place is left: whether a further job would free a number is worth saying.
  while ((next = best_trial(search)) && search.free.size() < most) {
    search.free[std::string(next->candidate->field->name)] = 0;
    search.chosen.push_back(next->candidate->pattern);
    search.fitted = std::move(next->fitted);
  }
  Selection selection{search.fitted.parameters.shared, {{&pace, Standing::fitted}}};
  for (const Candidate& one : search.candidates) {
    selection.standings.emplace_back(one.field, standing_of(search, one, next && next->candidate == &one));
  }
  return selection;
}

// ---- The whole

tl::unexpected<Error> other_device(const CalibrationRun& run, const spec::Job& first) {
  Error error =
      input_error(fmt::format("this job runs on {}, the first one on {}; a stack is fitted for one kind of device",
                              run.job.cluster.device.family, first.cluster.device.family),
                  "calibrate each kind of device by itself")
          .value();
  error.file = run.job_file;
  return tl::unexpected(std::move(error));
}

Result<std::vector<MeasuredStep>> measured_steps(const std::vector<CalibrationRun>& runs) {
  std::vector<MeasuredStep> steps;
  for (const CalibrationRun& run : runs) {
    if (run.job.cluster.device.family != runs.front().job.cluster.device.family)
      return other_device(run, runs.front().job);
    const Result<MeasuredStep> step = measured_step(run.log, run.job);
    if (!step) return tl::unexpected(step.error());
    steps.push_back(*step);
  }
  return steps;
}

std::vector<CalibratedNumber> numbers_of(const Selection& selection, const spec::Physics& base) {
  std::vector<CalibratedNumber> numbers;
  for (const auto& [field, standing] : selection.standings) {
    const double before = base.*field->member;
    const auto value = selection.values.find(std::string(field->name));
    numbers.push_back({field, standing, before, value == selection.values.end() ? before : value->second});
  }
  return numbers;
}

// Each job by a selection and fit that never saw any of its logs.
void predict_unseen(const std::vector<Sample>& samples, const std::vector<int>& groups,
                    std::vector<CalibratedRun>& runs) {
  for (int group = 0; group < count_groups(groups); ++group) {
    std::vector<Sample> others;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (groups[i] != group) others.push_back(samples[i]);
    }
    const Selection selection = select_numbers(others);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (groups[i] == group) runs[i].unseen_s = predicted_with(samples[i].job, selection.values);
    }
  }
}

}  // namespace

Result<Calibration> calibrate(const std::vector<CalibrationRun>& runs) {
  const Result<std::vector<MeasuredStep>> steps = measured_steps(runs);
  if (!steps) return tl::unexpected(steps.error());
  std::vector<Sample> samples;
  std::vector<MemoryLog> memory;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    samples.push_back({runs[i].job, (*steps)[i].seconds, 1});
    memory.push_back({&runs[i].log, &runs[i].job});
  }
  const std::vector<int> groups = job_groups(samples);
  const Selection selection = select_numbers(samples);
  const spec::Job& first = runs.front().job;
  Calibration result;
  result.base = first.stack.name;
  result.device = first.cluster.device.family;
  result.jobs = count_groups(groups);
  result.numbers = numbers_of(selection, first.stack.physics);
  result.memory = calibrate_memory(memory);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    result.runs.push_back({std::filesystem::path(runs[i].log.file).filename().string(), runs[i].job_file, (*steps)[i],
                           plan::step_time(runs[i].job).total_s, predicted_with(runs[i].job, selection.values)});
  }
  if (result.has_unseen()) predict_unseen(samples, groups, result.runs);
  return result;
}

std::string stack_text(const Calibration& calibration, const std::string& base) {
  std::string sources;
  for (const CalibratedRun& run : calibration.runs) sources += (sources.empty() ? "" : ", ") + one_line(run.log);
  std::string text =
      fmt::format("# Fitted to training logs on {} by `twinpod calibrate`; for `twinpod estimate --stack`.\n",
                  one_line(calibration.device));
  text += fmt::format("base: {}\nparameters:\n", yaml_word(base));
  for (const CalibratedNumber& number : calibration.numbers) {
    if (number.standing != Standing::fitted) continue;
    // Rounding must not carry a value over its bound.
    const double value = std::clamp(number.after, number.field->low, number.field->high);
    text += fmt::format("  {}: {:.6g}  # {:.4g} before\n", number.field->name, value, number.before);
  }
  const MemoryCalibration& memory = calibration.memory;
  if (memory.fits_reserve || memory.fits_runtime) text += "memory:\n";
  if (memory.fits_reserve) text += fmt::format("  reserve: {:.4g}\n", memory.after.reserve);
  if (memory.fits_runtime) text += fmt::format("  runtime_bytes: {:.0f}\n", memory.after.runtime_bytes);
  return text + fmt::format("origin: measured\nsource: {}\n", double_quoted(sources));
}

}  // namespace twinpod::validate
