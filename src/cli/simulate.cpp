// twinpod simulate: one training step on a cluster, op by op.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <sstream>

#include "chakra/export.hpp"
#include "cli/command.hpp"
#include "cli/graph_request.hpp"
#include "cli/job_request.hpp"
#include "cli/simulate_workload.hpp"
#include "cluster/topology.hpp"
#include "core/files.hpp"
#include "core/rng.hpp"
#include "core/units.hpp"
#include "plan/op_times.hpp"
#include "program/generate.hpp"
#include "report/step_report.hpp"
#include "report/trace.hpp"

namespace twinpod::cli {
namespace {

constexpr std::array kOutputFlags = {
    Flag{"slow", "WHAT", "a slow rank: rank=37:1.3, or link: link=leaf3-spine2:2; with commas between them", ""},
    Flag{"cut", "LINK", "cut cables: link=leaf3-spine2; with commas between them", ""},
    Flag{"jitter", "SHARE", "ranks differ at random, by so much on average: 2%", ""},
    Flag{"seed", "N", "of the jitter (default: 1)", ""},
    kRoutingFlag,
    Flag{"order", "AXES", "which axis changes fastest from device to device (default: tp-cp-dp-pp), or search", ""},
    Flag{"place", "FILE", "the device of each rank, one number a line", ""},
    Flag{"no-network", "", "communication is never in each other's way", ""},
    Flag{"timeline", "FILE", "write start and end of every op as JSON", ""},
    Flag{"trace", "FILE", "write a trace for ui.perfetto.dev", ""},
    Flag{"chakra", "FOLDER", "write Chakra execution traces: a file for one rank of each stage, with durations", ""},
    Flag{"all-ranks", "", "with --chakra: a file for every rank", ""},
    Flag{"workload", "FOLDER|FILE.et", "simulate Chakra execution traces in the place of a model", ""},
};
constexpr std::array kFlags = joined(joined(kJobFlags, kTrainingFlags), kOutputFlags);

struct Faults {
  std::map<int, double> slow;
  std::vector<std::string> texts;
};

Result<double> factor_of(const std::string& item, const std::string& text) {
  const Result<double> factor = parse_quantity(text, Quantity::number);
  if (factor && *factor >= 1 && *factor < 1e6) return factor;
  return input_error(fmt::format("--slow {}: expected a factor from 1: how many times as long it takes", item),
                     "rank=37:1.3");
}

// rank=37:1.3 computes 1.3 times as long; link=a-b:2 takes twice as long for a byte.
Result<void> read_slow(const std::string& text, cluster::Graph& graph, int ranks, Faults& faults) {
  for (const std::string& item : split_outside_brackets(text)) {
    const std::size_t sign = item.find('=');
    const std::size_t colon = item.rfind(':');
    const std::string what = item.substr(0, sign);
    if (sign == std::string::npos || colon == std::string::npos || colon < sign || (what != "rank" && what != "link")) {
      return input_error(fmt::format("--slow {}: expected rank=NUMBER:FACTOR or link=NAME:FACTOR", item),
                         "--slow rank=37:1.3");
    }
    const std::string name = item.substr(sign + 1, colon - sign - 1);
    const Result<double> factor = factor_of(item, item.substr(colon + 1));
    if (!factor) return tl::unexpected(factor.error());
    if (what == "rank") {
      const Result<double> rank = parse_quantity(name, Quantity::number);
      if (!rank || *rank < 0 || *rank >= ranks || *rank != static_cast<int>(*rank)) {
        return input_error(fmt::format("--slow {}: there is no rank `{}`", item, name),
                           fmt::format("ranks are 0 to {}", ranks - 1));
      }
      faults.slow[static_cast<int>(*rank)] = *factor;
      faults.texts.push_back(fmt::format("rank {} computes {:.3g} times as long", static_cast<int>(*rank), *factor));
    } else {
      const Result<std::vector<int>> links = cluster::find_links(graph, name);
      if (!links) return tl::unexpected(links.error());
      cluster::slow_links(graph, *links, std::min(1.0, 1 / *factor));
      faults.texts.push_back(fmt::format("{} at {:.3g} of its rate", name, 1 / *factor));
    }
  }
  return {};
}

Result<void> read_cut(const std::string& text, cluster::Graph& graph, Faults& faults) {
  for (const std::string& item : split_outside_brackets(text)) {
    const std::string name = item.starts_with("link=") ? item.substr(5) : item;
    const Result<std::vector<int>> links = cluster::find_links(graph, name);
    if (!links) return tl::unexpected(links.error());
    cluster::cut_links(graph, *links);
    faults.texts.push_back(fmt::format("{} cut", name));
  }
  return cluster::check_connected(graph);
}

// Each rank computes longer by a random share, on average as much as asked for.
Result<void> read_jitter(const Arguments& arguments, int ranks, Faults& faults) {
  const auto text = arguments.value("jitter");
  if (!text) return {};
  const Result<double> share = parse_quantity(*text, Quantity::fraction);
  if (!share || *share < 0 || *share > 1) {
    return input_error(fmt::format("--jitter {}: expected a share from 0 to 1", *text), "--jitter 2%");
  }
  const Result<int> seed = whole_number(arguments, "seed", 0, 1);
  if (!seed) return tl::unexpected(seed.error());
  Rng rng(static_cast<std::uint64_t>(*seed));
  for (int rank = 0; rank < ranks; ++rank) {
    const double factor = 1 - *share * std::log(1 - rng.uniform());
    const auto [found, is_new] = faults.slow.insert({rank, factor});
    if (!is_new) found->second *= factor;
  }
  faults.texts.push_back(fmt::format("ranks differ at random, by {:.3g} % on average", 100 * *share));
  return {};
}

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

// A device for each rank, none twice.
Result<std::vector<int>> devices_of(const std::string& file, int ranks, int devices) {
  const Result<std::string> text = read_file(file);
  if (!text) return tl::unexpected(text.error());
  std::istringstream lines(*text);
  std::vector<int> placed;
  std::vector<bool> taken(static_cast<std::size_t>(devices));
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.empty() || line.front() == '#') continue;
    const Result<double> device = parse_quantity(line, Quantity::number);
    const bool whole = device && *device >= 0 && *device < devices && *device == static_cast<int>(*device);
    if (!whole || taken[static_cast<std::size_t>(*device)]) {
      return input_error(fmt::format("{}:{}: `{}` is no device, or is taken", file, number, line),
                         fmt::format("devices are 0 to {}, each for one rank", devices - 1));
    }
    taken[static_cast<std::size_t>(*device)] = true;
    placed.push_back(static_cast<int>(*device));
  }
  if (static_cast<int>(placed.size()) == ranks) return placed;
  return input_error(fmt::format("{} places {} ranks; the job has {}", file, placed.size(), ranks));
}

