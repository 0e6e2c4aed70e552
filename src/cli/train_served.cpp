#include "cli/train_served.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "cli/simulate_served.hpp"
#include "cli/study_runs.hpp"
#include "cli/train_ranks.hpp"
#include "cli/train_teller.hpp"
#include "core/files.hpp"
#include "ps/throughput.hpp"
#include "report/served_report.hpp"
#include "train/served_run.hpp"

namespace twinpod::cli {
namespace {

// What is found out before the run, while all ranks that are on this host compute.
struct ServedFigures {
  double peak_flop_per_s = 0;  // of a rank
  double passes_s = 0;         // of a worker, predicted; 0: they cannot be
};

Result<ServedFigures> measure(const TrainRequest& request, const TrainPlan& plan) {
  const int hosts = std::max(1, static_cast<int>(request.hosts.size()));
  const int workers = (request.served->workers - request.host + hosts - 1) / hosts;
  comm::Options options = request.options;
  options.recording_path.clear();  // who dies here is no failure of the run
  const Result<std::string> text = comm::run_processes(
      workers * request.served->group, options, [&](comm::Communicator& world) -> Result<std::string> {
        const Result<double> peak = train::measured_peak(world, plan.job.training.precision);
        if (!peak) return tl::unexpected(peak.error());
        const Result<spec::Job> job = job_to_predict(request, plan.job, world);
        if (!job) return tl::unexpected(job.error());
        if (comm::rank_of(world) != 0) return std::string();
        return fmt::format("{} {}", *peak, predicted_passes_s(*job, *request.served).value_or(0));
      });
  if (!text) return tl::unexpected(text.error());
  ServedFigures figures;
  std::istringstream(*text) >> figures.peak_flop_per_s >> figures.passes_s;
  return figures;
}

// A run outlives the death of any process, so also of those that only measure.
Result<ServedFigures> measured_figures(const TrainRequest& request, const TrainPlan& plan) {
  constexpr int kAttempts = 3;
  Result<ServedFigures> figures = measure(request, plan);
  for (int i = 1; i < kAttempts && !figures; ++i) figures = measure(request, plan);
  return figures;
}

// Of a step of all workers, by the protocol's own code in simulated time; 0: cannot be said, as between hosts.
double predicted_step_s(const TrainRequest& request, const TrainPlan& plan, double passes_s) {
  constexpr int kSteps = 60;
  if (passes_s == 0 || !request.hosts.empty()) return 0;
  const ps::Choice& choice = *request.served;
  const double step_s = std::max(passes_s, choice.pace_s);
  const int steps = std::min(kSteps, train::steps_of(plan.job));
  const Result<sim::ServedRun> run =
      sim::run_served(on_this_host(plan.job, choice, step_s, steps, measured_host().copy_bytes_per_s));
  const double rate = run ? ps::steady_tokens_per_second(run->report) : 0;
  return rate > 0 ? plan.job.training.global_batch * plan.job.training.sequence / rate : 0;
}

// -1: all are. Local steps of one clock are traced together.
std::int64_t traced_clock(const TrainRequest& request) {
  return request.names_step ? request.record_step / request.served->local_steps : -1;
}

std::vector<std::string> notes_of(const ps::Choice& choice, const spec::Job& job) {
  std::vector<std::string> notes;
  if (job.training.recipe.clip > 0 && choice.local_steps == 1 && choice.settings.mode != ps::Mode::sync) {
    notes.push_back(fmt::format("Each push is clipped to {:g} by its own norm, that of a share of the batch.",
                                job.training.recipe.clip));
  }
  if (choice.straggler.factor > 1) {
    const std::string who = choice.straggler.worker == ps::kAnyWorker
                                ? "Each worker is"
                                : fmt::format("Worker {} is", choice.straggler.worker);
    notes.push_back(fmt::format("{} {:g} times as slow, on purpose, in {:g} % of its steps.", who,
                                choice.straggler.factor, 100 * choice.straggler.share));
  }
  return notes;
}

}  // namespace

Result<std::string> train_with_servers(const TrainRequest& request, const TrainPlan& plan) {
  const ps::Choice& choice = *request.served;
  std::ofstream metrics;
  if (Result<void> opened = open_outputs(request, metrics); !opened) return tl::unexpected(opened.error());
  const Result<ServedFigures> figures = measured_figures(request, plan);
  if (!figures) return tl::unexpected(figures.error());
  constexpr int kReplacements = 16;
  constexpr std::int64_t kTracedMessages = 100'000;  // viewers become slow above a few hundred thousand events
  Teller teller(plan.job, figures->peak_flop_per_s, metrics);
  train::ServedSettings settings;
  settings.steps = train::steps_of(plan.job);
  settings.deterministic = request.deterministic;
  settings.timeout_s = request.options.timeout_s;
  settings.replacements = kReplacements + request.faults.count();
  settings.hosts = request.hosts;
  settings.host = request.host;
  settings.port = request.port;
  settings.key = request.key;
  settings.note = [&](const train::StepNote& note) { teller.tell(note); };
  settings.watch = killer(request.faults, settings.steps);
  if (!request.trace.empty()) settings.diary = {.entries = kTracedMessages, .clock = traced_clock(request)};
  const Result<train::ServedResult> run = train::run_served(plan.job, plan.samples, choice, settings);
  teller.end();
  if (!run) return tl::unexpected(run.error());
  if (!request.trace.empty()) {
    const Result<void> wrote = write_file(request.trace, report::served_trace(run->report, traced_clock(request)));
    if (!wrote) return tl::unexpected(wrote.error());
  }
  report::ServedView view{plan.job, choice, *run, figures->peak_flop_per_s};
  view.predicted_step_s = predicted_step_s(request, plan, figures->passes_s);
  view.notes = notes_of(choice, plan.job);
  if (!teller.metrics_error().empty()) view.notes.push_back(fmt::format("Not written: {}.", teller.metrics_error()));
  if (!request.hosts.empty()) {
    view.notes.push_back(fmt::format("Host {} of {}: of the workers and servers here; the others tell of theirs.",
                                     request.host, request.hosts.size()));
  }
  const std::string strangers = ps::text_of(run->report.strangers);
  if (!strangers.empty()) view.notes.push_back(strangers + ".");
  return request.json ? report::served_json(view) : report::served_text(view);
}

}  // namespace twinpod::cli
