#include "cli/study_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/half.hpp"
#include "train/loop.hpp"
#include "train/served_run.hpp"

namespace twinpod::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Lets a rank rest before each step, so that all of the step takes as long as it should. What it would take anyway is
// the shortest that was seen.
class Pacer {
 public:
  Pacer(const ps::Choice& choice, int rank) : choice_(choice), rank_(rank) {}

  void rest() {
    if (step_ > 0) fastest_ = std::min(fastest_, seconds_since(went_on_));
    began_ = Clock::now();
    const double passes = std::isfinite(fastest_) ? fastest_ : 0;
    const double due = std::max(choice_.pace_s, passes) * ps::slowdown(choice_.straggler, rank_, step_);
    slept_s_ = std::max(0.0, due - passes);
    if (slept_s_ > 0) std::this_thread::sleep_for(std::chrono::duration<double>(slept_s_));
    went_on_ = Clock::now();
    ++step_;
  }
  double slept_s() const { return slept_s_; }                     // before the present step
  double since_begin_s() const { return seconds_since(began_); }  // of the present step, its rest included

 private:
  const ps::Choice& choice_;
  int rank_;
  std::int64_t step_ = 0;
  double fastest_ = std::numeric_limits<double>::infinity();
  double slept_s_ = 0;
  Clock::time_point began_ = {};
  Clock::time_point went_on_ = {};
};

// What rank 0 saw of a step.
struct SeenStep {
  double whole_s = 0;  // with an evaluation, if there was one
  double known_s = 0;  // rest and step; the others' rest is not in it
  double evaluation_loss = 0;
};

template <typename T>
Result<std::string> reduced_rank(const TrainPlan& plan, const ps::Choice& choice, int steps, Progress* progress,
                                 comm::Communicator& world) {
  Pacer pacer(choice, comm::rank_of(world));
  std::vector<SeenStep> seen;
  train::LoopSettings settings;
  settings.steps = steps;
  settings.asked_to_stop = [&] {
    pacer.rest();
    return false;
  };
  settings.note = [&](const train::StepNote& note) {
    seen.push_back({pacer.since_begin_s(), pacer.slept_s() + note.seconds, note.evaluation_loss});
    if (progress != nullptr) progress->advance();
  };
  const Result<train::LoopResult> run = train::run_loop<T>(plan.job, plan.program, world, plan.samples, settings);
  if (!run) return tl::unexpected(run.error());
  if (run->refused) return tl::unexpected(*run->refused);
  if (comm::rank_of(world) != 0) return std::string();
  std::vector<double> others;  // waiting for ranks that rest longer
  for (const SeenStep& one : seen) {
    if (one.evaluation_loss == 0) others.push_back(one.whole_s - one.known_s);
  }
  const double waits = std::max(0.0, median(others));
  Json answer = {{"final_loss", run->final_loss}, {"steps", Json::array()}};
  for (const SeenStep& one : seen) {
    const double whole = one.evaluation_loss == 0 ? one.whole_s : std::min(one.whole_s, one.known_s + waits);
    answer["steps"].push_back({whole, one.evaluation_loss});
  }
  return answer.dump();
}

Result<std::string> reduce_all(const TrainRequest& request, const TrainPlan& plan, const ps::Choice& choice, int steps,
                               Progress* progress) {
  return comm::run_processes(choice.workers, request.options, [&](comm::Communicator& world) {
    return plan.job.training.precision == spec::Precision::bf16
               ? reduced_rank<Bf16>(plan, choice, steps, progress, world)
               : reduced_rank<float>(plan, choice, steps, progress, world);
  });
}

}  // namespace

Arguments job_arguments(const Arguments& arguments) {
  constexpr std::array<std::string_view, 10> kOwn = {"servers", "workers", "modes",  "straggler",         "pace",
                                                     "steps",   "target",  "output", "simulated-workers", "on"};
  Arguments own = arguments;
  own.words.erase(own.words.begin());
  std::erase_if(own.flags, [&](const GivenFlag& given) {
    return std::find(kOwn.begin(), kOwn.end(), given.flag->name) != kOwn.end();
  });
  return own;
}

Result<StudyJob> study_job(const Arguments& arguments, int workers) {
  static constexpr Flag kRanks{"ranks", "N", "", ""};
  Arguments own = job_arguments(arguments);
  own.flags.push_back({&kRanks, fmt::format("{}", workers), fmt::format("--workers {}", workers)});
  Result<TrainRequest> request = train_request(own);
  if (!request) return tl::unexpected(request.error());
  const spec::Layout& l = request->job.layout;
  if (l.tp > 1 || l.pp > 1 || l.zero > 0) {
    return input_error(fmt::format("study: tp {}, pp {}, zero {}: a worker holds the whole model", l.tp, l.pp, l.zero),
                       "tp 1, pp 1, zero 0");
  }
  if (!request->job.checkpoint.store.empty()) {
    return input_error("study: the job saves checkpoints", "the job without checkpoint.store");
  }
  return StudyJob{std::move(*request)};
}