struct Runs {
  sim::StepRun run;
  report::StepMetrics metrics;
};

Result<Runs> simulate_one(const program::Program& program, const sim::StepTimes& times, const cluster::Graph* graph,
                          cluster::Routing routing, const std::map<int, double>& slow, const std::vector<int>& placed) {
  sim::StepInput input{program, times};
  input.device_of_rank = placed;
  input.graph = graph;
  input.routing = routing;
  input.slow = slow;
  Result<sim::StepRun> run = sim::run_step(input);
  if (!run) return tl::unexpected(run.error());
  Runs runs{std::move(*run), {}};
  runs.metrics = report::step_metrics(program, runs.run.step_s, runs.run.kinds.size(),
                                      [&](std::size_t k) { return sim::timeline_of(runs.run.kinds[k]); });
  return runs;
}

// What the flags ask to be written beside the answer.
Result<void> write_files(const Arguments& arguments, const program::Program& program, const sim::StepRun& run) {
  const auto json = arguments.value("timeline");
  const auto trace = arguments.value("trace");
  const auto folder = arguments.value("chakra");
  if (arguments.has("all-ranks") && !folder) return input_error("--all-ranks needs --chakra FOLDER");
  if (!json && !trace && !folder) return {};
  const program::Timeline timeline = sim::timeline_of(run);
  Result<void> wrote;
  if (json) wrote = write_file(*json, report::timeline_json(program, timeline));
  if (wrote && trace) wrote = report::write_trace({program, timeline, run.kind_of_rank}, *trace);
  if (!wrote || !folder) return wrote;
  const Result<chakra::Written> files =
      chakra::write_chakra({program, timeline, run.kind_of_rank}, *folder, arguments.has("all-ranks"));
  if (!files) return tl::unexpected(files.error());
  return {};
}

