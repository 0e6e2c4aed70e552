// twinpod collective: how long a collective takes on a cluster, as a table of sizes.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cmath>

#include "cli/command.hpp"
#include "cli/graph_request.hpp"
#include "collective/msccl.hpp"
#include "core/files.hpp"
#include "core/quote.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "report/collective_report.hpp"

namespace twinpod::cli {
namespace {

using sim::CollectiveRequest;

constexpr std::array kFlagsOfCollective = {
    Flag{"on", "CLUSTER", "the cluster: a name of the catalog, a cluster file, or an NCCL topology (.xml)", ""},
    Flag{"bytes", "SIZES", "8..8G (each size twice the one before), 1M,64M or 1GB; K, M, G are KiB, MiB, GiB", ""},
    Flag{"ranks", "N", "ranks of a group (default: all devices)", ""},
    Flag{"stride", "N", "devices from one rank to the next (default: 1)", ""},
    Flag{"groups", "N", "groups that do the same at the same time (default: 1)", ""},
    Flag{"algorithm", "NAME", "ring, double_tree, halving_doubling, ... (default: what the tuner takes)", ""},
    Flag{"sharp", "", "switches between nodes may add up, where they can", ""},
    Flag{"root", "RANK", "of a broadcast, reduce, scatter, gather; the sender of a send (default: 0)", ""},
    Flag{"peer", "RANK", "the receiver of a send (default: 1)", ""},
    Flag{"schedule", "FILE", "a schedule of your own, in the XML of MSCCL", ""},
    Flag{"export", "FILE", "write the schedule of --algorithm in the XML of MSCCL", ""},
    kSliceFlag,
    kDevicesFlag,
    kCutFlag,
    kSlowFlag,
    kRoutingFlag,
};

// nccl-tests writes K, M and G for powers of 1024; with a B or iB behind them they are what they are everywhere.
Result<double> size_of(const std::string& text) {
  std::string whole = text;
  if (!text.empty() && std::string_view("kKMGT").find(text.back()) != std::string_view::npos) {
    whole.back() = whole.back() == 'k' ? 'K' : whole.back();
    whole += "iB";
  }
  const Result<double> bytes = parse_quantity(whole, Quantity::bytes);
  if (bytes && *bytes >= 1 && *bytes <= 1e15) return std::floor(*bytes);
  return input_error(fmt::format("--bytes {}: expected a size from 1 B to 1 PB", text), "8..8G, 64M or 1GB");
}

Result<std::vector<double>> sizes_of(const std::string& text) {
  std::vector<double> sizes;
  for (const std::string& item : split_outside_brackets(text)) {
    const std::size_t dots = item.find("..");
    const Result<double> first = size_of(item.substr(0, dots));
    if (!first) return tl::unexpected(first.error());
    const Result<double> last = dots == std::string::npos ? first : size_of(item.substr(dots + 2));
    if (!last) return tl::unexpected(last.error());
    if (*last < *first) {
      return input_error(fmt::format("--bytes {}: the range ends before it begins", item),
                         fmt::format("{}..{}", item.substr(dots + 2), item.substr(0, dots)));
    }
    for (double size = *first; size <= *last; size *= 2) sizes.push_back(size);
  }
  return sizes;
}

Result<collective::Verb> verb_of(const Arguments& arguments) {
  if (arguments.words.size() != 1) {
    return input_error("collective takes one verb: all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, ...",
                       "twinpod collective all_reduce --on dgx-superpod-a100-140");
  }
  return collective::verb_named(arguments.words[0]);
}

// Ranks of a torus are a slice of it; elsewhere they are the first devices.
Result<GraphRequest> graph_for(const Arguments& arguments, int ranks, const sim::CollectiveGroups& groups) {
  const auto name = arguments.value("on");
  if (!name) return input_error("collective needs a cluster: --on CLUSTER", "--on dgx-superpod-a100-140");
  Result<GraphRequest> whole = read_graph_request(arguments, *name);
  const bool slice = whole && whole->cluster.scale_up == spec::ScaleUpKind::torus && ranks > 0 && groups.stride == 1 &&
                     groups.groups == 1 && ranks < whole->graph.num_devices() && !arguments.has("slice");
  return slice ? read_graph_request(arguments, *name, ranks) : std::move(whole);
}

Result<sim::CollectiveGroups> groups_of(const Arguments& arguments) {
  sim::CollectiveGroups groups;
  const Result<int> ranks = whole_number(arguments, "ranks", 1, 0);
  if (!ranks) return tl::unexpected(ranks.error());
  const Result<int> stride = whole_number(arguments, "stride", 1, 1);
  if (!stride) return tl::unexpected(stride.error());
  const Result<int> at_once = whole_number(arguments, "groups", 1, 1);
  if (!at_once) return tl::unexpected(at_once.error());
  groups.ranks = *ranks;
  groups.stride = *stride;
  groups.groups = *at_once;
  return groups;
}

Result<void> read_ends(const Arguments& arguments, CollectiveRequest& request) {
  for (const auto& [flag, value] : {std::pair{"root", &request.root}, std::pair{"peer", &request.peer}}) {
    const Result<int> rank = whole_number(arguments, flag, 0, *value);
    if (!rank) return tl::unexpected(rank.error());
    *value = *rank;
    if (*rank >= request.groups.ranks && (arguments.has(flag) || request.verb == collective::Verb::send)) {
      return input_error(fmt::format("--{} {}: ranks are 0 to {}", flag, *rank, request.groups.ranks - 1));
    }
  }
  return {};
}

Result<CollectiveRequest> request_of(const Arguments& arguments, const sim::CollectiveGroups& groups,
                                     const GraphRequest& on) {
  CollectiveRequest request;
  const Result<collective::Verb> verb = verb_of(arguments);
  if (!verb) return tl::unexpected(verb.error());
  request.verb = *verb;
  if (const auto name = arguments.value("algorithm")) {
    const Result<collective::Algorithm> algorithm = collective::algorithm_named(*name);
    if (!algorithm) return tl::unexpected(algorithm.error());
    request.algorithm = *algorithm;
  }
  request.groups = groups;
  const int room =
      on.graph.num_devices() / groups.stride / std::max(1, (groups.groups + groups.stride - 1) / groups.stride);
  if (groups.ranks == 0) request.groups.ranks = std::max(1, room);
  const Result<std::vector<double>> sizes = sizes_of(arguments.value_or("bytes", "8..8G"));
  if (!sizes) return tl::unexpected(sizes.error());
  request.bytes = *sizes;
  if (*verb == collective::Verb::barrier) request.bytes = {0};
  request.sharp = arguments.has("sharp");
  const Result<void> ends = read_ends(arguments, request);
  if (!ends) return tl::unexpected(ends.error());
  return request;
}

Result<collective::Schedule> schedule_of(const Arguments& arguments, CollectiveRequest& request) {
  const std::string file = *arguments.value("schedule");
  const Result<std::string> text = read_file(file, kMostTextBytes, "a schedule of MSCCL");
  if (!text) return tl::unexpected(text.error());
  Result<collective::Schedule> schedule = collective::from_msccl(*text, file);
  if (!schedule) return schedule;
  if (request.algorithm) return input_error("--schedule and --algorithm are two ways to do it", "choose one");
  if (schedule->verb != request.verb) {
    return input_error(fmt::format("{} is an {}, not an {}", file, name_of(schedule->verb), name_of(request.verb)),
                       fmt::format("twinpod collective {} --schedule {}", name_of(schedule->verb), shell_quoted(file)));
  }
  if (!arguments.has("ranks")) request.groups.ranks = schedule->ranks;
  if (schedule->ranks != request.groups.ranks) {
    return input_error(
        fmt::format("{} is for {}, not {}", file, counted(schedule->ranks, "rank"), request.groups.ranks),
        fmt::format("--ranks {}", schedule->ranks));
  }
  return schedule;
}

Result<void> export_schedule(const CollectiveRequest& request, const GraphRequest& on, const std::string& file) {
  if (!request.algorithm) return input_error("--export needs an algorithm", "--algorithm ring");
  constexpr int kMostRanks = 512;
  if (request.groups.ranks > kMostRanks) {
    return input_error(fmt::format("--export: a schedule of {}; at most {} are written",
                                   counted(request.groups.ranks, "rank"), kMostRanks),
                       "--ranks 64");
  }
  collective::Shape shape;
  shape.ranks_per_node = std::max(1, std::min(on.graph.scale_up.domain, request.groups.ranks));
  shape.torus = sim::torus_by_rank(on.graph);
  shape.root = request.root;
  const Result<collective::Schedule> schedule =
      collective::make_schedule(request.verb, *request.algorithm, request.groups.ranks, shape);
  if (!schedule) return tl::unexpected(schedule.error());
  const Result<std::string> xml = collective::to_msccl(
      *schedule, fmt::format("{}_{}_{}", name_of(request.verb), name_of(*request.algorithm), request.groups.ranks));
  if (!xml) return tl::unexpected(xml.error());
  return write_file(file, *xml);
}

Result<std::string> answer(const Arguments& arguments, const GraphRequest& on, CollectiveRequest& request) {
  const Result<cluster::CollectiveCatalog> catalog =
      cluster::read_collectives(catalog_of(arguments).folder() + "/collectives.yaml");
  if (!catalog) return tl::unexpected(catalog.error());
  const Result<cluster::Routing> routing = routing_of(on.graph, arguments);
  if (!routing) return tl::unexpected(routing.error());
  const cluster::CollectiveSystem system = cluster::system_of(*catalog, on.cluster);
  const auto start = std::chrono::steady_clock::now();
  const Result<sim::CollectiveTable> table =
      sim::collective_table({on.graph, on.before(), on.cluster, *routing}, system, request);
  if (!table) return tl::unexpected(table.error());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  report::CollectiveView view{on.cluster, on.graph, request, *table, on.faults, "", took.count()};
  for (const auto& [name, value] : cluster::kRoutingNames) {
    if (value == *routing) view.routing = name;
  }
  return arguments.has("json") ? report::collective_json(view) : report::collective_text(view);
}

Result<std::string> collective(const Arguments& arguments) {
  const Result<collective::Verb> verb = verb_of(arguments);  // first, because it is the first word
  if (!verb) return tl::unexpected(verb.error());
  Result<sim::CollectiveGroups> groups = groups_of(arguments);
  if (!groups) return tl::unexpected(groups.error());
  const Result<GraphRequest> on = graph_for(arguments, groups->ranks, *groups);
  if (!on) return tl::unexpected(on.error());
  Result<CollectiveRequest> request = request_of(arguments, *groups, *on);
  if (!request) return tl::unexpected(request.error());
  Result<collective::Schedule> schedule = collective::Schedule{};
  if (arguments.has("schedule")) {
    schedule = schedule_of(arguments, *request);
    if (!schedule) return tl::unexpected(schedule.error());
    request->schedule = &*schedule;
  }
  if (const auto file = arguments.value("export")) {
    const Result<void> written = export_schedule(*request, *on, *file);
    if (!written) return tl::unexpected(written.error());
  }
  return answer(arguments, *on, *request);
}

}  // namespace

const Command kCollective = {
    "collective",
    "VERB --on CLUSTER [flags]",
    "how long a collective takes on a cluster: a table as nccl-tests prints it, predicted",
    "twinpod collective all_reduce --bytes 8..8G --ranks 1120 --on dgx-superpod-a100-140\n"
    "twinpod collective all_reduce --ranks 140 --stride 8 --groups 8 --on dgx-superpod-a100-140\n"
    "twinpod collective all_to_all --on tpu-v4-4096 --slice 4x4x4 --bytes 64M "
    "--cut 'chip(0,0,0)-chip(0,0,1)'\n"
    "twinpod collective all_reduce --on dgx-a100 --schedule ring8.xml\n",
    kFlagsOfCollective,
    collective};

}  // namespace twinpod::cli
