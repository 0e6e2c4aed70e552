// twinpod topology: a cluster as a graph, counted and drawn.
#include <fmt/format.h>

#include <array>

#include "cli/command.hpp"
#include "cli/graph_request.hpp"
#include "cluster/measure.hpp"
#include "core/files.hpp"
#include "report/topology_report.hpp"

namespace twinpod::cli {
namespace {

using cluster::Graph;
using cluster::Routing;

constexpr std::array kFlagsOfTopology = {
    Flag{"svg", "FILE", "draw it", ""},
    kSliceFlag,
    kDevicesFlag,
    kCutFlag,
    kSlowFlag,
    Flag{"routes", "FROM,TO", "the route between two devices, by number or name", ""},
    kRoutingFlag,
};

Result<int> device_called(const Graph& graph, const std::string& text) {
  const bool is_number = !text.empty() && text.size() < 9 && text.find_first_not_of("0123456789") == std::string::npos;
  const int number = is_number ? std::stoi(text) : -1;
  if (number >= 0 && number < graph.num_devices()) return number;
  const int vertex = cluster::find_vertex(graph, text);
  for (int d = 0; d < graph.num_devices(); ++d) {
    if (graph.devices[static_cast<std::size_t>(d)] == vertex && vertex >= 0) return d;
  }
  return input_error(fmt::format("`{}` is no device", text),
                     fmt::format("devices are 0 to {}, or {} to {}", graph.num_devices() - 1,
                                 cluster::vertex_name(graph, graph.devices.front()),
                                 cluster::vertex_name(graph, graph.devices.back())));
}

Result<std::vector<report::RouteView>> routes_of(const Graph& graph, const Arguments& arguments) {
  constexpr int kCounted = 64;
  std::vector<report::RouteView> routes;
  const Result<Routing> routing = routing_of(graph, arguments);
  if (!routing) return tl::unexpected(routing.error());
  const auto asked = arguments.value("routes");
  if (!asked) return routes;
  const std::vector<std::string> ends = split_outside_brackets(*asked);
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

Result<std::string> topology(const Arguments& arguments) {
  if (arguments.words.size() != 1) {
    return input_error("topology takes one cluster", "twinpod topology dgx-superpod-a100-140");
  }
  Result<GraphRequest> request = read_graph_request(arguments, arguments.words[0]);
  if (!request) return tl::unexpected(request.error());
  Result<std::vector<report::RouteView>> routes = routes_of(request->graph, arguments);
  if (!routes) return tl::unexpected(routes.error());
  const cluster::Measures measures = cluster::measure(request->graph);
  const report::TopologyView view{request->cluster, request->graph, measures, request->faults, std::move(*routes)};
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
                           kFlagsOfTopology,
                           topology};

}  // namespace twinpod::cli
