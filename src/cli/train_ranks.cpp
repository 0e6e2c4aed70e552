#include "cli/train_ranks.hpp"

#include <fmt/format.h>

#include <csignal>
#include <fstream>
#include <optional>

#include "cli/command.hpp"
#include "cli/train_teller.hpp"
#include "core/files.hpp"
#include "core/half.hpp"
#include "core/quote.hpp"
#include "core/signals.hpp"
#include "kernel/gemm.hpp"
#include "kernel/processor.hpp"
#include "machine/machine.hpp"
#include "plan/predict.hpp"
#include "report/step_report.hpp"
#include "report/trace.hpp"
#include "report/train_report.hpp"
#include "spec/parameters.hpp"
#include "train/agree.hpp"
#include "train/loop.hpp"

namespace twinpod::cli {
namespace {

// An answer that starts with this is an error. It stands in no text.
constexpr char kRefused = '\x15';

std::string refusal(const Error& error) {
  return fmt::format("{}{}{}{}{}", kRefused, static_cast<int>(error.kind), error.message, kRefused, error.hint);
}

// The same on all ranks, or none.
Result<std::optional<Error>> open_outputs(const TrainRequest& request, comm::Communicator& world,
                                          std::ofstream& metrics) {
  const bool writes = comm::rank_of(world) == 0;
  return train::agree(world, writes ? open_outputs(request, metrics) : Result<void>());
}

Result<void> write_timeline(const TrainRequest& request, const program::Program& program,
                            const program::Timeline& timeline) {
  if (!request.timeline.empty()) {
    const Result<void> wrote = write_file(request.timeline, report::timeline_json(program, timeline));
    if (!wrote) return wrote;
  }
  if (request.trace.empty()) return {};
  std::vector<int> lines;
  for (std::size_t i = 0; i < timeline.ranks.size(); ++i) lines.push_back(static_cast<int>(i));
  return report::write_trace({program, timeline, lines}, request.trace);
}

// Who saves ends behind a step, from the first one on; before it nothing would be lost.
bool asked_to_stop() {
  wish_for({SIGINT, SIGTERM, SIGHUP});
  return wished() != 0;
}

std::vector<std::string> notes_of(const TrainRequest& request, const spec::Job& job) {
  std::vector<std::string> notes;
  if (request.job.model.dropout > 0 && job.training.recipe.dropout == 0)
    notes.emplace_back("The model's dropout is off: training.dropout switches it on.");
  if (request.job.layout.zero > 1 && job.layout.zero == 1)
    notes.emplace_back("A pipeline keeps parameters and gradients whole: zero 1.");
  if (job.training.precision == spec::Precision::bf16)
    notes.emplace_back(kernel::bf16_products() == kernel::Bf16Products::native
                           ? "bf16 products: by the processor."
                           : "bf16 products: stored in bf16, computed in fp32, because this processor has none.");
  if (job.training.precision == spec::Precision::fp32 && kernel::instructions() == kernel::Instructions::amx)
    notes.emplace_back("fp32 products: in the processor's tiles, each number as three of bf16; as exact as fp32.");
  return notes;
}

// What the ranks found out before they trained.
struct Figures {
  spec::Job job;  // to predict
  double peak_flop_per_s = 0;
};

void add_notes_of_saves(const TrainRequest& request, const train::LoopResult& run, std::vector<std::string>& notes) {
  if (!run.resumed_from.empty())
    notes.push_back(fmt::format("Went on from {}, behind step {}.", run.resumed_from, run.first_step));
  for (const std::string& one : run.passed_over) notes.push_back(fmt::format("Passed over {}", one));
  for (const std::string& one : run.saves.errors) notes.push_back(fmt::format("While saving: {}", one));
  const std::size_t done = static_cast<std::size_t>(run.first_step) + run.steps.size();
  if (run.stopped)
    notes.push_back(fmt::format("Stopped behind step {}, because it was asked to. To go on: twinpod train --resume {}",
                                done, shell_quoted(request.store.root)));
}

// The newest state is what a run is for: whoever starts it in a script must see that it is not where it should be.
std::optional<Error> save_error(const TrainRequest& request, const train::LoopResult& run) {
  if (!run.saves.lacks_newest) return std::nullopt;
  const std::size_t done = static_cast<std::size_t>(run.first_step) + run.steps.size();
  const store::Tier& slowest = request.store.settings.tiers.back();
  const bool elsewhere = run.saves.newest_step == static_cast<std::int64_t>(done);
  std::string there = "no checkpoint was saved";
  if (run.saves.newest_step > 0)
    there = fmt::format("the newest checkpoint is of step {}{}", run.saves.newest_step,
                        elsewhere ? ", on a faster tier alone" : "");
  return infeasible(fmt::format("the state behind step {} could not be saved to {}: {}", done, slowest.root, there),
                    run.saves.errors.empty() ? "" : run.saves.errors.back())
      .value();
}

// Of a run that did no step: it had ended when it was resumed, or was asked to stop at once.
std::string idle_answer(const TrainRequest& request, const train::LoopResult& run, int steps) {
  const bool at_target = run.first_step < steps;
  if (request.json) return report::idle_json(run, steps);
  if (run.stopped) return fmt::format("Stopped behind step {} of {}, as it was asked to.\n", run.first_step, steps);
  return fmt::format(
      "{} is at step {} of {}{}: nothing is left to train.\n  to go on: twinpod train --resume {} --steps {}\n",
      run.resumed_from, run.first_step, steps, at_target ? ", and has reached its target loss" : "",
      shell_quoted(request.resumed), at_target ? steps : 2 * steps);
}

// Rank 0's, with the prediction beside.
Result<std::string> answer_of(const TrainRequest& request, const TrainPlan& plan, const Figures& figures,
                              const train::LoopResult& run, const std::string& metrics_error) {
  const spec::Job& job = plan.job;
  const std::optional<Error> not_saved = save_error(request, run);
  const Result<plan::Prediction> predicted = plan::predict_step(figures.job, plan.program, run.rehearsed);
  report::TrainView view{
      .job = job, .run = run, .transport = request.transport, .peak_flop_per_s = figures.peak_flop_per_s};
  view.error = not_saved ? &*not_saved : nullptr;
  const bool recorded = !run.timeline.ranks.empty();
  const report::OpTotals measured_ops = recorded ? report::op_totals(plan.program, run.timeline) : report::OpTotals();
  report::OpTotals predicted_ops;
  if (predicted) {
    view.predicted_step_s = predicted->run.step_s;
    view.basis = request.basis;
  }
  if (predicted && recorded) {
    predicted_ops = report::op_totals(plan.program, sim::timeline_of(predicted->run));
    predicted_ops.step_s = predicted->run.step_s;
    view.predicted = &predicted_ops;
    view.measured = &measured_ops;
  }
  view.notes = notes_of(request, job);
  add_notes_of_saves(request, run, view.notes);
  if (!metrics_error.empty()) view.notes.push_back(fmt::format("Not written: {}.", metrics_error));
  const Result<void> wrote = recorded ? write_timeline(request, plan.program, run.timeline) : Result<void>();
  if (!wrote) return tl::unexpected(wrote.error());
  std::string answer = request.json ? report::train_json(view) : report::train_text(view);
  return not_saved ? answer_with_error(answer, *not_saved) : answer;
}

std::string transport_of(const TrainRequest& request) { return request.transport == "mpi" ? "mpi" : "processes"; }

// The job on this machine, as measure(machine) finds it.
template <typename F>
Result<spec::Job> job_with_machine(const TrainRequest& request, const spec::Job& job, F&& measure) {
  if (!request.measures_machine) return job;
  machine::Machine here = machine::topology_of_this_host();
  if (const Result<void> measured = measure(here); !measured) return tl::unexpected(measured.error());
  spec::Job one = job;
  one.cluster = machine::cluster_of(here);
  spec::set_fields(one.cluster.measured.numbers, one.stack.physics);
  return one;
}

template <typename T>
Result<std::string> train_ranks(const TrainRequest& request, const TrainPlan& plan, comm::Communicator& world) {
  const Result<double> peak = train::measured_peak(world, plan.job.training.precision);
  if (!peak) return tl::unexpected(peak.error());
  const spec::Job& job = plan.job;
  Result<spec::Job> to_be = job_with_machine(request, job, [&](machine::Machine& here) {
    return machine::measure_surroundings(world, job, *peak, transport_of(request), here);
  });
  if (!to_be) return tl::unexpected(to_be.error());
  const Figures figures{std::move(*to_be), *peak};
  std::ofstream metrics;
  const Result<std::optional<Error>> unwritable = open_outputs(request, world, metrics);
  if (!unwritable) return tl::unexpected(unwritable.error());
  if (*unwritable) return refusal(**unwritable);

  Teller teller(job, *peak, metrics);
  train::LoopSettings settings;
  settings.steps = train::steps_of(job);
  settings.record_step = std::min(request.record_step, settings.steps - 1);
  settings.deterministic = request.deterministic;
  settings.rehearses = request.measures_machine;
  settings.note = [&](const train::StepNote& note) { teller.tell(note); };
  settings.checkpoints = request.store.settings;
  Result<train::Values> values = values_to_keep(request.document, request.job_folder, job, plan.samples);
  if (!values) return refusal(values.error());
  settings.checkpoints.values = std::move(*values);
  settings.warn = [&](const std::string& text) { teller.warn(text); };
  if (!request.store.settings.tiers.empty()) settings.asked_to_stop = asked_to_stop;
  const Result<train::LoopResult> run = train::run_loop<T>(job, plan.program, world, plan.samples, settings);
  teller.end();
  if (!run) return tl::unexpected(run.error());
  if (run->refused) return refusal(*run->refused);
  if (comm::rank_of(world) != 0) return std::string();
  if (run->steps.empty()) return idle_answer(request, *run, settings.steps);
  const Result<std::string> answer = answer_of(request, plan, figures, *run, teller.metrics_error());
  return answer ? *answer : refusal(answer.error());
}

}  // namespace

Result<void> open_outputs(const TrainRequest& request, std::ofstream& metrics) {
  if (!request.metrics.empty()) {
    // A run that goes on adds to what it wrote before.
    metrics.open(request.metrics, request.store.settings.resume_from.empty() ? std::ios::trunc : std::ios::app);
    if (!metrics) return input_error(fmt::format("--metrics {}: cannot be written", request.metrics));
  }
  for (const auto& [flag, path] : {std::pair("timeline", &request.timeline), std::pair("trace", &request.trace)}) {
    if (path->empty() || can_be_written(*path)) continue;
    return input_error(fmt::format("--{} {}: cannot be written", flag, *path), "a file in a folder that is there");
  }
  return {};
}

Result<spec::Job> job_to_predict(const TrainRequest& request, const spec::Job& job, comm::Communicator& world) {
  kernel::tune_gemm(!request.deterministic);
  return job_with_machine(request, job, [&](machine::Machine& here) {
    return machine::measure_job(world, job, transport_of(request), here);
  });
}

Result<std::string> train_rank(const TrainRequest& request, const TrainPlan* plan, comm::Communicator& world) {
  std::optional<TrainPlan> own;
  if (plan == nullptr) {
    Result<TrainPlan> made = plan_training(request, comm::size_of(world));
    const Result<std::optional<Error>> refused =
        train::agree(world, made ? Result<void>() : tl::unexpected(made.error()));
    if (!refused) return tl::unexpected(refused.error());
    if (*refused) return refusal(**refused);
    plan = &own.emplace(std::move(*made));
  }
  return plan->job.training.precision == spec::Precision::bf16 ? train_ranks<Bf16>(request, *plan, world)
                                                               : train_ranks<float>(request, *plan, world);
}

Result<std::string> answered(Result<std::string> answer) {
  if (!answer || !answer->starts_with(kRefused)) return answer;
  const std::size_t end = std::min(answer->find(kRefused, 1), answer->size() - 1);
  Error error;
  error.kind = static_cast<ErrorKind>((*answer)[1] - '0');
  error.message = answer->substr(2, end - 2);
  error.hint = answer->substr(end + 1);
  return tl::unexpected(error);
}

}  // namespace twinpod::cli
