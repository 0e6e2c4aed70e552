// Dragonfly: groups of routers, every pair of routers of a group joined, every pair of groups joined by some global
// links (Kim et al., ISCA 2008). Balanced when a group has 2p routers with p NICs and p global links each.
#include <fmt/format.h>

#include <algorithm>

#include "cluster/topology_parts.hpp"

namespace twinpod::cluster {
namespace {

struct Sizes {
  int terminals = 0;  // NICs of a router
  int routers = 0;    // of a group
  int groups = 0;
  int radix = 0;
};

Sizes sizes_of(const Machine& machine) {
  const spec::Topology& topology = machine.cluster.topology;
  Sizes sizes;
  sizes.radix = topology.radix > 0 ? topology.radix : kDefaultRadix;
  sizes.terminals = topology.terminals > 0 ? topology.terminals : std::max(1, (sizes.radix + 1) / 4);
  sizes.routers = topology.routers > 0 ? topology.routers : 2 * sizes.terminals;
  const long long nics = static_cast<long long>(machine.nodes) * machine.nics;
  const long long of_group = static_cast<long long>(sizes.terminals) * sizes.routers;
  sizes.groups = static_cast<int>((nics + of_group - 1) / of_group);
  return sizes;
}

void join_routers(const Machine& machine, const Sizes& sizes, Graph& graph) {
  DragonflyRoutes& fly = graph.dragonfly;
  const int tier = cable_tier(graph, "local");
  const double hop = machine.cluster.topology.switch_latency_s;
  fly.local.assign(static_cast<std::size_t>(sizes.groups) * sizes.routers * sizes.routers, -1);
  for (int g = 0; g < sizes.groups; ++g) {
    for (int i = 0; i < sizes.routers; ++i) {
      for (int j = i + 1; j < sizes.routers; ++j) {
        const int a = g * sizes.routers + i;
        const int b = g * sizes.routers + j;
        const int link =
            add_cable(graph, fly.first_vertex + a, fly.first_vertex + b, tier, machine.nic_bytes_per_s, hop);
        fly.local[static_cast<std::size_t>(a) * sizes.routers + j] = link;
        fly.local[static_cast<std::size_t>(b) * sizes.routers + i] = link + 1;
      }
    }
  }
}

// Link k of group g to group h leaves from the router whose turn it is; the same holds at the other end.
int router_of(const Sizes& sizes, int g, int h, int k, int per_pair) {
  const int turn = h < g ? h : h - 1;
  return g * sizes.routers + (turn * per_pair + k) % sizes.routers;
}

void join_groups(const Machine& machine, const Sizes& sizes, Graph& graph) {
  DragonflyRoutes& fly = graph.dragonfly;
  const int tier = cable_tier(graph, "global");
  const double hop = machine.cluster.topology.switch_latency_s;
  fly.global.assign(static_cast<std::size_t>(sizes.groups) * sizes.groups * fly.per_pair, -1);
  for (int g = 0; g < sizes.groups; ++g) {
    for (int h = g + 1; h < sizes.groups; ++h) {
      for (int k = 0; k < fly.per_pair; ++k) {
        const int a = router_of(sizes, g, h, k, fly.per_pair);
        const int b = router_of(sizes, h, g, k, fly.per_pair);
        const int link =
            add_cable(graph, fly.first_vertex + a, fly.first_vertex + b, tier, machine.nic_bytes_per_s, hop);
        fly.global[(static_cast<std::size_t>(g) * sizes.groups + h) * fly.per_pair + k] = link;
        fly.global[(static_cast<std::size_t>(h) * sizes.groups + g) * fly.per_pair + k] = link + 1;
      }
    }
  }
}

}  // namespace

Result<void> add_dragonfly(const Machine& machine, Graph& graph) {
  const Sizes sizes = sizes_of(machine);
  DragonflyRoutes& fly = graph.dragonfly;
  fly.routers = sizes.routers;
  fly.groups = sizes.groups;
  fly.per_pair = machine.cluster.topology.global_links;
  fly.first_vertex = static_cast<int>(graph.vertices.size());
  const int tier = vertex_tier(graph, "router");
  for (int r = 0; r < sizes.groups * sizes.routers; ++r) add_vertex(graph, {tier, -1, r, sizes.radix, 1});
  const int cables = cable_tier(graph, "node_router");
  const double latency = nic_latency_s(machine.cluster, 4);
  for (std::size_t n = 0; n < graph.host.nic_link.size(); ++n) {
    const int router = static_cast<int>(n) / sizes.terminals;
    graph.host.first_port.push_back(static_cast<int>(n));
    const int link = add_cable(graph, graph.links[graph.host.nic_link[n]].to, fly.first_vertex + router, cables,
                               machine.nic_bytes_per_s, latency);
    graph.links[link + 1].latency_s = machine.cluster.topology.switch_latency_s;
    graph.host.ports.push_back({link, router, static_cast<int>(n) % sizes.terminals});
  }
  graph.host.first_port.push_back(static_cast<int>(graph.host.ports.size()));
  join_routers(machine, sizes, graph);
  join_groups(machine, sizes, graph);
  graph.fabric = fmt::format("dragonfly of {} groups, {} routers a group, {} NICs a router", sizes.groups,
                             sizes.routers, sizes.terminals);
  return {};
}

}  // namespace twinpod::cluster
