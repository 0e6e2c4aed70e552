// twinpod study: the same job in several ways, trained here and simulated at scale, side by side.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/command.hpp"
#include "cli/job_request.hpp"
#include "cli/served_flags.hpp"
#include "cli/simulate_served.hpp"
#include "cli/study_runs.hpp"
#include "core/files.hpp"
#include "core/parallel.hpp"
#include "core/progress.hpp"
#include "core/units.hpp"
#include "model/arithmetic.hpp"
#include "ps/throughput.hpp"
#include "report/study_report.hpp"
#include "spec/read.hpp"

namespace twinpod::cli {
namespace {

constexpr std::array kStudyFlags = {
    Flag{"servers", "N", "that hold the parameters (default 1)", ""},
    Flag{"workers", "N", "those that compute (default 4)", ""},
    Flag{"modes", "LIST", "with commas between them (default all_reduce,sync,async,ssp:3)", ""},
    Flag{"straggler", "WHO", "slow workers: 0:2 (worker 0 twice as slow; the default), any:3:0.1, or none", ""},
    Flag{"pace", "TIME",
         "the least that a worker's step takes (default: so long that these cores stand for a device each)", ""},
    Flag{"steps", "N", "of each worker in each mode (default: what takes about a minute and a half in all)", ""},
    Flag{"target", "L", "loss for the time to target (default: the loss that all modes come to)", ""},
    Flag{"simulated-workers", "LIST", "workers to simulate at scale (default 16,64,256), or none", ""},
    Flag{"on", "CLUSTER", "simulate at scale there (default: hosts like this one on 10 Gbit/s Ethernet)", ""},
    Flag{"output", "FILE.svg", "write the picture", "", "o"},
    Flag{"data", "NAME", "token files NAME.bin and NAME.idx (`twinpod data prepare`)", "data.tokens"},
    Flag{"text", "PATH", "or text: files and folders, with commas between them; each byte is a token", ""},
    Flag{"seed", "N", "of the weights and of the order of the data (default 1)", "training.seed"},
    Flag{"learning-rate", "X", "at its highest (default: the job's)", "training.learning_rate"},
    Flag{"timeout", "TIME", "how long a process waits for another (default 60 s)", ""},
};
constexpr std::array kFlagsOfStudy = joined(kStudyFlags, kTrainingFlags);

constexpr double kTrainingSeconds = 80;  // that training in all modes together should take

struct StudyRequest {
  ps::Choice choice;
  std::vector<std::string> modes;
  std::string straggler;
  std::vector<int> sizes;  // of the simulated runs
  double target = 0;       // 0: none
  int steps = 0;           // 0: as many as there is time for
  bool has_pace = false;
  std::string output;
};

std::vector<std::string> list_of(const std::string& text) {
  std::vector<std::string> items;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    items.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

Result<std::vector<std::string>> modes_of(const Arguments& arguments) {
  std::vector<std::string> modes = list_of(arguments.value_or("modes", "all_reduce,sync,async,ssp:3"));
  for (std::size_t i = 0; i < modes.size(); ++i) {
    if (std::find(modes.begin(), modes.begin() + static_cast<std::ptrdiff_t>(i), modes[i]) !=
        modes.begin() + static_cast<std::ptrdiff_t>(i)) {
      return input_error(fmt::format("--modes has {} twice", modes[i]), "each mode once");
    }
    if (modes[i] == "all_reduce" || ps::parse_mode(modes[i])) continue;
    return input_error(fmt::format("--modes {}: no such mode", modes[i]), "all_reduce, sync, async, ssp:3");
  }
  return modes;
}

Result<std::vector<int>> cluster_sizes(const Arguments& arguments) {
  std::vector<int> sizes;
  const std::string text = arguments.value_or("simulated-workers", "16,64,256");
  if (text == "none") return sizes;
  for (const std::string& item : list_of(text)) {
    const Result<double> size = parse_quantity(item, Quantity::number);
    if (!size || *size < 1 || *size > 4096 || *size != std::floor(*size)) {
      return input_error(fmt::format("--simulated-workers {}: expected whole numbers from 1 to 4096", text),
                         "--simulated-workers 16,64,256, or none");
    }
    sizes.push_back(static_cast<int>(*size));
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

Result<double> target_of(const Arguments& arguments) {
  const auto text = arguments.value("target");
  if (!text) return 0;
  const Result<double> target = parse_quantity(*text, Quantity::number);
  if (target && *target > 0) return target;
  return input_error(fmt::format("--target {}: expected a loss above 0", *text), "--target 2.5");
}

Result<StudyRequest> study_request(const Arguments& arguments) {
  StudyRequest request;
  Result<std::vector<std::string>> modes = modes_of(arguments);
  if (!modes) return tl::unexpected(modes.error());
  request.modes = std::move(*modes);
  Result<std::vector<int>> sizes = cluster_sizes(arguments);
  if (!sizes) return tl::unexpected(sizes.error());
  request.sizes = std::move(*sizes);
  // The flags of the choice, with the study's defaults.
  static constexpr Flag kWorkers{"workers", "N", "", ""};
  static constexpr Flag kStraggler{"straggler", "WHO", "", ""};
  Arguments with = arguments;
  if (!with.has("workers")) with.flags.push_back({&kWorkers, "4", ""});
  if (!with.has("straggler")) with.flags.push_back({&kStraggler, "0:2", ""});
  Result<ps::Choice> choice = served_choice(with);
  if (!choice) return tl::unexpected(choice.error());
  request.choice = std::move(*choice);
  request.straggler = with.value_or("straggler", "none");
  request.has_pace = arguments.has("pace");
  const Result<int> steps = whole_number(arguments, "steps", 4, 0);
  if (!steps) return tl::unexpected(steps.error());
  request.steps = *steps;
  const Result<double> target = target_of(arguments);
  if (!target) return tl::unexpected(target.error());
  request.target = *target;
  request.output = arguments.value_or("output", "");
  if (!request.output.empty() && !request.output.ends_with(".svg")) {
    return input_error(fmt::format("-o {}: the picture is SVG", request.output), "-o study.svg");
  }
  return request;
}

// Ranks and servers take turns on the cores: a step takes so long that all of them get theirs, and half as long again.
double needed_pace(double alone_s, const ps::Choice& choice) {
  const double turns = static_cast<double>(choice.workers + choice.servers) / num_hardware_threads();
  return std::ceil(std::max(0.02, 1.5 * alone_s * std::max(1.0, turns)) * 100) / 100;
}

int steps_for(const StudyRequest& request, double step_s) {
  const ps::Straggler& s = request.choice.straggler;
  const double all =
      s.worker == ps::kAnyWorker ? 1 + s.share * (s.factor - 1) * request.choice.workers : 1 + s.share * (s.factor - 1);
  const double each = kTrainingSeconds / static_cast<double>(request.modes.size());
  return std::clamp(static_cast<int>(each / (all * step_s)), 20, 1000);
}

ps::Choice choice_for(const ps::Choice& base, const std::string& mode) {
  ps::Choice choice = base;
  if (mode == "all_reduce") return choice;
  const ps::Settings settings = *ps::parse_mode(mode);
  choice.mode = mode;
  choice.settings.mode = settings.mode;
  choice.settings.staleness = settings.staleness;
  return choice;
}

// Hosts like this one, a worker on each: only their number grows, and the servers with it.
void scale_up(int workers, sim::ServedInput& input) {
  constexpr double kEthernet = 10e9 / 8;
  constexpr int kWorkersOfServer = 16;
  input.choice.servers = std::max(input.choice.servers, workers / kWorkersOfServer);
  input.choice.workers = workers;
  input.cluster.host_bytes_per_s = input.cluster.worker_bytes_per_s = kEthernet;
  input.cluster.latency_s = 30e-6;
  input.cluster.workers_per_host = input.cluster.servers_per_host = 1;
}

constexpr std::int64_t kSimulatedSteps = 24;

// Round a ring: 2 (n - 1) / n of all bytes, in as many messages.
double ring_s(const sim::ServedInput& input, double bytes) {
  const double others = input.choice.workers - 1;
  return 2 * others / input.choice.workers * bytes / input.cluster.worker_bytes_per_s +
         2 * others * input.cluster.latency_s;
}

Result<double> simulated_rate(const std::string& mode, const sim::ServedInput& base, double reduce_s) {
  sim::ServedInput input = base;
  input.choice = choice_for(base.choice, mode);
  if (mode == "all_reduce") return ps::steady_tokens_per_second(sim::run_all_reduced(input, reduce_s));
  const Result<sim::ServedRun> run = sim::run_served(input);
  if (!run) return tl::unexpected(run.error());
  return ps::steady_tokens_per_second(run->report);
}

struct Scaled {
  sim::ServedInput input;
  double reduce_s = 0;
  double alone_tokens_per_s = 0;
};

// On the cluster that was named, its share of the batch for each worker as in the runs here.
Result<Scaled> scaled_on_cluster(const Arguments& arguments, const StudyRequest& request, const spec::Job& trained,
                                 int workers) {
  const Result<spec::Request> wanted = request_of("study", job_arguments(arguments), *arguments.value("on"));
  if (!wanted) return tl::unexpected(wanted.error());
  Result<spec::Job> job = spec::read_job(*wanted, catalog_of(arguments));
  if (!job) return tl::unexpected(job.error());
  job->training.batch_tokens = 0;
  job->training.global_batch = trained.training.global_batch / request.choice.workers * workers;
  ps::Choice choice = request.choice;
  choice.workers = workers;
  choice.servers = std::max(choice.servers, workers / 16);
  choice.pace_s = 0;
  Result<ServedCase> one = served_case(*job, choice, {.step_s = {}, .steps = kSimulatedSteps, .kills = {}});
  if (!one) return tl::unexpected(one.error());
  return Scaled{one->input, one->reduce_s, one->alone_tokens_per_s};
}

Result<void> simulate_at_scale(const Arguments& arguments, const StudyRequest& request, const spec::Job& job,
                               const sim::ServedInput& here, Progress& progress, report::Study& study) {
  for (const int workers : request.sizes) {
    Scaled scaled{here, 0, study.alone_tokens_per_s};
    if (arguments.has("on")) {
      Result<Scaled> there = scaled_on_cluster(arguments, request, job, workers);
      if (!there) return tl::unexpected(there.error());
      scaled = std::move(*there);
    } else {
      scale_up(workers, scaled.input);
      scaled.reduce_s = ring_s(scaled.input, 4 * model::parameters(job.model).total);
    }
    scaled.input.job.steps = kSimulatedSteps;
    for (const std::string& mode : request.modes) {
      const Result<double> rate = simulated_rate(mode, scaled.input, scaled.reduce_s);
      if (!rate) return tl::unexpected(rate.error());
      study.scaling.push_back(
          {mode, workers, scaled.input.choice.servers, *rate, *rate / (workers * scaled.alone_tokens_per_s)});
      progress.advance();
    }
  }
  if (!request.sizes.empty()) {
    study.scaled_on = arguments.has("on")
                          ? fmt::format("simulated on {}, a server for 16 workers", *arguments.value("on"))
                          : "simulated: hosts like this one on 10 Gbit/s Ethernet, a server for 16 workers";
  }
  return {};
}

// Of the steps that were not slowed down on purpose.
double median_passes(const ps::Choice& choice, const ps::ServedReport& report) {
  std::vector<double> seconds;
  for (const ps::WorkerStep& step : report.steps) {
    if (ps::slowdown(choice.straggler, step.worker, step.clock) == 1) seconds.push_back(step.computed_s);
  }
  if (seconds.empty()) return 0;
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

// The loss that all of them came to, unless one was named.
void set_target(double asked, report::Study& study) {
  study.target_loss = asked;
  study.own_target = asked == 0;
  if (study.own_target) {
    for (const report::StudyMode& one : study.modes) {
      double best = 1e300;
      for (const report::StudyPoint& point : one.curve) best = std::min(best, point.loss);
      if (!one.curve.empty()) study.target_loss = std::max(study.target_loss, best);
    }
    study.target_loss = std::ceil(study.target_loss * 100) / 100;
  }
  for (report::StudyMode& one : study.modes) one.time_to_target_s = report::seconds_to(one.curve, study.target_loss);
}

Result<std::string> sync_async(const Arguments& arguments) {
  const Result<StudyRequest> read = study_request(arguments);
  if (!read) return tl::unexpected(read.error());
  StudyRequest request = *read;
  Result<StudyJob> job = study_job(arguments, request.choice.workers);
  if (!job) return tl::unexpected(job.error());
  const Result<double> alone_s = passes_alone(*job, request.choice.workers);
  if (!alone_s) return tl::unexpected(alone_s.error());
  job->alone_s = *alone_s;
  report::Study study;
  if (!request.has_pace) request.choice.pace_s = needed_pace(*alone_s, request.choice);
  study.pace_s = request.choice.pace_s;
  study.step_s = std::max(*alone_s, study.pace_s);
  study.steps = request.steps > 0 ? request.steps : steps_for(request, study.step_s);
  study.name = job->request.job.name.empty() ? job->request.job.model.name : job->request.job.name;
  study.workers = request.choice.workers;
  study.servers = request.choice.servers;
  study.straggler = request.straggler;
  if (Result<void> ready = plan_study(*job, study.workers, study.steps); !ready) return tl::unexpected(ready.error());
  const spec::Job& trained = job->plan->job;
  const double share = trained.training.global_batch / study.workers;
  study.alone_tokens_per_s = share * trained.training.sequence / study.step_s;
  const HostRates host = measured_host();
  const sim::ServedInput here = on_this_host(trained, request.choice, study.step_s, study.steps, host.copy_bytes_per_s);
  const auto steps = static_cast<std::size_t>(study.steps);
  Progress progress("study", request.modes.size() * (steps + 1 + request.sizes.size()));
  for (const std::string& mode : request.modes) {
    const ps::Choice choice = choice_for(request.choice, mode);
    Result<report::StudyMode> one =
        mode == "all_reduce" ? train_all_reduced(*job, choice, progress) : train_served_mode(*job, choice, progress);
    if (!one) return tl::unexpected(one.error());
    one->mode = mode;
    one->tokens_per_s = ps::steady_tokens_per_second(one->report);
    one->waiting_share = ps::waiting_share(one->report);
    one->scale_factor = one->tokens_per_s / (study.workers * study.alone_tokens_per_s);
    const Result<double> simulated =
        simulated_rate(mode, here, 2 * 4 * model::parameters(trained.model).total / host.copy_bytes_per_s);
    if (!simulated) return tl::unexpected(simulated.error());
    one->simulated_tokens_per_s = *simulated;
    if (one->served) study.passes_s = std::max(study.passes_s, median_passes(choice, one->report));
    study.modes.push_back(std::move(*one));
    progress.advance();
  }
  Result<void> scaled = simulate_at_scale(arguments, request, trained, here, progress, study);
  if (!scaled) return tl::unexpected(scaled.error());
  set_target(request.target, study);
  if (!request.output.empty()) {
    const Result<void> wrote = write_file(request.output, report::study_svg(study));
    if (!wrote) return tl::unexpected(wrote.error());
  }
  return arguments.has("json") ? report::study_json(study) : report::study_text(study);
}

Result<std::string> study(const Arguments& arguments) {
  if (arguments.words.size() != 2 || arguments.words.front() != "sync-async") {
    const std::string what = arguments.words.empty() ? "nothing" : fmt::format("`{}`", arguments.words.front());
    return input_error(fmt::format("study takes what to study and a job file, but {} is given", what),
                       "twinpod study sync-async examples/tiny-gpt.yaml");
  }
  return sync_async(arguments);
}

}  // namespace

const Command kStudy = {
    "study",
    "sync-async MODEL|JOB.yaml [flags]",
    "a job trained by all-reduce and by parameter servers, side by side, and simulated at scale; a picture",
    "twinpod study sync-async examples/tiny-gpt.yaml -o study.svg\n"
    "twinpod study sync-async examples/tiny-gpt.yaml --straggler any:3:0.1 --modes sync,async,ssp:3 --json\n"
    "twinpod study sync-async examples/tiny-gpt.yaml --straggler none --on h100-superpod --simulated-workers 64,512\n",
    kFlagsOfStudy,
    study};

}  // namespace twinpod::cli
