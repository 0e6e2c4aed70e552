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
#include "cli/simulate_place.hpp"
#include "cli/simulate_served.hpp"
#include "cli/simulate_workload.hpp"
#include "cluster/topology.hpp"
#include "core/files.hpp"
#include "core/rng.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "plan/estimate.hpp"
#include "plan/op_times.hpp"
#include "plan/predict.hpp"
#include "program/generate.hpp"
#include "report/step_report.hpp"
#include "report/trace.hpp"
#include "spec/names.hpp"

namespace twinpod::cli {
namespace {

constexpr std::array kSimulateOutputFlags = {
    Flag{"slow", "WHAT", "a slow rank: rank=37:1.3, or link: link=leaf3-spine2:2; with commas between them", ""},
    Flag{"cut", "LINK", "cut cables: link=leaf3-spine2; with commas between them", ""},
    Flag{"jitter", "SHARE", "ranks differ at random, by so much on average: 2%", ""},
    Flag{"seed", "N", "of the jitter (default: 1)", ""},
    kRoutingFlag,
    Flag{"order", "AXES", "which axis changes fastest from device to device (default: tp-cp-dp-pp), or search", ""},
    Flag{"slice", "AxBxC", "the shape of the torus: 4x4x8, 4x4x8_twisted, or search (default: as even as can be)", ""},
    Flag{"place", "FILE", "the device of each rank, one number a line", ""},
    Flag{"checkpoint-every", "N", "save a checkpoint every so many steps: its stall, its drain, what storage bears",
         ""},
    Flag{"store", "TIERS", "where to: memory,peer,local,shared,object, the fastest first; shared:5 takes each fifth",
         ""},
    Flag{"no-network", "", "communication is never in each other's way", ""},
    Flag{"timeline", "FILE", "write start and end of every op as JSON", ""},
    Flag{"trace", "FILE", "write a trace for ui.perfetto.dev", ""},
    Flag{"chakra", "FOLDER", "write Chakra execution traces: a file for one rank of each stage, with durations", ""},
    Flag{"all-ranks", "", "with --chakra: a file for every rank", ""},
    Flag{"workload", "FOLDER|FILE.et", "simulate Chakra execution traces in the place of a model", ""},
};
constexpr std::array kFlagsOfSimulate =
    joined(joined(joined(kJobFlags, kTrainingFlags), kSimulateOutputFlags), kSimulateServedFlags);

struct SimulatedFaults {
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
Result<void> read_slow(const std::string& text, cluster::Graph& graph, int ranks, SimulatedFaults& faults) {
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

Result<void> read_cut(const std::string& text, cluster::Graph& graph, SimulatedFaults& faults) {
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
Result<void> read_jitter(const Arguments& arguments, int ranks, SimulatedFaults& faults) {
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

// A device for each rank, none twice.
Result<std::vector<int>> devices_of(const std::string& file, int ranks, int devices) {
  const Result<std::string> text = read_file(file, kMostTextBytes, "a device for each rank, a line each");
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
  return input_error(fmt::format("{} places {}; the job has {}", file, counted(placed.size(), "rank"), ranks));
}

struct Runs {
  sim::StepRun run;
  report::StepMetrics metrics;
};

Result<Runs> simulate_one(const PlacedJob& what, const plan::Surroundings& where) {
  Result<sim::StepRun> run = plan::predict_step(what.job, what.program, where);
  if (!run) return tl::unexpected(run.error());
  Runs runs{std::move(*run), {}};
  runs.metrics = report::step_metrics(what.program, runs.run.step_s, runs.run.kinds.size(),
                                      [&](std::size_t k) { return sim::timeline_of(runs.run.kinds[k]); });
  return runs;
}

// shared, or shared:5 for each fifth checkpoint; what has a slash is a folder that all hosts see.
Result<spec::CheckpointTier> tier_of(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  spec::CheckpointTier tier;
  if (name.find('/') != std::string::npos) {
    tier.path = name;
  } else {
    const auto found = std::find_if(spec::kTierKindNames.begin(), spec::kTierKindNames.end(),
                                    [&](const auto& known) { return known.first == name; });
    if (found == spec::kTierKindNames.end()) {
      return input_error(fmt::format("--store {}: there is no tier `{}`", text, name),
                         "tiers are memory, peer, local, shared and object; a folder has a slash");
    }
    tier.kind = found->second;
  }
  if (colon == std::string::npos) return tier;
  const Result<double> every = parse_quantity(text.substr(colon + 1), Quantity::number);
  if (!every || *every < 1 || *every > 1e9 || *every != std::floor(*every)) {
    return input_error(fmt::format("--store {}: expected a whole number from 1 behind the colon", text),
                       "shared:5 takes each fifth checkpoint");
  }
  tier.every = static_cast<int>(*every);
  return tier;
}

// The flags go before what the job says.
Result<void> read_checkpoint(const Arguments& arguments, spec::Checkpoint& checkpoint) {
  const Result<int> every = whole_number(arguments, "checkpoint-every", 1, std::max(1, checkpoint.every));
  if (!every) return tl::unexpected(every.error());
  if (arguments.has("checkpoint-every")) checkpoint.every = *every;
  const auto store = arguments.value("store");
  if (!store) return {};
  if (checkpoint.every == 0)
    return input_error("--store says where checkpoints go, but not how often", "add --checkpoint-every 100");
  checkpoint.store.clear();
  for (const std::string& item : split_outside_brackets(*store)) {
    const Result<spec::CheckpointTier> tier = tier_of(item);
    if (!tier) return tl::unexpected(tier.error());
    checkpoint.store.push_back(*tier);
  }
  return {};
}

Result<std::optional<sim::CheckpointRun>> simulate_checkpoint(const PlacedJob& what, const plan::Surroundings& where) {
  if (what.job.checkpoint.every == 0) return std::nullopt;
  const sim::StepTimes times = plan::op_times(what.job, what.program);
  Result<sim::CheckpointRun> run = sim::run_checkpoints(
      {what.job, what.program, times, where.graph, where.routing, where.device_of_rank, where.slow});
  if (!run) return tl::unexpected(run.error());
  return std::move(*run);
}

// What the flags ask to be written beside the answer: the step, or those round a checkpoint.
Result<void> write_timeline(const Arguments& arguments, const program::Program& program, const sim::StepRun& run) {
  const auto json = arguments.value("timeline");
  const auto trace = arguments.value("trace");
  if (!json && !trace) return {};
  const program::Timeline timeline = sim::timeline_of(run);
  Result<void> wrote;
  if (json) wrote = write_file(*json, report::timeline_json(program, timeline));
  if (wrote && trace) wrote = report::write_trace({program, timeline, run.kind_of_rank}, *trace);
  return wrote;
}

// The step, always.
Result<void> write_chakra_files(const Arguments& arguments, const program::Program& program, const sim::StepRun& run) {
  const auto folder = arguments.value("chakra");
  if (arguments.has("all-ranks") && !folder) return input_error("--all-ranks needs --chakra FOLDER");
  if (!folder) return {};
  const program::Timeline timeline = sim::timeline_of(run);
  const Result<chakra::Written> files =
      chakra::write_chakra({program, timeline, run.kind_of_rank}, *folder, arguments.has("all-ranks"));
  if (!files) return tl::unexpected(files.error());
  return {};
}

Result<std::string> answer(const Arguments& arguments, const PlacedJob& what) {
  const spec::Job& job = what.job;
  const program::Program& program = what.program;
  const auto begin = std::chrono::steady_clock::now();
  const bool has_network = !arguments.has("no-network");
  Result<cluster::Graph> healthy = has_network ? cluster::build_graph(job.cluster) : cluster::Graph{};
  if (!healthy) return tl::unexpected(healthy.error());
  cluster::Graph graph = *healthy;
  SimulatedFaults faults;
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

  Result<std::vector<int>> placed = std::vector<int>{};
  if (const auto file = arguments.value("place")) placed = devices_of(*file, program.mesh.ranks(), job.cluster.devices);
  if (!placed) return tl::unexpected(placed.error());
  plan::Surroundings where{has_network ? &graph : nullptr, *routing, *placed, faults.slow};
  const Result<Runs> now = simulate_one(what, where);
  if (!now) return tl::unexpected(now.error());
  Result<std::optional<sim::CheckpointRun>> saved = simulate_checkpoint(what, where);
  // Who has a job for `train` and asks for its step is told that the tiers' rates are not known, and gets the step.
  const bool asked = arguments.has("checkpoint-every") || arguments.has("store");
  const std::string refusal = saved ? "" : saved.error().message;
  if (!saved && asked) return tl::unexpected(saved.error());
  if (!saved) saved = std::nullopt;
  Result<Runs> before = Runs{};
  if (!faults.texts.empty()) {
    if (has_network) where.graph = &*healthy;
    where.slow.clear();
    before = simulate_one(what, where);
    if (!before) return tl::unexpected(before.error());
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  report::StepView view{.job = job, .program = program, .run = now->run, .metrics = now->metrics};
  if (has_network) view.graph = &graph;
  view.faults = faults.texts;
  view.closed_form_s = plan::step_time(job).total_s;
  view.seconds = took.count();
  view.placement = what.words;
  view.slices = what.slices;
  if (arguments.has("place")) view.placement = fmt::format("ranks on devices as in {}", *arguments.value("place"));
  if (!faults.texts.empty()) {
    view.healthy = &before->run;
    view.healthy_metrics = &before->metrics;
  }
  for (int kind = 0; kind < static_cast<int>(program.kinds.size()); ++kind) {
    view.memory.push_back(program::memory_of(program, kind));
  }
  view.checkpoint_refusal = refusal;
  if (*saved) view.checkpoint = &**saved;
  Result<void> wrote = write_chakra_files(arguments, program, now->run);
  if (wrote) {
    wrote = *saved ? write_timeline(arguments, (*saved)->steps.program, (*saved)->run)
                   : write_timeline(arguments, program, now->run);
  }
  if (!wrote) return tl::unexpected(wrote.error());
  return arguments.has("json") ? report::step_json(view) : report::step_text(view);
}

Result<std::string> simulate(const Arguments& arguments) {
  if (wants_served_run(arguments)) return simulate_served(arguments);
  if (arguments.has("workload")) return simulate_workload(arguments);
  Result<PlacedJob> placed = placed_job(arguments);
  if (!placed) return tl::unexpected(placed.error());
  const Result<void> saves = read_checkpoint(arguments, placed->job.checkpoint);
  if (!saves) return tl::unexpected(saves.error());
  const Result<void> fits = program::check_memory(placed->program);
  if (!fits) return tl::unexpected(fits.error());
  return answer(arguments, *placed);
}

}  // namespace

const Command kSimulate = {
    "simulate",
    "MODEL|JOB.yaml|config.json [--on CLUSTER] [flags]",
    "one training step on a cluster, op by op: who waits for whom, on which link",
    "twinpod simulate gpt3-175b --on dgx-superpod-a100-140 --devices 1024 --tp 8 --pp 8 --recompute selective --sp "
    "--stack megatron-2022\n"
    "twinpod simulate examples/llama3-70b.yaml --slow rank=37:1.3\n"
    "twinpod simulate llama3-70b --on h100-superpod --devices 512 --tp 4 --pp 4 --cut link=leaf3-spine2 --json\n"
    "twinpod simulate llama3-70b --on h100-superpod --devices 512 --tp 4 --pp 4 --trace step.json\n"
    "twinpod simulate palm-540b --on tpu-v4-4096 --devices 512 --tp 8 --zero 3 --recompute full --slice search\n"
    "twinpod simulate gpt3-175b --on dgx-superpod-a100-140 --devices 1024 --tp 8 --pp 8 --checkpoint-every 100 --store "
    "local,shared\n"
    "twinpod simulate gpt3-1.3b --on h100-superpod --servers 16 --workers 256 --mode async --global-batch 4096\n"
    "twinpod simulate gpt3-1.3b --on h100-superpod --servers 4 --copies 2 --workers 8 --group 8 --mode ssp:3 --kill "
    "server:1@9s\n"
    "twinpod simulate --workload traces --on h100-superpod\n",
    kFlagsOfSimulate,
    simulate};

}  // namespace twinpod::cli
