// The load of an all-to-all on each link.
#include <fmt/format.h>

#include <algorithm>

#include "sim/network_share.hpp"

namespace twinpod::sim {
namespace {

using cluster::Graph;
using cluster::Routing;

constexpr double kMostRoutes = 7e7;  // about ten seconds

struct Loads {
  std::vector<double> bytes;  // of each link
  std::vector<int> path;      // scratch
};

void add_route(const Graph& graph, int from, int to, Routing routing, Loads& loads) {
  loads.path.clear();
  cluster::append_route(graph, from, to, routing, 0, loads.path);
  for (const int link : loads.path) loads.bytes[static_cast<std::size_t>(link)] += 1;
}

void add_every_pair(const Graph& graph, const CollectiveGroups& groups, Routing routing, Loads& loads) {
  for (int g = 0; g < groups.groups; ++g) {
    for (int i = 0; i < groups.ranks; ++i) {
      for (int j = 0; j < groups.ranks; ++j) {
        if (i != j) add_route(graph, groups.device(g, i), groups.device(g, j), routing, loads);
      }
    }
  }
}

// The links of an axis in one direction carry what all routes of the first device take of them together.
void add_whole_torus(const Graph& graph, const CollectiveGroups& groups, Loads& loads) {
  const std::vector<int> kind = torus_link_kinds(graph);
  std::vector<double> of_kind(2 * graph.scale_up.shape.size());
  for (int rank = 1; rank < groups.ranks; ++rank) {
    loads.path.clear();
    cluster::append_route(graph, 0, rank, Routing::dimension_order, 0, loads.path);
    for (const int link : loads.path) of_kind[static_cast<std::size_t>(kind[static_cast<std::size_t>(link)])] += 1;
  }
  // Half round a ring is as far one way as the other; devices take turns, so that both directions carry the same.
  for (std::size_t k = 0; k < of_kind.size(); k += 2) of_kind[k] = of_kind[k + 1] = (of_kind[k] + of_kind[k + 1]) / 2;
  for (std::size_t l = 0; l < kind.size(); ++l) {
    if (kind[l] >= 0) loads.bytes[l] += of_kind[static_cast<std::size_t>(kind[l])];
  }
}

// Sources whose routes enter the fabric at the same switch share the way from there to a device. So a route is needed
// from one source of each switch to each device, and for the part before the switch from each source to each place,
// because the way into the fabric depends on nothing else of the receiver.
struct Entrance {
  struct OfDomain {
    int domain = 0;
    int sources = 0;
    int device = 0;  // one of them
  };
  int vertex = -1;  // the switch
  double sources = 0;
  std::vector<OfDomain> domains;
};

struct Bundles {
  int domain = 1;
  int period = 1;  // devices this far apart are at the same place
  int first_switch = 0;
  std::vector<std::vector<Entrance>> of_place;
};

Bundles bundles_of(const Graph& graph) {
  const cluster::HostRoutes& host = graph.host;
  const int nics = std::max(1, host.nics_per_node / host.devices_per_node);
  const int ports = std::max(1, static_cast<int>(host.ports.size() / std::max<std::size_t>(1, host.nic_link.size())));
  Bundles bundles;
  bundles.domain = std::max(1, graph.scale_up.domain);
  bundles.period = std::max(bundles.domain, host.devices_per_node) * ports * nics;
  bundles.first_switch = std::max(graph.tree.first_vertex, graph.dragonfly.first_vertex);
  bundles.of_place.resize(static_cast<std::size_t>(bundles.period));
  return bundles;
}

std::size_t fabric_begin(const Graph& graph, const Bundles& bundles, const std::vector<int>& path) {
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (graph.links[static_cast<std::size_t>(path[i])].to >= bundles.first_switch) return i + 1;
  }
  return path.size();
}

// The way of one source into the fabric, for all receivers at a place, of which `to` is one.
void add_entrance(const Graph& graph, Bundles& bundles, int from, int to, double receivers, Loads& loads) {
  loads.path.clear();
  cluster::append_route(graph, from, to, Routing::rail, 0, loads.path);
  const std::size_t begin = fabric_begin(graph, bundles, loads.path);
  for (std::size_t i = 0; i < begin; ++i) loads.bytes[static_cast<std::size_t>(loads.path[i])] += receivers;
  if (begin == loads.path.size()) return;
  const int vertex = graph.links[static_cast<std::size_t>(loads.path[begin])].from;
  std::vector<Entrance>& entrances = bundles.of_place[static_cast<std::size_t>(to % bundles.period)];
  auto found = std::find_if(entrances.begin(), entrances.end(), [&](const auto& e) { return e.vertex == vertex; });
  if (found == entrances.end()) found = entrances.insert(entrances.end(), Entrance{vertex, 0, {}});
  const int domain = from / bundles.domain;
  if (found->domains.empty() || found->domains.back().domain != domain) found->domains.push_back({domain, 0, from});
  found->sources += 1;
  found->domains.back().sources += 1;
}

// From each switch to one device; sources of its own domain reach it inside.
void add_ways_to(const Graph& graph, const Bundles& bundles, int to, Loads& loads) {
  const int domain = to / bundles.domain;
  for (const Entrance& entrance : bundles.of_place[static_cast<std::size_t>(to % bundles.period)]) {
    double sources = entrance.sources;
    int from = -1;
    for (const Entrance::OfDomain& of : entrance.domains) {
      if (of.domain == domain) sources -= of.sources;
      if (of.domain != domain && from < 0) from = of.device;
    }
    if (from < 0) continue;
    loads.path.clear();
    cluster::append_route(graph, from, to, Routing::rail, 0, loads.path);
    for (std::size_t i = fabric_begin(graph, bundles, loads.path); i < loads.path.size(); ++i) {
      loads.bytes[static_cast<std::size_t>(loads.path[i])] += sources;
    }
  }
}

void add_bundles(const Graph& graph, const CollectiveGroups& groups, int group, Loads& loads) {
  Bundles bundles = bundles_of(graph);
  std::vector<std::vector<int>> at_place(static_cast<std::size_t>(bundles.period));
  for (int rank = 0; rank < groups.ranks; ++rank) {
    const int device = groups.device(group, rank);
    at_place[static_cast<std::size_t>(device % bundles.period)].push_back(device);
  }
  for (int rank = 0; rank < groups.ranks; ++rank) {
    const int from = groups.device(group, rank);
    const int domain = from / bundles.domain;
    for (const std::vector<int>& devices : at_place) {
      if (devices.empty()) continue;
      // Devices are in order, so those of the domain are neighbours.
      const auto first = std::lower_bound(devices.begin(), devices.end(), domain * bundles.domain);
      const auto last = std::lower_bound(first, devices.end(), (domain + 1) * bundles.domain);
      const auto inside = last - first;
      for (auto own = first; own != last; ++own) {
        if (*own != from) add_route(graph, from, *own, Routing::rail, loads);
      }
      if (static_cast<std::size_t>(inside) == devices.size()) continue;
      const int to = first == devices.begin() ? *last : devices.front();
      add_entrance(graph, bundles, from, to, static_cast<double>(devices.size()) - static_cast<double>(inside), loads);
    }
  }
  for (int rank = 0; rank < groups.ranks; ++rank) add_ways_to(graph, bundles, groups.device(group, rank), loads);
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

bool is_uniform_torus(const Graph& graph, const CollectiveGroups& groups) {
  const cluster::ScaleUpRoutes& torus = graph.scale_up;
  const bool wraps = std::all_of(torus.wraps.begin(), torus.wraps.end(), [](bool wrap) { return wrap; });
  const bool whole = groups.ranks == graph.num_devices() && groups.groups == 1 && torus.domain == groups.ranks;
  if (torus.kind != spec::ScaleUpKind::torus || !wraps || !whole || graph.num_cut > 0) return false;
  const std::size_t axes = torus.shape.size();
  for (std::size_t i = 0; i < torus.plus.size(); ++i) {  // none is slower than the others of its axis
    const double rate = graph.links[static_cast<std::size_t>(torus.plus[i])].bytes_per_s;
    if (rate != graph.links[static_cast<std::size_t>(torus.plus[i % axes])].bytes_per_s) return false;
    if (rate != graph.links[static_cast<std::size_t>(torus.plus[i] ^ 1)].bytes_per_s) return false;
  }
  return true;
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
  const bool has_fabric = graph.kind == cluster::GraphKind::nodes && !graph.host.ports.empty();
  if (is_uniform_torus(graph, groups)) {
    add_whole_torus(graph, groups, loads);
  } else if (pairs > double(every_pair_ranks) * every_pair_ranks && has_fabric && graph.num_cut == 0) {
    for (int g = 0; g < groups.groups; ++g) add_bundles(graph, groups, g, loads);
  } else if (pairs <= kMostRoutes) {
    add_every_pair(graph, groups, routing, loads);
  } else {
    return infeasible(fmt::format("an all_to_all of {} groups of {} ranks has {:.3g} routes, at most {:.3g} can be "
                                  "looked at one by one",
                                  groups.groups, groups.ranks, pairs, kMostRoutes),
                      "take fewer ranks, or nothing cut");
  }
  return busiest(graph, loads);
}

}  // namespace twinpod::sim
