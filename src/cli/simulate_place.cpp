#include "cli/simulate_place.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "cli/command.hpp"
#include "cli/graph_request.hpp"
#include "cli/job_request.hpp"
#include "cluster/topology.hpp"
#include "layout/whole_copies.hpp"
#include "plan/op_times.hpp"
#include "program/generate.hpp"
#include "spec/names.hpp"

namespace twinpod::cli {
namespace {

// tp-cp-dp-pp: each axis once.
Result<layout::AxisOrder> order_of(const std::string& text) {
  constexpr std::array<layout::Axis, layout::kNumAxes> kAxes = {layout::Axis::tp, layout::Axis::cp, layout::Axis::dp,
                                                                layout::Axis::pp};
  layout::AxisOrder order{};
  std::string rest = text + "-";
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::string name = rest.substr(0, rest.find('-'));
    const auto axis =
        std::find_if(kAxes.begin(), kAxes.end(), [&](layout::Axis one) { return layout::name_of(one) == name; });
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(i);
    if (axis == kAxes.end() || std::find(order.begin(), end, *axis) != end) {
      return input_error(fmt::format("--order {}: expected tp, cp, dp and pp, each once, with - between them", text),
                         "--order tp-cp-pp-dp");
    }
    order[i] = *axis;
    rest.erase(0, name.size() + 1);
  }
  if (rest.empty()) return order;
  return input_error(fmt::format("--order {}: expected four axes", text), "--order tp-cp-pp-dp");
}

std::string order_text(const layout::AxisOrder& order) {
  std::string text;
  for (const layout::Axis axis : order) text += fmt::format("{}{}", text.empty() ? "" : "-", layout::name_of(axis));
  return text;
}

// A Program in an order of the axes, and how long its step takes.
struct TriedOrder {
  program::Program program;
  std::string words;
  double step_s = 0;
};

struct RoutedGraph {
  cluster::Graph graph;
  cluster::Routing routing;
};

Result<RoutedGraph> machine_of(const Arguments& arguments, const spec::Job& job) {
  Result<cluster::Graph> graph = cluster::build_graph(job.cluster);
  if (!graph) return tl::unexpected(graph.error());
  const Result<cluster::Routing> routing = routing_of(*graph, arguments);
  if (!routing) return tl::unexpected(routing.error());
  return RoutedGraph{std::move(*graph), *routing};
}

Result<double> step_s(const spec::Job& job, const program::Program& program, const RoutedGraph& machine) {
  const sim::StepTimes times = plan::op_times(job, program);
  const Result<sim::StepRun> run = sim::run_step({program, times, &machine.graph, machine.routing});
  if (!run) return tl::unexpected(run.error());
  return run->step_s;
}

// Every order that the layout allows; the fastest.
Result<TriedOrder> best_order(const spec::Job& job, const RoutedGraph& machine) {
  layout::AxisOrder order = layout::kUsualOrder;
  std::sort(order.begin(), order.end());
  std::optional<TriedOrder> best;
  int tried = 0;
  do {
    Result<program::Program> program = program::generate(job, order);
    if (!program) continue;  // experts or shard groups would be cut across stages
    const Result<double> took = step_s(job, *program, machine);
    if (!took) return tl::unexpected(took.error());
    ++tried;
    if (best && *took >= best->step_s) continue;
    best = TriedOrder{std::move(*program), order_text(order), *took};
  } while (std::next_permutation(order.begin(), order.end()));
  if (!best) return infeasible("no order of the axes allows this layout");
  best->words = fmt::format("order {}, the fastest of {}", best->words, tried);
  return std::move(*best);
}

Result<TriedOrder> in_order(const Arguments& arguments, const spec::Job& job) {
  const std::string text = arguments.value_or("order", "");
  const Result<layout::AxisOrder> order = text.empty() ? layout::kUsualOrder : order_of(text);
  if (!order) return tl::unexpected(order.error());
  Result<program::Program> program = program::generate(job, *order);
  if (!program) return tl::unexpected(program.error());
  return TriedOrder{std::move(*program), text.empty() ? "" : "order " + text, 0};
}

bool searches(const Arguments& arguments, std::string_view flag) { return arguments.value_or(flag, "") == "search"; }

// On the slice that the job has by now.
Result<TriedOrder> ordered(const Arguments& arguments, const spec::Job& job) {
  if (!searches(arguments, "order")) return in_order(arguments, job);
  const Result<RoutedGraph> machine = machine_of(arguments, job);
  if (!machine) return tl::unexpected(machine.error());
  return best_order(job, *machine);
}

int chips_of(const spec::Job& job) { return std::min(job.cluster.devices, job.cluster.scale_up_domain); }

// The job on slices of that shape: one of all its devices, or several where it uses several pods.
Result<spec::Job> on_slice(const spec::Job& job, const std::string& text) {
  spec::Job made = job;
  const Result<void> applied = cluster::apply_slice(made.cluster, text);
  if (!applied) return tl::unexpected(applied.error());
  const int chips = made.cluster.devices;
  if (chips != chips_of(job)) {
    const std::vector<int> nearest = cluster::nearest_slice(job.cluster, chips_of(job), made.cluster.topology.slice);
    return input_error(fmt::format("slice {} has {} chips, but the job uses {}", text, chips, chips_of(job)),
                       nearest.empty() ? fmt::format("--devices {}", chips)
                                       : fmt::format("--slice {}, or --devices {}", spec::shape_text(nearest), chips));
  }
  made.cluster.devices = job.cluster.devices;
  return made;
}

// A slice says how many devices there are, unless somebody else does.
Result<spec::Job> sliced_job(const Arguments& arguments) {
  const std::string slice = arguments.value_or("slice", "");
  if (slice.empty() || slice == "search") return one_job("simulate", arguments, catalog_of(arguments));
  Result<spec::Request> request = request_of("simulate", arguments, arguments.value_or("on", ""));
  if (!request) return tl::unexpected(request.error());
  Result<spec::Job> job = spec::read_job(*request, catalog_of(arguments));
  if (!job) return job;
  if (!job->names_devices) {
    spec::Cluster cluster = job->cluster;
    const Result<void> applied = cluster::apply_slice(cluster, slice);
    if (!applied) return tl::unexpected(applied.error());
    request->sets.emplace_back(fmt::format("devices={}", cluster.devices), "--slice " + slice);
    job = spec::read_job(*request, catalog_of(arguments));
    if (!job) return job;
  }
  return on_slice(layout::with_whole_copies(*job), slice);
}

// All shapes that as many chips can have, and those of them that can be twisted.
Result<std::vector<std::string>> slices_to_try(const spec::Job& job) {
  if (job.cluster.scale_up != spec::ScaleUpKind::torus) {
    return input_error(fmt::format("{} is no torus, so it has no slices to search", job.cluster.name),
                       "leave --slice out; --order search tries orders of the axes");
  }
  std::vector<std::string> texts;
  for (const std::vector<int>& shape : cluster::slice_shapes(job.cluster, chips_of(job))) {
    texts.push_back(spec::shape_text(shape));
    if (cluster::can_be_twisted(job.cluster, shape)) texts.push_back(texts.back() + "_twisted");
  }
  if (!texts.empty()) return texts;
  return input_error(fmt::format("{} has no slice of {} chips", job.cluster.name, chips_of(job)),
                     "leave --slice out, or change --devices");
}

Result<PlacedJob> best_slice(const Arguments& arguments, const spec::Job& job) {
  const Result<std::vector<std::string>> texts = slices_to_try(job);
  if (!texts) return tl::unexpected(texts.error());
  std::optional<PlacedJob> best;
  std::vector<report::SliceStep> slices;
  for (const std::string& text : *texts) {
    Result<spec::Job> made = on_slice(job, text);
    if (!made) return tl::unexpected(made.error());
    const Result<RoutedGraph> machine = machine_of(arguments, *made);
    if (!machine) return tl::unexpected(machine.error());
    Result<TriedOrder> tried = searches(arguments, "order") ? best_order(*made, *machine) : in_order(arguments, *made);
    if (!tried) return tl::unexpected(tried.error());
    const Result<double> took =
        tried->step_s > 0 ? Result<double>(tried->step_s) : step_s(*made, tried->program, *machine);
    if (!took) return tl::unexpected(took.error());
    const bool fastest = std::all_of(slices.begin(), slices.end(), [&](const auto& s) { return *took < s.step_s; });
    slices.push_back({text, *took});
    if (fastest) best = PlacedJob{std::move(*made), std::move(tried->program), std::move(tried->words), {}};
  }
  std::stable_sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) { return a.step_s < b.step_s; });
  const std::string words = fmt::format("slice {}, the fastest of {}", slices.front().slice, slices.size());
  best->words = best->words.empty() ? words : words + "; " + best->words;
  best->slices = std::move(slices);
  return std::move(*best);
}

}  // namespace

Result<PlacedJob> placed_job(const Arguments& arguments) {
  Result<spec::Job> job = sliced_job(arguments);
  if (!job) return tl::unexpected(job.error());
  if (searches(arguments, "slice")) return best_slice(arguments, *job);
  Result<TriedOrder> tried = ordered(arguments, *job);
  if (!tried) return tl::unexpected(tried.error());
  std::string words = arguments.has("slice") ? "slice " + *arguments.value("slice") : "";
  if (!tried->words.empty()) words += (words.empty() ? "" : "; ") + tried->words;
  return PlacedJob{std::move(*job), std::move(tried->program), std::move(words), {}};
}

}  // namespace twinpod::cli
