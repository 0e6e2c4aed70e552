#include "cli/simulate_workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "chakra/run.hpp"
#include "cli/command.hpp"
#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "report/json_parts.hpp"
#include "spec/read.hpp"

namespace twinpod::cli {
namespace {

// What a workload leaves to say; all else is in its files.
constexpr std::array<std::string_view, 7> kAllowed = {"workload", "on", "devices", "stack", "json", "catalog", "set"};

Result<void> check_flags(const Arguments& arguments) {
  if (!arguments.words.empty()) {
    return input_error(fmt::format("--workload takes the place of a model, but `{}` is given", arguments.words.front()),
                       "twinpod simulate --workload FOLDER --on CLUSTER");
  }
  if (!arguments.has("on")) {
    return input_error("--workload needs a cluster", "add --on CLUSTER; `twinpod show clusters` lists them");
  }
  for (const GivenFlag& given : arguments.flags) {
    if (std::find(kAllowed.begin(), kAllowed.end(), given.flag->name) != kAllowed.end()) continue;
    return input_error(fmt::format("--{} does not go with --workload", given.flag->name),
                       "its files say what the ranks do; --on, --devices and --stack say where");
  }
  return {};
}

// A job carries cluster and stack; which model it names does not matter here.
Result<spec::Job> place_of(const Arguments& arguments) {
  spec::Request request;
  request.model = "gpt2";
  request.cluster = arguments.value_or("on", "");
  for (const GivenFlag& given : arguments.flags) {
    if (given.flag->name == "set") request.sets.emplace_back(given.value);
    if (given.flag->setting.empty()) continue;
    request.sets.emplace_back(fmt::format("{}={}", given.flag->setting, given.value), given.as_written);
  }
  return spec::read_job(request, catalog_of(arguments));
}

struct Means {
  double compute_s = 0;
  double communication_s = 0;
  double exposed_s = 0;
  std::size_t last = 0;  // rank that ends last
};

Means means_of(const chakra::WorkloadRun& run) {
  Means means;
  const auto ranks = static_cast<double>(run.ranks.size());
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    means.compute_s += run.ranks[r].compute_s / ranks;
    means.communication_s += run.ranks[r].communication_s / ranks;
    means.exposed_s += run.ranks[r].exposed_s / ranks;
    if (run.ranks[r].end_s > run.ranks[means.last].end_s) means.last = r;
  }
  return means;
}

std::string json_of(const chakra::WorkloadRun& run, int ranks) {
  const Means means = means_of(run);
  nlohmann::ordered_json json;
  json["step_time_s"] = run.step_s;
  json["compute_s"] = means.compute_s;
  json["communication_s"] = means.communication_s;
  json["exposed_communication_s"] = means.exposed_s;
  json["bubble_s"] = std::max(0.0, run.step_s - means.compute_s - means.exposed_s);
  json["ranks"] = ranks;
  json["simulated_ranks"] = run.ranks.size();
  json["last_rank"] = means.last;
  json["events"] = run.nodes;
  json["untimed_nodes"] = run.untimed;
  return report::printed(json);
}

std::string text_of(const chakra::WorkloadRun& run, int ranks, const spec::Cluster& cluster) {
  const Means means = means_of(run);
  std::string text = fmt::format("{}, {} of their traces, on {}\n\n", counted(ranks, "rank"),
                                 counted(run.nodes, "node"), cluster.name);
  Table table({{""}, {"", Align::right}}, {.indent = 2, .gap = 2, .header_rule = false});
  table.row({"step", format_seconds(run.step_s)});
  table.row({"a rank computes, on average", format_seconds(means.compute_s)});
  table.row({"communicates", format_seconds(means.communication_s)});
  table.row({"communicates and does not compute", format_seconds(means.exposed_s)});
  table.row({"waits", format_seconds(std::max(0.0, run.step_s - means.compute_s - means.exposed_s))});
  text += table.text();
  if (run.untimed > 0) {
    text += fmt::format("\n  without duration_micros, num_ops and tensor_size, and so without time: {}\n",
                        counted(run.untimed, "node"));
  }
  return text;
}

}  // namespace

Result<std::string> simulate_workload(const Arguments& arguments) {
  const Result<void> allowed = check_flags(arguments);
  if (!allowed) return tl::unexpected(allowed.error());
  const Result<spec::Job> job = place_of(arguments);
  if (!job) return tl::unexpected(job.error());
  const Result<chakra::Workload> workload = chakra::read_workload(arguments.value_or("workload", ""));
  if (!workload) return tl::unexpected(workload.error());
  const int devices = job->cluster.devices;
  const Result<chakra::WorkloadRun> run = chakra::run_workload(*workload, {job->cluster, job->stack.physics, devices});
  if (!run) return tl::unexpected(run.error());
  const int ranks = workload->alike ? devices : static_cast<int>(workload->ranks.size());
  return arguments.has("json") ? json_of(*run, ranks) : text_of(*run, ranks, job->cluster);
}

}  // namespace twinpod::cli
