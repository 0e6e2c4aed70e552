#include "cli/plan_request.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/job_request.hpp"
#include "cli/values.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "layout/check.hpp"
#include "spec/bounds.hpp"

namespace twinpod::cli {
namespace {

constexpr double kBatchTokensOfADevice = 1024;  // published runs on thousands of devices: 16 M on 16,384 (Llama 3)
constexpr double kTokensOfAParameter = 20;  // Hoffmann et al. 2022: what a given amount of computing is best spent on

constexpr spec::NameTable<plan::Objective, 4> kObjectiveNames{{{"time", plan::Objective::time},
                                                               {"cost", plan::Objective::cost},
                                                               {"devices", plan::Objective::devices},
                                                               {"memory", plan::Objective::memory}}};

// What stands between commas.
std::vector<std::string> split(std::string rest) {
  std::vector<std::string> parts;
  for (std::size_t comma = rest.find(','); comma != std::string::npos; comma = rest.find(',')) {
    parts.push_back(rest.substr(0, comma));
    rest.erase(0, comma + 1);
  }
  parts.push_back(rest);
  return parts;
}

// Reads an axis into the wishes, and remembers how to forget it.
class WishReader {
 public:
  WishReader(const Arguments& arguments, PlanRequest& request) : arguments_(arguments), request_(request) {}

  void numbers(std::string_view flag, std::vector<int> plan::Wishes::*axis, int low, int high) {
    read(flag, axis, [&](const std::string& text) { return whole_numbers(flag, text, low, high); });
  }

  void switch_of(std::string_view flag, std::vector<int> plan::Wishes::*axis) {
    read(flag, axis, [&](const std::string& text) { return switches(flag, text); });
  }

  template <typename E, std::size_t N>
  void choice(std::string_view flag, std::vector<E> plan::Wishes::*axis, const spec::NameTable<E, N>& table) {
    read(flag, axis, [&](const std::string& text) { return names(flag, text, table); });
  }

  const std::optional<Error>& error() const { return error_; }

 private:
  template <typename T, typename Parse>
  void read(std::string_view flag, std::vector<T> plan::Wishes::*axis, const Parse& parse) {
    const std::optional<std::string> text = arguments_.value(flag);
    if (!text || error_) return;
    const Result<std::vector<T>> values = parse(*text);
    if (!values) {
      error_ = values.error();
      return;
    }
    request_.terms.wishes.*axis = *values;
    request_.given_wishes.push_back(
        {fmt::format("--{} {}", flag, *text), [axis](plan::Wishes& wishes) { (wishes.*axis).clear(); }});
  }

