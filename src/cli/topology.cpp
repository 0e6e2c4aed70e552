// twinpod topology: a cluster as a graph, counted and drawn.
#include "cluster/topology.hpp"

#include <fmt/format.h>

#include <array>

#include "cli/command.hpp"
#include "cluster/measure.hpp"
#include "cluster/nccl_topology_xml.hpp"
#include "cluster/route.hpp"
#include "core/files.hpp"
#include "core/nearest.hpp"
#include "core/units.hpp"
#include "report/topology_report.hpp"
#include "spec/read.hpp"

namespace twinpod::cli {
namespace {

using cluster::Graph;
using cluster::Routing;

constexpr std::array kFlags = {
    Flag{"svg", "FILE", "draw it", ""},
    Flag{"slice", "AxBxC", "a part of a torus: 4x4x8, 4x4x8_twisted", ""},
    Flag{"devices", "N", "the same kind of machine with so many devices", ""},
    Flag{"cut", "LINK", "cut cables: leaf3-spine2, or one of them: leaf3-spine2:0; with commas between them", ""},
    Flag{"slow", "LINK=FACTOR", "slow cables down: leaf3-spine2=0.5; with commas between them", ""},
    Flag{"routes", "FROM,TO", "the route between two devices, by number or name", ""},
    Flag{"routing", "NAME", "ecmp, rail, adaptive or dimension_order (default: what the machine would do)", ""},
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;  // a comma inside chip(1,2,3) is part of the name
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// A name of the catalog or the path of a file.
Result<spec::Cluster> cluster_of(const Arguments& arguments) {
  if (arguments.words.size() != 1) {
    return input_error("topology takes one cluster", "twinpod topology dgx-superpod-a100-140");
  }
  spec::Node node;
  node.kind = spec::Node::Kind::scalar;
  node.scalar = arguments.words[0];
  Result<spec::Cluster> cluster = spec::read_cluster(node, "", catalog_of(arguments));
  if (!cluster) return cluster;
  if (const auto slice = arguments.value("slice")) {
    const Result<void> applied = cluster::apply_slice(*cluster, *slice);
    if (!applied) return tl::unexpected(applied.error());
  }
  if (arguments.has("devices")) {
    const Result<int> devices = whole_number(arguments, "devices", 1, 0);
    if (!devices) return tl::unexpected(devices.error());
    const Result<void> applied = cluster::apply_devices(*cluster, *devices);
    if (!applied) return tl::unexpected(applied.error());
  }
  return cluster;
}

Result<void> cut(Graph& graph, const std::string& names, std::vector<std::string>& faults) {
  for (const std::string& name : split(names)) {
    const Result<std::vector<int>> links = cluster::find_links(graph, name);
    if (!links) return tl::unexpected(links.error());
    cluster::cut_links(graph, *links);
    faults.push_back(fmt::format("{} cut, {} cable{}", name, links->size() / 2, links->size() == 2 ? "" : "s"));
  }
  return cluster::check_connected(graph);
}

Result<void> slow(Graph& graph, const std::string& names, std::vector<std::string>& faults) {
  for (const std::string& item : split(names)) {
    const std::size_t sign = item.rfind('=');
    const Result<double> factor =
        parse_quantity(sign == std::string::npos ? "" : item.substr(sign + 1), Quantity::number);
    if (!factor || *factor <= 0 || *factor > 1) {
      return input_error(fmt::format("--slow {}: expected a link and a factor above 0 and up to 1", item),
                         "--slow leaf3-spine2=0.5");
    }
    const Result<std::vector<int>> links = cluster::find_links(graph, item.substr(0, sign));
    if (!links) return tl::unexpected(links.error());
    cluster::slow_links(graph, *links, *factor);
    faults.push_back(fmt::format("{} at {:.3g} of its rate", item.substr(0, sign), *factor));
  }
  return {};
}

Result<int> device_called(const Graph& graph, const std::string& text) {
  const bool is_number = !text.empty() && text.size() < 9 && text.find_first_not_of("0123456789") == std::string::npos;
  const int number = is_number ? std::stoi(text) : -1;
  if (number >= 0 && number < graph.num_devices()) return number;
  const int vertex = cluster::find_vertex(graph, text);
  for (int d = 0; d < graph.num_devices(); ++d) {
    if (graph.devices[d] == vertex && vertex >= 0) return d;
  }
  return input_error(fmt::format("`{}` is no device", text),
                     fmt::format("devices are 0 to {}, or {} to {}", graph.num_devices() - 1,
                                 cluster::vertex_name(graph, graph.devices.front()),
                                 cluster::vertex_name(graph, graph.devices.back())));
}

Result<Routing> routing_of(const Graph& graph, const Arguments& arguments) {
  const std::string asked = arguments.value_or("routing", "");
  if (asked.empty()) return cluster::usual_routing(graph);
  std::vector<std::string> known;
  for (const auto& [name, routing] : cluster::kRoutingNames) {
    if (name == asked) return routing;
    known.emplace_back(name);
  }
  return input_error(fmt::format("--routing {}: expected ecmp, rail, adaptive or dimension_order", asked),
                     nearest_name(asked, known));
}

Result<std::vector<report::RouteView>> routes_of(const Graph& graph, const Arguments& arguments) {
  constexpr int kCounted = 64;
  std::vector<report::RouteView> routes;
  const Result<Routing> routing = routing_of(graph, arguments);
  if (!routing) return tl::unexpected(routing.error());
  const auto asked = arguments.value("routes");
  if (!asked) return routes;
  const std::vector<std::string> ends = split(*asked);
  if (ends.size() != 2) return input_error(fmt::format("--routes {}: expected two devices: 0,17", *asked));
  report::RouteView view;
  for (int* end : {&view.from, &view.to}) {
    const Result<int> device = device_called(graph, ends[end == &view.to ? 1 : 0]);
    if (!device) return tl::unexpected(device.error());
    *end = *device;
  }
  for (const auto& [name, value] : cluster::kRoutingNames) {
    if (value == *routing) view.routing = name;
  }
  view.links = cluster::route(graph, view.from, view.to, *routing);
  view.equal = static_cast<int>(cluster::equal_routes(graph, view.from, view.to, kCounted).size());
  view.more = view.equal == kCounted;
  routes.push_back(std::move(view));
  return routes;
}

// What an NCCL topology file describes has no entry in the catalog.
spec::Cluster described(const std::string& path, const Graph& graph) {
  spec::Cluster cluster;
  cluster.name = path;
  cluster.devices = graph.num_devices();
  cluster.devices_per_node = graph.num_devices();
  return cluster;
}

Result<std::string> topology(const Arguments& arguments) {
  const bool xml = arguments.words.size() == 1 && arguments.words[0].ends_with(".xml");
  Result<spec::Cluster> cluster = spec::Cluster{};
  if (!xml) cluster = cluster_of(arguments);
  if (!cluster) return tl::unexpected(cluster.error());
  Result<Graph> graph = xml ? cluster::read_nccl_topology(arguments.words[0]) : cluster::build_graph(*cluster);
  if (!graph) return tl::unexpected(graph.error());
  if (xml) *cluster = described(arguments.words[0], *graph);

  std::vector<std::string> faults;
  if (const auto links = arguments.value("slow")) {
    const Result<void> done = slow(*graph, *links, faults);
    if (!done) return tl::unexpected(done.error());
  }
  if (const auto links = arguments.value("cut")) {
    const Result<void> done = cut(*graph, *links, faults);
    if (!done) return tl::unexpected(done.error());
  }
  Result<std::vector<report::RouteView>> routes = routes_of(*graph, arguments);
  if (!routes) return tl::unexpected(routes.error());
  const cluster::Measures measures = cluster::measure(*graph);
  const report::TopologyView view{*cluster, *graph, measures, faults, std::move(*routes)};
  if (const auto file = arguments.value("svg")) {
    const Result<void> written = write_file(*file, report::topology_svg(view));
    if (!written) return tl::unexpected(written.error());
  }
  return arguments.has("json") ? report::topology_json(view) : report::topology_text(view);
}

}  // namespace

const Command kTopology = {"topology",
                           "CLUSTER|SYSTEM.xml [flags]",
                           "switches, cables, bisection and routes of a cluster, and a picture of it",
                           "twinpod topology dgx-superpod-a100-140 --svg fabric.svg\n"
                           "twinpod topology tpu-v4-4096 --slice 4x4x8_twisted --json\n"
                           "twinpod topology h100-superpod --devices 4096 --routes 0,4095\n"
                           "twinpod topology dgx-superpod-a100-140 --cut leaf3-spine30 --routes gpu3,gpu203\n",
                           kFlags,
                           topology};

}  // namespace twinpod::cli