Result<void> plan_study(StudyJob& job, int workers, int steps) {
  constexpr int kEvaluations = 12;
  spec::Training& training = job.request.job.training;
  training.recipe.steps = steps;
  training.recipe.warmup = std::min(training.recipe.warmup, steps / 10);
  training.recipe.evaluate_every = std::max(1, steps / kEvaluations);
  training.target_loss = 0;  // no run ends before the others
  Result<TrainPlan> plan = plan_training(job.request, workers);
  if (!plan) return tl::unexpected(plan.error());
  job.plan.emplace(std::move(*plan));
  return {};
}

Result<double> passes_alone(StudyJob& job, int workers) {
  constexpr int kSteps = 8;
  const spec::Job whole = job.request.job;
  spec::Job& one = job.request.job;
  if (one.training.batch_tokens == 0) one.training.global_batch /= workers;
  one.training.recipe.evaluate_every = 0;
  one.training.target_loss = 0;
  const Result<TrainPlan> plan = plan_training(job.request, 1);
  const Result<std::string> answer =
      plan ? reduce_all(job.request, *plan, {}, kSteps, nullptr) : tl::unexpected(plan.error());
  job.request.job = whole;
  if (!answer) return tl::unexpected(answer.error());
  std::vector<double> seconds;
  const Json told = Json::parse(*answer);
  for (const Json& step : told["steps"]) seconds.push_back(step[0].get<double>());
  seconds.erase(seconds.begin(), seconds.begin() + 2);  // they warm up
  return median(seconds);
}

HostRates measured_host() {
  constexpr std::size_t kBytes = 32 << 20;
  std::vector<std::byte> from(kBytes, std::byte{1});
  std::vector<std::byte> to(kBytes);
  double best = 1e9;
  for (int i = 0; i < 6; ++i) {
    const Clock::time_point begin = Clock::now();
    std::memcpy(to.data(), from.data(), kBytes);
    from[static_cast<std::size_t>(i)] = to[kBytes - 1];
    best = std::min(best, seconds_since(begin));
  }
  return {static_cast<double>(kBytes) / best};
}

Result<report::StudyMode> train_all_reduced(const StudyJob& job, const ps::Choice& choice, Progress& progress) {
  const TrainPlan& plan = *job.plan;
  const int steps = train::steps_of(plan.job);
  const Result<std::string> text = reduce_all(job.request, plan, choice, steps, &progress);
  if (!text) return tl::unexpected(text.error());
  progress.advance(static_cast<std::size_t>(steps));  // the ranks' own count went with them
  const Json answer = Json::parse(*text);
  report::StudyMode mode;
  mode.final_loss = answer["final_loss"].get<double>();
  const double batch = plan.job.training.global_batch;
  double begin = 0;
  std::int64_t step = 0;
  for (const Json& one : answer["steps"]) {
    const double end = begin + one[0].get<double>();
    for (int rank = 0; rank < choice.workers; ++rank) {
      const double passes = std::max(choice.pace_s, job.alone_s) * ps::slowdown(choice.straggler, rank, step);
      const double computed = std::min(passes, end - begin);
      mode.report.steps.push_back({rank, step, begin, end, end - begin - computed, 0, computed});
    }
    ++step;
    if (const double loss = one[1].get<double>(); loss > 0) {
      mode.curve.push_back({end, static_cast<double>(step) * batch, loss});
    }
    begin = end;
  }
  mode.report.seconds = begin;
  mode.report.tokens = static_cast<double>(step) * batch * plan.job.training.sequence;
  return mode;
}

Result<report::StudyMode> train_served_mode(const StudyJob& job, const ps::Choice& choice, Progress& progress) {
  const TrainPlan& plan = *job.plan;
  train::ServedSettings settings;
  settings.steps = train::steps_of(plan.job);
  settings.timeout_s = job.request.options.timeout_s;
  settings.note = [&](const train::StepNote&) { progress.advance(); };
  Result<train::ServedResult> run = train::run_served(plan.job, plan.samples, choice, settings);
  if (!run) return tl::unexpected(run.error());
  report::StudyMode mode;
  mode.served = true;
  mode.final_loss = run->final_loss;
  for (const train::ServedEvaluation& one : run->evaluations) {
    mode.curve.push_back({one.seconds, one.samples, one.loss});
  }
  mode.report = std::move(run->report);
  return mode;
}

}  // namespace twinpod::cli