  const Arguments& arguments_;
  PlanRequest& request_;
  std::optional<Error> error_;
};

Result<void> read_wishes(const Arguments& arguments, PlanRequest& request) {
  using plan::Wishes;
  WishReader reader(arguments, request);
  reader.numbers("tp", &Wishes::tp, 1, spec::kMaxParallel);
  reader.numbers("pp", &Wishes::pp, 1, spec::kMaxParallel);
  reader.numbers("virtual-stages", &Wishes::virtual_stages, 1, spec::kMaxLayers);
  reader.numbers("cp", &Wishes::cp, 1, spec::kMaxParallel);
  reader.numbers("ep", &Wishes::ep, 1, spec::kMaxParallel);
  reader.numbers("etp", &Wishes::etp, 0, spec::kMaxParallel);
  reader.numbers("dp", &Wishes::dp, 1, spec::kMaxDevices);
  reader.numbers("micro-batch", &Wishes::micro_batch, 1, spec::kMaxBatch);
  reader.numbers("zero", &Wishes::zero, 0, 3);
  reader.numbers("servers", &Wishes::servers, 0, spec::kMaxDevices);
  reader.switch_of("sequence-parallel", &Wishes::sequence_parallel);
  reader.switch_of("offload-optimizer", &Wishes::offload_optimizer);
  reader.switch_of("offload-activations", &Wishes::offload_activations);
  reader.choice("recompute", &Wishes::recompute, spec::kRecomputeNames);
  reader.choice("schedule", &Wishes::schedule, spec::kScheduleNames);
  if (reader.error()) return tl::unexpected(*reader.error());
  return {};
}

// The counts of a list that stand there by themselves or in steps, not in a range.
std::vector<int> written_counts(const std::string& text) {
  std::vector<int> counts;
  for (const std::string& part : split(text)) {
    if (part.find("..") != std::string::npos && part.find(":x") == std::string::npos) continue;
    const Result<std::vector<int>> values = whole_numbers("devices", part, 1, spec::kMaxDevices);
    if (values) counts.insert(counts.end(), values->begin(), values->end());
  }
  return counts;
}

// A range goes by whole nodes; what is written one by one stays.
Result<void> read_devices(const Arguments& arguments, PlanRequest& request) {
  const std::optional<std::string> text = arguments.value("devices");
  spec::Cluster& cluster = request.job.cluster;
  if (!text) {
    if (arguments.has("curve")) request.terms.wishes.devices = doubling_counts(cluster);
    return {};
  }
  Result<std::vector<int>> counts = whole_numbers("devices", *text, 1, spec::kMaxDevices);
  if (!counts) return tl::unexpected(counts.error());
  if (counts->back() > cluster.devices) {
    return input_error(
        fmt::format("--devices {}: the job uses {}, but {} has {}", *text, counted(counts->back(), "device"),
                    cluster.name.empty() ? "its cluster" : cluster.name, cluster.devices),
        fmt::format("write at most {}, or a larger cluster", cluster.devices));
  }
  const int node = std::max(1, cluster.devices_per_node);
  const std::vector<int> written = written_counts(*text);
  std::erase_if(*counts, [&](int count) {
    return count % node != 0 && std::find(written.begin(), written.end(), count) == written.end() &&
           counts->back() >= node;
  });
  if (counts->empty()) {
    return input_error(
        fmt::format("--devices {}: no multiple of the {} of a node lies in it", *text, counted(node, "device")));
  }
  cluster.devices = counts->back();
  request.terms.wishes.devices = std::move(*counts);
  return {};
}

// What nobody wrote: a batch that divides well, and how long the run is.
void settle(const Arguments& arguments, PlanRequest& request) {
  spec::Job& job = request.job;
  if (job.training.batch_tokens > 0) {
    std::vector<int> devices = request.terms.wishes.devices;
    if (devices.empty()) devices = {job.cluster.devices};
    if (arguments.has("weak")) devices = {devices.front()};  // from there it grows
    const double tokens = std::max(job.training.batch_tokens, kBatchTokensOfADevice * devices.back());
    job.training.global_batch = plan::planned_batch(tokens, job.training.sequence, devices);
    request.notes.push_back(fmt::format("batch of {} chosen, {} tokens a step; --global-batch sets it",
                                        counted(job.training.global_batch, "sequence"),
                                        format_count(job.training.global_batch * job.training.sequence)));
  }
  if (job.training.tokens > 0 || job.training.target_loss > 0) return;
  job.training.tokens = kTokensOfAParameter * plan::visited_parameters(job);
  request.notes.push_back(
      fmt::format("run of {} tokens assumed, 20 for each parameter (Hoffmann 2022); --tokens sets it",
                  format_count(job.training.tokens)));
}

Result<void> read_objective(const Arguments& arguments, PlanRequest& request) {
  plan::SearchOptions& options = request.terms.options;
  if (const std::optional<std::string> text = arguments.value("within")) {
    const Result<double> seconds = duration("within", *text);
    if (!seconds) return tl::unexpected(seconds.error());
    request.within_s = *seconds;
    const spec::Training& training = request.job.training;
    if (training.tokens <= 0) return input_error("--within needs to know the tokens of the run", "add --tokens N");
    options.within_step_s = *seconds * training.global_batch * training.sequence / training.tokens;
    if (request.terms.wishes.devices.size() > 1) options.objective = plan::Objective::devices;
  }
  if (const std::optional<std::string> text = arguments.value("objective")) {
    const Result<std::vector<plan::Objective>> objective = names("objective", *text, kObjectiveNames);
    if (!objective) return tl::unexpected(objective.error());
    if (objective->size() > 1) return input_error("--objective: one of them decides", "--pareto weighs several");
    options.objective = objective->front();
  }
  if (const std::optional<std::string> text = arguments.value("pareto")) {
    const Result<std::vector<plan::Objective>> values = names("pareto", *text, kObjectiveNames);
    if (!values) return tl::unexpected(values.error());
    request.pareto = *values;
  }
  const Result<double> margin = share_of(arguments, "memory-margin", 0);
  if (!margin) return tl::unexpected(margin.error());
  options.memory_margin = *margin;
  return {};
}

template <typename T>
std::vector<T> both(const std::vector<T>& stack, const std::vector<T>& engine) {
  std::vector<T> values;
  for (const T& value : stack) {
    if (std::find(engine.begin(), engine.end(), value) != engine.end()) values.push_back(value);
  }
  return values.empty() ? engine : values;
}

// What the stack was planned for and the engine can run.
spec::Abilities both(const spec::Abilities& stack, const spec::Abilities& engine) {
  spec::Abilities can;
  can.schedules = both(stack.schedules, engine.schedules);
  can.recompute = both(stack.recompute, engine.recompute);
  can.zero = both(stack.zero, engine.zero);
  can.tensor_parallel = stack.tensor_parallel && engine.tensor_parallel;
  can.pipeline_parallel = stack.pipeline_parallel && engine.pipeline_parallel;
  can.context_parallel = stack.context_parallel && engine.context_parallel;
  can.expert_parallel = stack.expert_parallel && engine.expert_parallel;
  can.sequence_parallel = stack.sequence_parallel && engine.sequence_parallel;
  can.uneven_stages = stack.uneven_stages && engine.uneven_stages;
  can.sharded_pipeline = stack.sharded_pipeline && engine.sharded_pipeline;
  can.offload_optimizer = stack.offload_optimizer && engine.offload_optimizer;
  can.offload_activations = stack.offload_activations && engine.offload_activations;
  can.parameter_server = stack.parameter_server && engine.parameter_server;
  return can;
}

// What may be run: what the named stack can, or without one what today's software can; for a launch only what its
// engine can, too. A job file for twinpod has no engine.
Result<void> read_abilities(const Arguments& arguments, PlanRequest& request) {
  const std::string space = arguments.value_or("space", "stack");
  if (space != "stack" && space != "full")
    return input_error(fmt::format("--space: found `{}`, expected stack or full", space));
  if (const std::optional<std::string> text = arguments.value("emit")) {
    const Result<emit::Launch> launch = emit::launch_named(*text);
    if (!launch) return tl::unexpected(launch.error());
    request.launch = *launch;
    request.terms.wishes.literal = true;
  }
  if (space == "full") {
    request.terms.abilities = plan::all_abilities();
  } else {
    request.terms.abilities = request.job.names_stack ? request.job.stack.abilities : spec::Abilities{};
  }
  if (request.launch && request.launch->engine != emit::Engine::twinpod)
    request.terms.abilities = both(*request.terms.abilities, emit::abilities(request.launch->engine));
  request.job.stack.abilities = *request.terms.abilities;
  return {};
}

// What is asked of several clusters is which of them is best.
Result<void> check_clusters(const Arguments& arguments) {
  const std::vector<std::string> clusters = clusters_of(arguments);
  if (clusters.size() < 2) return {};
  if (std::find(clusters.begin(), clusters.end(), "") != clusters.end()) {
    return input_error(fmt::format("--on {}: a name is missing beside a comma", arguments.value_or("on", "")),
                       "write CLUSTER,CLUSTER without spaces");
  }
  for (const std::string_view name : {"what-if", "largest", "curve", "emit", "pareto", "csv", "simulate"}) {
    if (arguments.has(name))
      return input_error(fmt::format("--{} is for one cluster, but --on names {}", name, clusters.size()),
                         "ask for each of them alone");
  }
  return {};
}

Result<void> check_outputs(const Arguments& arguments, const std::vector<std::string>& questions) {
  if (arguments.has("json") && arguments.has("csv"))
    return input_error("--json and --csv are two outputs", "choose one");
  if (arguments.has("emit") && (arguments.has("json") || arguments.has("csv"))) {
    return input_error(fmt::format("--emit writes a launch, not {}", arguments.has("json") ? "JSON" : "CSV"),
                       "ask without --emit for the plan itself");
  }
  for (const std::string_view name : {"top", "variants", "explain", "simulate", "svg"}) {
    if (arguments.has("emit") && arguments.has(name)) {
      return input_error(fmt::format("--{} says nothing with --emit, which writes the best layout alone", name),
                         "ask without --emit for the plan itself");
    }
  }
  if (arguments.has("simulate") && (arguments.has("csv") || !questions.empty())) {
    return input_error(
        fmt::format("--simulate says nothing with {}", arguments.has("csv") ? "--csv" : questions.front()),
        "ask for the ranking as a table or with --json");
  }
  if (!questions.empty() && arguments.has("csv"))
    return input_error(fmt::format("--csv prints a ranking, and {} has none", questions[0]),
                       "--json prints the answer");
  return {};
}

}  // namespace

Result<void> check_plan_arguments(const Arguments& arguments) {
  std::vector<std::string> given;
  for (const std::string_view name : {"what-if", "largest", "curve", "emit"}) {
    if (arguments.has(name)) given.push_back(fmt::format("--{}", name));
  }
  if (given.size() > 1) {
    return input_error(fmt::format("{} and {} are two questions", given[0], given[1]), "ask one at a time");
  }
  if (!given.empty() && arguments.has("pareto"))
    return input_error(fmt::format("--pareto says nothing with {}", given[0]), "ask one at a time");
  for (const std::string_view name : {"threshold", "weak"}) {
    if (arguments.has(name) && !arguments.has("curve"))
      return input_error(fmt::format("--{} says nothing without --curve", name), "add --curve");
  }
  const Result<void> clusters = check_clusters(arguments);
  return clusters ? check_outputs(arguments, given) : clusters;
}

std::vector<std::string> clusters_of(const Arguments& arguments) { return split(arguments.value_or("on", "")); }

Result<PlanRequest> plan_request(const Arguments& arguments, const std::string& cluster, const spec::Catalog& catalog) {
  Result<spec::Request> asked = request_of("plan", arguments, cluster);
  if (!asked) return tl::unexpected(asked.error());
  Result<spec::Job> job = spec::read_job(*asked, catalog);
  if (!job) return tl::unexpected(job.error());
  PlanRequest request;
  // torchtitan keeps other things in memory than Megatron does.
  if (!job->names_stack && arguments.value_or("emit", "").ends_with("torchtitan")) {
    asked->sets.emplace_back("stack=torchtitan");
    job = spec::read_job(*asked, catalog);
    if (!job) return tl::unexpected(job.error());
  }
  request.job = std::move(*job);
  const bool default_name = request.job.name == spec::default_name(request.job);
  for (const auto& read : {read_wishes, read_devices}) {
    const Result<void> done = read(arguments, request);
    if (!done) return tl::unexpected(done.error());
  }
  settle(arguments, request);
  if (default_name) request.job.name = spec::default_name(request.job);
  if (request.job.has_layout) {
    const Result<void> valid = layout::check(request.job);
    if (valid) request.written = request.job;
    if (!valid) request.notes.push_back(fmt::format("the job's own layout cannot be: {}", valid.error().message));
  }
  for (const auto& read : {read_abilities, read_objective}) {
    const Result<void> done = read(arguments, request);
    if (!done) return tl::unexpected(done.error());
  }
  return request;
}

Result<std::vector<plan::Change>> changes_of(const std::string& text) {
  if (text == "all") return plan::default_changes();
  const Result<std::vector<WhatIf>> list = what_if("what-if", text);
  if (!list) return tl::unexpected(list.error());
  std::vector<plan::Change> changes;
  for (const WhatIf& one : *list)
    changes.push_back({std::string(spec::name_in(kChangeNames, one.change)), one.factor, one.name});
  return changes;
}

Result<double> share_of(const Arguments& arguments, std::string_view name, double fallback) {
  const std::optional<std::string> text = arguments.value(name);
  if (!text) return fallback;
  const Result<double> share = parse_quantity(*text, Quantity::fraction);
  if (share && *share >= 0 && *share < 1) return *share;
  const bool percent = share && *share >= 1 && *share < 100;
  return input_error(fmt::format("--{}: found `{}`, expected a share such as 0.1 or 10%", name, *text),
                     percent ? fmt::format("did you mean {}%?", *text) : "");
}

std::vector<int> doubling_counts(const spec::Cluster& cluster) {
  std::vector<int> counts;
  for (std::int64_t count = std::max(1, cluster.devices_per_node); count < cluster.devices; count *= 2)
    counts.push_back(static_cast<int>(count));
  counts.push_back(cluster.devices);
  return counts;
}

}  // namespace twinpod::cli
