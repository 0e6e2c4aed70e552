// twinpod plan: the best layouts of a job out of all that fit, and what would make it better.
#include <fmt/format.h>

#include <array>
#include <csignal>
#include <map>

#include "cli/command.hpp"
#include "cli/job_request.hpp"
#include "cli/plan_request.hpp"
#include "core/files.hpp"
#include "core/nearest.hpp"
#include "core/progress.hpp"
#include "core/signals.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "emit/emit.hpp"
#include "plan/estimate.hpp"
#include "plan/fits.hpp"
#include "plan/questions.hpp"
#include "report/plan_report.hpp"
#include "report/questions_report.hpp"
#include "report/tables.hpp"

namespace twinpod::cli {
namespace {

constexpr std::size_t kKeptForText = 5000;      // of the ranking, so that the best of each shape is among them
constexpr std::size_t kKeptForScripts = 20000;  // lines of JSON and CSV, unless --top says otherwise
constexpr double kSafeMargin = 0.08;            // nine of ten published memory figures are met within this
constexpr std::size_t kManyGroups = 200'000;    // times numbers of devices: from here on bounds are used, unasked
constexpr std::size_t kKeptOfMany = 300;
constexpr int kFinalists = 3;  // that are simulated unasked
constexpr int kMostFinalists = 200;

constexpr std::array kQuestionFlags = {
    Flag{"objective", "WHAT", "what the best is best in: time (default), cost, devices or memory", ""},
    Flag{"within", "TIME", "the run must end in this time: 60d, 12h; then fewest devices are best, unless told", ""},
    Flag{"memory-margin", "SHARE", "of a device's memory that must stay free (default: 0)", ""},
    Flag{"what-if", "CHANGES", "what another cluster would bring: network=2x,memory=1.5x,device=h100-sxm, or all", ""},
    Flag{"curve", "", "scale factor over the device counts of --devices", ""},
    Flag{"threshold", "SHARE", "with --curve: where the scale factor falls under this (default: 0.8)", ""},
    Flag{"weak", "", "with --curve: the batch grows with the devices", ""},
    Flag{"largest", "WHAT", "the largest that fits: model, sequence or batch", ""},
};

constexpr std::array kPlanOutputFlags = {
    Flag{"top", "N", "layouts to list (default: 10; JSON and CSV: 20,000 at most)", ""},
    Flag{"variants", "", "list every layout, not only the best of each shape", ""},
    Flag{"explain", "", "why not its neighbours: what does not fit, what is slower, and by which part", ""},
    Flag{"simulate", "N", "simulate the N best op by op: what contends, which is fastest then (default: 3)", ""},
    Flag{"pareto", "LIST", "what no other beats in all of these: time,devices,memory,cost", ""},
    Flag{"svg", "FILE", "draw the Pareto set", ""},
    Flag{"emit", "ENGINE", "write a launch instead: megatron, torchtitan, nemo, slurm[:ENGINE] or twinpod", ""},
    Flag{"csv", "", "print the ranking as CSV", ""},
};

constexpr std::array kFlagsOfPlan =
    joined(joined(joined(kPlanFlags, kTrainingFlags), kQuestionFlags), kPlanOutputFlags);

// Ctrl-C ends the search, not the program, while this lives; a second one ends the program.
class Interruptible {
 public:
  Interruptible() { wish_for({SIGINT}); }
  ~Interruptible() { forget_wish(); }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
};

plan::SearchResult search_with_progress(const plan::Space& space, plan::SearchOptions options) {
  const Interruptible guard;
  Progress progress("search", space.groups.size());
  options.stop = &wished();
  options.progress = [&](std::size_t, std::size_t) { progress.advance(); };
  return plan::search(space, options);
}

// The layout that the job file has, as far as it is one that could be found.
std::optional<plan::Candidate> asked_layout(const PlanRequest& request) {
  if (!request.written) return std::nullopt;
  const spec::Job& job = *request.written;
  spec::Job plain = job;
  plain.layout = plan::canonical(job);
  const plan::MemoryUse use = plan::peak_memory(plain);
  return plan::Candidate{plain.layout, plain.cluster.devices, plan::step_time(plain).total_s, use.total()};
}

std::string count_text(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", with_thousands(static_cast<double>(count)), what, count == 1 ? "" : "s");
}

// The wishes leave no layout at all: which of them stands in the way?
Error nothing_to_try(const PlanRequest& request) {
  std::string hint;
  for (const WishFlag& one : request.given_wishes) {
    PlanRequest without = request;
    one.clear(without.terms.wishes);
    const plan::SearchResult found =
        plan::search(plan::space_of(without.job, without.terms.wishes, *without.terms.abilities), {.keep = 1});
    if (found.evaluated == 0) continue;
    hint += fmt::format("{}without {} there are {}", hint.empty() ? "" : "; ", one.as_written,
                        count_text(found.evaluated, "layout"));
  }
  const std::string batch = with_thousands(request.job.training.global_batch);
  if (hint.empty())
    hint = fmt::format("dp must divide the batch of {} sequences; another --global-batch or --devices may do", batch);
  return infeasible(
             fmt::format("no layout divides {}, {}, {} and a batch of {} as asked",
                         counted(request.job.cluster.devices, "device"), counted(request.job.model.layers, "layer"),
                         counted(request.job.model.attention.heads, "head"), batch),
             hint)
      .value();
}

Error too_slow(const PlanRequest& request, double within_s) {
  std::vector<int> devices = request.terms.wishes.devices;
  if (devices.empty()) devices = {request.job.cluster.devices};
  plan::Terms terms = request.terms;
  terms.options.within_step_s = 0;
  const Result<plan::DeadlineAnswer> answer = plan::within_deadline(request.job, within_s, devices, terms);
  if (!answer) return answer.error();
  std::string hint = "no number of these devices does; try a longer --within or fewer --tokens";
  if (answer->beyond) {
    hint = fmt::format("{} would do: {}", counted(answer->beyond->job.cluster.devices, "device"),
                       format_seconds(answer->beyond->metrics.time_to_train_s.value_or(0)));
  }
  const double nearest = answer->nearest ? answer->nearest->metrics.time_to_train_s.value_or(0) : 0;
  return infeasible(fmt::format("no layout that fits ends within {}: the fastest takes {} on {}",
                                format_seconds(within_s), format_seconds(nearest),
                                counted(answer->nearest ? answer->nearest->job.cluster.devices : 0, "device")),
                    hint)
      .value();
}

Error why_nothing(const PlanRequest& request, const plan::SearchResult& found) {
  if (found.evaluated == 0) return nothing_to_try(request);
  if (found.too_slow > 0 || found.passed_over_too_slow) return too_slow(request, request.within_s);
  const Result<void> reason = plan::why_nothing_fits(request.job, request.terms);
  if (!reason) return reason.error();
  return infeasible("no layout fits with the memory that must stay free", "try a smaller --memory-margin").value();
}

// The best that the engine can run: some of its rules join two axes, which the space does not know.
Result<std::string> emit_best(const PlanRequest& request, const plan::SearchResult& found,
                              const spec::Catalog& catalog) {
  emit::Launch launch = *request.launch;
  std::map<std::string, std::pair<std::size_t, Error>> refusals;
  for (const plan::Candidate& candidate : found.ranked) {
    const spec::Job job = report::job_of(request.job, candidate);
    const Result<void> possible = emit::check(job, launch.engine);
    if (!possible) {
      ++refusals.try_emplace(possible.error().message, 0, possible.error()).first->second.first;
      continue;
    }
    launch.run_s = plan::metrics(job, plan::step_time(job)).time_to_train_s.value_or(0);
    return emit::emit(job, launch, &catalog);
  }
  // What stands in the way of most of them is the reason.
  const auto most = std::max_element(refusals.begin(), refusals.end(),
                                     [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
  return tl::unexpected(most->second.second);
}

// A plan that needs almost all of the memory may run out of it: what a safer one would cost.
void note_full_devices(const PlanRequest& request, const plan::Space& space, const plan::Candidate& best,
                       std::vector<std::string>& notes) {
  const spec::Job job = report::job_of(request.job, best);
  const double share = plan::peak_memory(job).needed() / job.cluster.device.memory_bytes;
  if (share <= 1 - kSafeMargin) return;
  plan::SearchOptions options = request.terms.options;
  options.keep = 1;
  options.memory_margin = kSafeMargin;
  options.bounded = true;
  const plan::SearchResult safer = plan::search(space, options);
  if (safer.ranked.empty()) return;
  const plan::Candidate& other = safer.ranked.front();
  const bool by_cost = options.objective == plan::Objective::cost;
  const std::string devices =
      other.devices == best.devices ? "" : fmt::format(" on {}", counted(other.devices, "device"));
  notes.push_back(
      fmt::format("the best fills {:.0f} % of the memory; the best that leaves 8 % free: {}{}, {} a step ({:+.1f} %{})",
                  100 * best.memory_bytes / job.cluster.device.memory_bytes,
                  report::layout_text(report::job_of(request.job, other)), devices, format_seconds(other.step_time_s),
                  100 * (by_cost ? other.devices * other.step_time_s / (best.devices * best.step_time_s) - 1
                                 : other.step_time_s / best.step_time_s - 1),
                  by_cost ? " of the cost" : ""));
}

// The best few, simulated. A simulation that nobody asked for and that cannot be made is left out.
Result<std::vector<plan::Finalist>> finalists_of(const Arguments& arguments, const PlanRequest& request,
                                                 const plan::SearchResult& found) {
  const Result<int> number = whole_number(arguments, "simulate", 0, arguments.has("csv") ? 0 : kFinalists);
  if (!number) return tl::unexpected(number.error());
  if (*number > kMostFinalists) {
    return input_error(fmt::format("--simulate {}: at most {} are simulated", *number, kMostFinalists));
  }
  Result<std::vector<plan::Finalist>> finalists = plan::simulate_finalists(
      request.job, report::first_ranked(found, arguments.has("variants"), static_cast<std::size_t>(*number)));
  if (!finalists && !arguments.has("simulate")) return std::vector<plan::Finalist>{};
  return finalists;
}

Result<std::string> plan_best(const Arguments& arguments, PlanRequest& request, const spec::Catalog& catalog) {
  plan::SearchOptions options = request.terms.options;
  const bool scripts = arguments.has("json") || arguments.has("csv");
  const Result<int> top = whole_number(arguments, "top", 1, scripts ? static_cast<int>(kKeptForScripts) : 10);
  if (!top) return tl::unexpected(top.error());
  options.keep =
      scripts ? static_cast<std::size_t>(*top) : std::max<std::size_t>(kKeptForText, static_cast<std::size_t>(*top));
  options.pareto = !request.pareto.empty();
  options.asked = asked_layout(request);
  const plan::Space space = plan::space_of(request.job, request.terms.wishes, *request.terms.abilities);
  // A large space is not listed in full: bounds find the best of it.
  options.bounded = !options.asked && !options.pareto && space.groups.size() * space.devices.size() > kManyGroups;
  if (options.bounded && !scripts) options.keep = std::max<std::size_t>(kKeptOfMany, static_cast<std::size_t>(*top));
  plan::SearchResult found = search_with_progress(space, options);
  if (found.ranked.empty() && found.stopped)
    return infeasible("stopped before a layout that fits was found", "let it run for longer, or leave fewer axes open");
  if (found.ranked.empty()) return tl::unexpected(why_nothing(request, found));
  found.pareto = plan::pareto_front(found.pareto, request.pareto);
  if (request.launch) return emit_best(request, found, catalog);
  if (!found.stopped) note_full_devices(request, space, found.ranked.front(), request.notes);

  const spec::Job best = report::job_of(request.job, found.ranked.front());
  const Result<plan::Accuracy> accuracy = plan::read_accuracy(catalog.folder() + "/accuracy.yaml");
  if (!accuracy) return tl::unexpected(accuracy.error());
  report::PlanView view{best, found};
  view.options = options;
  view.best = plan::assess(best, *accuracy);
  view.asked = options.asked;
  view.top = static_cast<std::size_t>(*top);
  view.explain = arguments.has("explain");
  view.all_variants = arguments.has("variants");
  view.notes = request.notes;
  Result<std::vector<plan::Finalist>> finalists = finalists_of(arguments, request, found);
  if (!finalists) return tl::unexpected(finalists.error());
  view.finalists = std::move(*finalists);
  if (view.explain) view.neighbours = plan::neighbours(best, options.memory_margin);
  if (const std::optional<std::string> path = arguments.value("svg")) {
    const Result<void> drawn = write_file(*path, report::pareto_svg(view));
    if (!drawn) return tl::unexpected(drawn.error());
  }
  if (arguments.has("json")) return report::plan_json(view);
  return arguments.has("csv") ? report::plan_csv(view) : report::plan_text(view);
}

std::string with_notes(const PlanRequest& request, const std::string& text) {
  std::string all = text;
  for (const std::string& note : request.notes) all += fmt::format("note: {}\n", note);
  return all;
}

// An answer for people or for scripts.
template <typename Answer, typename Text, typename AsJson>
Result<std::string> shown_answer(const Arguments& arguments, const PlanRequest& request, const Result<Answer>& answer,
                                 const Text& text, const AsJson& json) {
  if (!answer) return tl::unexpected(answer.error());
  if (arguments.has("json")) {
    report::Json object = json(*answer);
    if (object.is_array()) object = {{"answers", std::move(object)}};  // one object, whatever is asked
    object["notes"] = request.notes;
    return report::printed(object);
  }
  return with_notes(request, text(*answer));
}

Result<std::string> answer_largest(const Arguments& arguments, const PlanRequest& request, const std::string& what) {
  using namespace report;
  const spec::Job& job = request.job;
  if (what == "sequence")
    return shown_answer(arguments, request, plan::largest_sequence(job, request.terms), largest_sequence_text,
                        largest_sequence_json);
  if (what == "batch")
    return shown_answer(arguments, request, plan::largest_batch(job, request.terms), largest_batch_text,
                        largest_batch_json);
  if (what == "model")
    return shown_answer(arguments, request, plan::largest_model(job, request.terms), largest_model_text,
                        largest_model_json);
  const std::string nearest = nearest_name(what, {"model", "sequence", "batch"});
  return input_error(fmt::format("--largest: found `{}`, expected model, sequence or batch", what),
                     nearest.empty() ? "" : fmt::format("did you mean `{}`?", nearest));
}

Result<std::string> answer_curve(const Arguments& arguments, const PlanRequest& request) {
  const Result<double> threshold = share_of(arguments, "threshold", 0.8);
  if (!threshold) return tl::unexpected(threshold.error());
  const Result<plan::ScaleCurve> curve =
      plan::scale_curve(request.job, request.terms.wishes.devices, {*threshold, arguments.has("weak")}, request.terms);
  return shown_answer(arguments, request, curve, report::scale_curve_text, report::scale_curve_json);
}

// Steps compare when they are of the same size.
void share_batch(std::vector<PlanRequest>& requests) {
  std::vector<int> devices;
  double tokens = 0;
  for (const PlanRequest& one : requests) {
    if (one.job.training.batch_tokens <= 0) return;
    devices.push_back(one.job.cluster.devices);
    tokens = std::max(tokens, one.job.training.global_batch * one.job.training.sequence);
  }
  const int sequence = requests.front().job.training.sequence;
  for (PlanRequest& one : requests) one.job.training.global_batch = plan::planned_batch(tokens, sequence, devices);
  requests.front().notes = {fmt::format("batch of {} chosen for all; --global-batch sets it",
                                        counted(requests.front().job.training.global_batch, "sequence"))};
}

Result<std::string> answer_side_by_side(const Arguments& arguments, std::vector<PlanRequest>& requests) {
  share_batch(requests);
  std::vector<spec::Job> jobs;
  for (const PlanRequest& one : requests) {
    jobs.push_back(one.job);
    // Each is planned for what its own stack can run.
    jobs.back().stack.abilities = *one.terms.abilities;
  }
  plan::Terms terms = requests.front().terms;
  terms.abilities.reset();
  const Result<std::vector<plan::Contender>> contenders = plan::side_by_side(jobs, terms);
  return shown_answer(arguments, requests.front(), contenders, report::side_by_side_text, report::side_by_side_json);
}

Result<std::string> answer(const Arguments& arguments, PlanRequest& request, const spec::Catalog& catalog) {
  if (const std::optional<std::string> changes = arguments.value("what-if")) {
    const Result<std::vector<plan::Change>> list = changes_of(*changes);
    if (!list) return tl::unexpected(list.error());
    return shown_answer(arguments, request, plan::what_if(request.job, *list, catalog, request.terms),
                        report::what_if_text, report::what_if_json);
  }
  if (const std::optional<std::string> what = arguments.value("largest"))
    return answer_largest(arguments, request, *what);
  if (arguments.has("curve")) return answer_curve(arguments, request);
  return plan_best(arguments, request, catalog);
}

Result<std::string> run_plan(const Arguments& arguments) {
  const Result<void> valid = check_plan_arguments(arguments);
  if (!valid) return tl::unexpected(valid.error());
  const spec::Catalog catalog = catalog_of(arguments);
  std::vector<PlanRequest> requests;
  for (const std::string& cluster : clusters_of(arguments)) {
    Result<PlanRequest> request = plan_request(arguments, cluster, catalog);
    if (!request) return tl::unexpected(request.error());
    requests.push_back(std::move(*request));
  }
  if (requests.size() > 1) return answer_side_by_side(arguments, requests);
  return answer(arguments, requests.front(), catalog);
}

}  // namespace

const Command kPlan = {
    "plan",
    "MODEL|JOB.yaml|config.json [--on CLUSTER[,CLUSTER...]] [flags]",
    "the best layouts of a job out of all that fit, and why",
    "twinpod plan gpt3-175b --on dgx-superpod-a100-140\n"
    "twinpod plan llama3-405b --on h100-superpod --devices 1024..16384 --within 60d --objective cost\n"
    "twinpod plan examples/llama3-70b.yaml --explain --top 20 --pareto time,devices,memory\n"
    "twinpod plan llama3-70b --on h100-superpod --devices 512 --tp 4,8 --schedule 1f1b --json\n"
    "twinpod plan llama3-70b --on h100-superpod --devices 512 --what-if network=2x,memory=1.5x\n"
    "twinpod plan llama3-70b --on dgx-superpod-a100-140,h100-superpod --devices 512\n"
    "twinpod plan gpt3-175b --on dgx-superpod-a100-140 --devices 1024 --emit megatron > run.sh\n",
    kFlagsOfPlan,
    run_plan};

}  // namespace twinpod::cli