Result<std::string> answer(const Arguments& arguments, const spec::Job& job, const program::Program& program,
                           const std::string& placement) {
  const auto begin = std::chrono::steady_clock::now();
  const bool has_network = !arguments.has("no-network");
  Result<cluster::Graph> healthy = has_network ? cluster::build_graph(job.cluster) : cluster::Graph{};
  if (!healthy) return tl::unexpected(healthy.error());
  cluster::Graph graph = *healthy;
  Faults faults;
  if (const auto text = arguments.value("slow")) {
    const Result<void> read = read_slow(*text, graph, program.mesh.ranks(), faults);
    if (!read) return tl::unexpected(read.error());
  }
  if (const auto text = arguments.value("cut")) {
    const Result<void> read = read_cut(*text, graph, faults);
    if (!read) return tl::unexpected(read.error());
  }
  if (const Result<void> read = read_jitter(arguments, program.mesh.ranks(), faults); !read) {
    return tl::unexpected(read.error());
  }
  const Result<cluster::Routing> routing = has_network ? routing_of(graph, arguments) : cluster::Routing::rail;
  if (!routing) return tl::unexpected(routing.error());

  const sim::StepTimes times = plan::op_times(job, program);
  Result<std::vector<int>> placed = std::vector<int>{};
  if (const auto file = arguments.value("place")) placed = devices_of(*file, program.mesh.ranks(), job.cluster.devices);
  if (!placed) return tl::unexpected(placed.error());
  const Result<Runs> now = simulate_one(program, times, has_network ? &graph : nullptr, *routing, faults.slow, *placed);
  if (!now) return tl::unexpected(now.error());
  Result<Runs> before = Runs{};
  if (!faults.texts.empty()) {
    before = simulate_one(program, times, has_network ? &*healthy : nullptr, *routing, {}, *placed);
    if (!before) return tl::unexpected(before.error());
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  report::StepView view{.job = job, .program = program, .run = now->run, .metrics = now->metrics};
  if (has_network) view.graph = &graph;
  view.faults = faults.texts;
  view.closed_form_s = plan::step_time(job).total_s;
  view.seconds = took.count();
  view.placement = placement;
  if (arguments.has("place")) view.placement = fmt::format("ranks on devices as in {}", *arguments.value("place"));
  if (!faults.texts.empty()) {
    view.healthy = &before->run;
    view.healthy_metrics = &before->metrics;
  }
  for (int kind = 0; kind < static_cast<int>(program.kinds.size()); ++kind) {
    view.memory.push_back(program::memory_of(program, kind));
  }
  if (const Result<void> wrote = write_files(arguments, program, now->run); !wrote)
    return tl::unexpected(wrote.error());
  return arguments.has("json") ? report::step_json(view) : report::step_text(view);
}

struct Placed {
  program::Program program;
  std::string words;  // empty: the usual order
};

// Every order that the layout allows, simulated on the whole machine; the fastest.
Result<Placed> searched(const Arguments& arguments, const spec::Job& job) {
  const Result<cluster::Graph> graph = cluster::build_graph(job.cluster);
  if (!graph) return tl::unexpected(graph.error());
  const Result<cluster::Routing> routing = routing_of(*graph, arguments);
  if (!routing) return tl::unexpected(routing.error());
  layout::AxisOrder order = layout::kUsualOrder;
  std::sort(order.begin(), order.end());
  std::optional<Placed> best;
  double best_s = 0;
  int tried = 0;
  do {
    Result<program::Program> program = program::generate(job, order);
    if (!program) continue;  // experts or shard groups would be cut across stages
    const sim::StepTimes times = plan::op_times(job, *program);
    const Result<Runs> run = simulate_one(*program, times, &*graph, *routing, {}, {});
    if (!run) return tl::unexpected(run.error());
    ++tried;
    if (best && run->run.step_s >= best_s) continue;
    best_s = run->run.step_s;
    best = Placed{std::move(*program), order_text(order)};
  } while (std::next_permutation(order.begin(), order.end()));
  if (!best) return infeasible("no order of the axes allows this layout");
  best->words = fmt::format("order {}, the fastest of {}", best->words, tried);
  return std::move(*best);
}

Result<Placed> placed_program(const Arguments& arguments, const spec::Job& job) {
  const std::string text = arguments.value_or("order", "");
  if (text == "search") return searched(arguments, job);
  const Result<layout::AxisOrder> order = text.empty() ? layout::kUsualOrder : order_of(text);
  if (!order) return tl::unexpected(order.error());
  Result<program::Program> program = program::generate(job, *order);
  if (!program) return tl::unexpected(program.error());
  return Placed{std::move(*program), text.empty() ? "" : "order " + text};
}

Result<std::string> simulate(const Arguments& arguments) {
  if (arguments.has("workload")) return simulate_workload(arguments);
  const Result<spec::Job> job = one_job("simulate", arguments, catalog_of(arguments));
  if (!job) return tl::unexpected(job.error());
  const Result<Placed> placed = placed_program(arguments, *job);
  if (!placed) return tl::unexpected(placed.error());
  const Result<void> fits = program::check_memory(placed->program);
  if (!fits) return tl::unexpected(fits.error());
  return answer(arguments, *job, placed->program, placed->words);
}

}  // namespace

const Command kSimulate = {
    "simulate",
    "MODEL|JOB.yaml|config.json [--on CLUSTER] [flags]",
    "one training step on a cluster, op by op: who waits for whom, on which link",
    "twinpod simulate gpt3-175b --on dgx-superpod-a100-140 --devices 1024 --tp 8 --pp 8 --stack megatron-2022\n"
    "twinpod simulate examples/llama3-70b.yaml --slow rank=37:1.3\n"
    "twinpod simulate llama3-70b --on h100-superpod --devices 512 --tp 4 --pp 4 --cut link=leaf3-spine2 --json\n"
    "twinpod simulate llama3-70b --on h100-superpod --devices 512 --tp 4 --pp 4 --trace step.json\n"
    "twinpod simulate --workload traces --on h100-superpod\n",
    kFlags,
    simulate};

}  // namespace twinpod::cli
