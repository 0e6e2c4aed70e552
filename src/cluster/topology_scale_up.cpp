// Scale-up domains made of switch chips or of direct links.
//
// DGX A100, H100, B200: every device has links to every chip of its node. DGX-2: two boards, chip i of one joined to
// chip i of the other. NVL72: one domain of 18 trays. CloudMatrix384: seven chips in a node, 112 above them. DGX-1: the
// hybrid cube mesh. MI300X, Gaudi, Ascend 910B: every pair of devices has a link of its own.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cluster/topology_parts.hpp"

namespace twinpod::cluster {
namespace {

using spec::NodeTopology;

std::vector<int> links_to_chips(const NodeTopology& topology) {
  return topology.switch_links.empty() ? std::vector<int>{1} : topology.switch_links;
}

// The chips of the first level: one vertex for those of a board.
struct FirstLevel {
  int vertices = 0;      // in a domain
  int devices = 0;       // of one vertex
  int chips = 0;         // of one vertex
  int device_links = 0;  // of one device
};

FirstLevel first_level(const Machine& machine) {
  const NodeTopology& topology = machine.cluster.node_topology;
  const std::vector<int> links = links_to_chips(topology);
  FirstLevel level;
  level.chips = static_cast<int>(links.size());
  level.device_links = std::accumulate(links.begin(), links.end(), 0);
  const int joined = topology.upper_switches > 0 ? machine.cluster.devices_per_node : machine.domain;
  level.devices = std::max(1, joined / topology.boards);
  level.vertices = (machine.domain + level.devices - 1) / level.devices;
  return level;
}

Result<void> check_chips(const Machine& machine, const FirstLevel& level) {
  const NodeTopology& topology = machine.cluster.node_topology;
  const std::vector<int> links = links_to_chips(topology);
  const int most =
      *std::max_element(links.begin(), links.end()) * level.devices + topology.board_links + topology.upper_links;
  if (topology.switch_radix == 0 || most <= topology.switch_radix) return {};
  return input_error(fmt::format("a scale-up switch would need {} ports, but has {}", most, topology.switch_radix),
                     "give switch_links for more chips, or fewer devices in a domain");
}

void join_boards(const Machine& machine, const FirstLevel& level, int first, Graph& graph) {
  const NodeTopology& topology = machine.cluster.node_topology;
  const double per_link = machine.cluster.scale_up_bytes_per_s / level.device_links;
  const int cables = level.chips * topology.board_links;
  const int tier = cable_tier(graph, "nvswitch_nvswitch");
  const int link = add_cable(graph, first, first + 1, tier, per_link * cables, kSwitchedLinkLatency, cables);
  graph.scale_up.trunk.push_back(link);
  graph.scale_up.trunk.push_back(link + 1);
}

void join_by_upper(const Machine& machine, const FirstLevel& level, int first, int upper, Graph& graph) {
  const NodeTopology& topology = machine.cluster.node_topology;
  const int cables = level.chips * topology.upper_links;
  const int tier = cable_tier(graph, "l1_l2");
  for (int v = 0; v < level.vertices; ++v) {
    graph.scale_up.trunk.push_back(
        add_cable(graph, first + v, upper, tier, cables * topology.upper_bytes_per_s, kSwitchedLinkLatency, cables));
  }
}

// Ways of as few links as possible from a device to all others; ways[d] is empty for those it cannot reach.
std::vector<std::vector<std::vector<int>>> shortest_ways(const std::vector<std::vector<int>>& link_of, int from) {
  constexpr std::size_t kMostWays = 16;
  const std::size_t count = link_of.size();
  std::vector<std::vector<std::vector<int>>> ways(count);
  std::vector<int> front = {from};
  std::vector<char> done(count, 0);
  done[from] = 1;
  ways[from] = {{}};
  while (!front.empty()) {
    std::vector<int> next;
    for (const int at : front) {
      for (std::size_t to = 0; to < count; ++to) {
        if (link_of[at][to] < 0 || done[to] != 0) continue;
        if (ways[to].empty()) next.push_back(static_cast<int>(to));
        for (const std::vector<int>& way : ways[at]) {
          if (ways[to].size() >= kMostWays) break;
          ways[to].push_back(way);
          ways[to].back().push_back(link_of[at][to]);
        }
      }
    }
    for (const int device : next) done[device] = 1;
    front = std::move(next);
  }
  ways[from].clear();
  return ways;
}

std::vector<std::vector<int>> mesh_matrix(const Machine& machine) {
  const NodeTopology& topology = machine.cluster.node_topology;
  const auto count = static_cast<std::size_t>(machine.domain);
  if (topology.mesh_links.size() == count) return topology.mesh_links;
  std::vector<std::vector<int>> links(count, std::vector<int>(count, topology.links_per_pair));
  for (std::size_t i = 0; i < count; ++i) links[i][i] = 0;
  return links;
}

}  // namespace

Result<void> add_switched(const Machine& machine, Graph& graph) {
  const spec::Cluster& cluster = machine.cluster;
  const NodeTopology& topology = cluster.node_topology;
  const FirstLevel level = first_level(machine);
  if (Result<void> right = check_chips(machine, level); !right) return right;
  const bool upper = topology.upper_switches > 0;
  const int tier = vertex_tier(graph, upper ? "l1" : "nvswitch");
  const int cables = cable_tier(graph, upper ? "device_l1" : "device_nvswitch");
  graph.scale_up.first_switch = static_cast<int>(graph.vertices.size());
  graph.scale_up.up.resize(static_cast<std::size_t>(machine.devices));
  for (int d = 0; d < machine.domains; ++d) {
    for (int v = 0; v < level.vertices; ++v) {
      const int place = upper ? d * level.vertices + v : d;
      add_vertex(graph, {tier, place, upper ? 0 : v, topology.switch_radix, level.chips});
    }
  }
  for (int device = 0; device < machine.devices; ++device) {
    const int chip = device / machine.domain * level.vertices + device % machine.domain / level.devices;
    graph.scale_up.up[static_cast<std::size_t>(device)] =
        add_cable(graph, device, graph.scale_up.first_switch + chip, cables, cluster.scale_up_bytes_per_s,
                  kSwitchedLinkLatency, level.device_links);
  }
  const int upper_tier = upper ? vertex_tier(graph, "l2") : 0;
  for (int d = 0; d < machine.domains && level.vertices > 1; ++d) {
    const int first = graph.scale_up.first_switch + d * level.vertices;
    if (upper) {
      const int vertex = add_vertex(graph, {upper_tier, -1, d, topology.upper_radix, topology.upper_switches});
      join_by_upper(machine, level, first, vertex, graph);
    } else if (level.vertices == 2) {
      join_boards(machine, level, first, graph);
    } else {
      return input_error(fmt::format("{} boards of switches in a domain; expected 1 or 2", level.vertices));
    }
  }
  return {};
}

Result<void> add_mesh(const Machine& machine, Graph& graph) {
  const std::vector<std::vector<int>> links = mesh_matrix(machine);
  const auto count = static_cast<std::size_t>(machine.domain);
  const int most = std::accumulate(links[0].begin(), links[0].end(), 0);
  if (most == 0) return input_error("the first device of the mesh has no links");
  const double per_link = machine.cluster.scale_up_bytes_per_s / most;
  const int tier = cable_tier(graph, "device_device");
  std::vector<std::vector<int>> link_of(count, std::vector<int>(count, -1));
  for (int d = 0; d < machine.domains; ++d) {
    const int first = static_cast<int>(graph.links.size());
    graph.scale_up.first_link.push_back(first);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = i + 1; j < count; ++j) {
        if (links[i][j] == 0) continue;
        const int from = d * machine.domain;
        const int link = add_cable(graph, from + static_cast<int>(i), from + static_cast<int>(j), tier,
                                   per_link * links[i][j], kSwitchedLinkLatency, links[i][j]);
        link_of[i][j] = link - first;
        link_of[j][i] = link - first + 1;
      }
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (auto& ways : shortest_ways(link_of, static_cast<int>(i))) graph.scale_up.paths.push_back(std::move(ways));
  }
  return {};
}

}  // namespace twinpod::cluster
