// The load of an all-to-all on each link.
#include <fmt/format.h>

#include <algorithm>

#include "sim/pair_bundles.hpp"

namespace twinpod::sim {
namespace {

using cluster::Graph;
using cluster::Routing;

constexpr double kMostRoutes = 7e7;  // about ten seconds

// A pair takes all ways out of its devices. Where pairs are many, each takes one of them, in turn.
void add_every_pair(const Graph& graph, const CollectiveGroups& groups, Routing routing, Loads& loads) {
  constexpr double kManyPairs = 1e6;
  const double pairs = double(groups.groups) * groups.ranks * groups.ranks;
  const int nic_ports = pairs < kManyPairs ? cluster::nic_ports_of_device(graph) : 1;
  for (int g = 0; g < groups.groups; ++g) {
    for (int i = 0; i < groups.ranks; ++i) {
      for (int j = 0; j < groups.ranks; ++j) {
        const int from = groups.device(g, i);
        const int to = groups.device(g, j);
        if (i != j)
          add_route(graph, from, to, routing, loads, domain_of(graph, from) == domain_of(graph, to) ? 1 : nic_ports);
      }
    }
  }
}

PairLoad busiest(const Graph& graph, const Loads& loads) {
  PairLoad load;
  for (std::size_t l = 0; l < loads.bytes.size(); ++l) {
    if (loads.bytes[l] <= 0) continue;
    const double seconds = loads.bytes[l] / graph.links[l].bytes_per_s;
    if (seconds > load.seconds) load = {seconds, static_cast<int>(l)};
  }
  return load;
}

}  // namespace

void add_route(const Graph& graph, int from, int to, Routing routing, Loads& loads, int nic_ports) {
  for (int nic_port = 0; nic_port < nic_ports; ++nic_port) {
    loads.path.clear();
    cluster::append_route(graph, from, to, routing, static_cast<std::uint64_t>(nic_port), loads.path);
    for (const int link : loads.path) loads.bytes[static_cast<std::size_t>(link)] += 1.0 / nic_ports;
  }
}

// A torus that looks the same from every device: the links of an axis in one direction carry what all routes of the
// first device take of them together, whatever the order of the axes.
void add_torus_domain(const Graph& graph, int first, Routing routing, const std::vector<int>& kinds, Loads& loads) {
  const cluster::ScaleUpRoutes& torus = graph.scale_up;
  const std::size_t axes = torus.shape.size();
  // Equally near ways through a twisted torus differ in their axes: flows take all of them.
  const int salts = torus.twisted ? 8 : 1;
  std::vector<double> of_kind(2 * axes);
  for (int other = 1; other < torus.domain; ++other) {
    for (int salt = 0; salt < salts; ++salt) {
      loads.path.clear();
      const Routing order = torus.twisted ? Routing::ecmp : routing;
      cluster::append_route(graph, first, first + other, order, static_cast<std::uint64_t>(salt), loads.path);
      for (const int link : loads.path) {
        of_kind[static_cast<std::size_t>(kinds[static_cast<std::size_t>(link)])] += 1.0 / salts;
      }
    }
  }
  // Half round a ring is as far one way as the other; devices take turns, so that both directions carry the same.
  for (std::size_t k = 0; k < of_kind.size(); k += 2) of_kind[k] = of_kind[k + 1] = (of_kind[k] + of_kind[k + 1]) / 2;
  const std::size_t begin = static_cast<std::size_t>(first) * axes;
  for (std::size_t i = 0; i < static_cast<std::size_t>(torus.domain) * axes; ++i) {
    const auto link = static_cast<std::size_t>(torus.plus[begin + i]);
    loads.bytes[link] += of_kind[static_cast<std::size_t>(kinds[link])];
    loads.bytes[link ^ 1] += of_kind[static_cast<std::size_t>(kinds[link ^ 1])];
  }
}

bool has_uniform_tori(const Graph& graph) {
  const cluster::ScaleUpRoutes& torus = graph.scale_up;
  const bool wraps = std::all_of(torus.wraps.begin(), torus.wraps.end(), [](bool wrap) { return wrap; });
  if (torus.kind != spec::ScaleUpKind::torus || !wraps || graph.num_cut > 0) return false;
  const std::size_t axes = torus.shape.size();
  for (std::size_t i = 0; i < torus.plus.size(); ++i) {  // none is slower than the others of its axis
    const double rate = graph.links[static_cast<std::size_t>(torus.plus[i])].bytes_per_s;
    if (rate != graph.links[static_cast<std::size_t>(torus.plus[i % axes])].bytes_per_s) return false;
    if (rate != graph.links[static_cast<std::size_t>(torus.plus[i] ^ 1)].bytes_per_s) return false;
  }
  return true;
}

bool is_uniform_torus(const Graph& graph, const CollectiveGroups& groups) {
  const bool whole = groups.ranks == graph.num_devices() && groups.groups == 1 && graph.scale_up.domain == groups.ranks;
  return whole && has_uniform_tori(graph);
}

std::vector<int> torus_link_kinds(const Graph& graph) {
  const std::size_t axes = graph.scale_up.shape.size();
  std::vector<int> kinds(graph.links.size(), -1);
  for (std::size_t i = 0; i < graph.scale_up.plus.size(); ++i) {
    const auto link = static_cast<std::size_t>(graph.scale_up.plus[i]);
    kinds[link] = static_cast<int>(2 * (i % axes));
    kinds[link ^ 1] = static_cast<int>(2 * (i % axes) + 1);
  }
  return kinds;
}

Result<PairLoad> pair_load(const Graph& graph, const CollectiveGroups& groups, Routing routing, int every_pair_ranks) {
  Loads loads;
  loads.bytes.resize(graph.links.size());
  const double pairs = double(groups.groups) * groups.ranks * (groups.ranks - 1);
  double routes = pairs;  // one by one
  const bool has_fabric = graph.kind == cluster::GraphKind::nodes && !graph.host.ports.empty();
  if (every_pair_ranks < 0) every_pair_ranks = is_fixed(graph, routing) && graph.num_cut == 0 ? 256 : 1024;
  if (is_uniform_torus(graph, groups)) {
    add_torus_domain(graph, 0, routing, torus_link_kinds(graph), loads);
    return busiest(graph, loads);
  }
  if (pairs > double(every_pair_ranks) * every_pair_ranks && has_fabric) {
    routes = routes_near_cuts(graph, groups);
    if (routes <= kMostRoutes) {
      add_bundles(graph, groups, routing, loads);
      return busiest(graph, loads);
    }
  } else if (pairs <= kMostRoutes) {
    add_every_pair(graph, groups, routing, loads);
    return busiest(graph, loads);
  }
  return infeasible(fmt::format("an all_to_all of {} group{} of {} ranks has {:.3g} routes, at most {:.3g} can be "
                                "looked at one by one",
                                groups.groups, groups.groups == 1 ? "" : "s", groups.ranks, routes, kMostRoutes),
                    "take fewer ranks, or nothing cut inside a node");
}

}  // namespace twinpod::sim
