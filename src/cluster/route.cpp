#include "cluster/route.hpp"

#include <algorithm>
#include <queue>

#include "cluster/route_parts.hpp"

namespace twinpod::cluster {
namespace {

using spec::ScaleUpKind;

// What one attempt at a route may choose.
struct Attempt {
  Routing routing = Routing::ecmp;
  Chooser chooser;
  int exit = -1;   // device through whose NIC the flow leaves; -1: its own
  int entry = -1;  // and arrives
};

bool is_fixed(Routing routing) { return routing == Routing::rail || routing == Routing::dimension_order; }

bool append_inside(const Graph& graph, int from, int to, Attempt& attempt, std::vector<int>& links) {
  if (from == to) return true;
  switch (graph.scale_up.kind) {
    case ScaleUpKind::switched:
      return append_switched(graph, from, to, links);
    case ScaleUpKind::mesh:
      return append_mesh(graph, from, to, attempt.chooser, links);
    case ScaleUpKind::torus:
      return append_torus(graph, from, to, is_fixed(attempt.routing), attempt.chooser, links);
    case ScaleUpKind::none:
      break;
  }
  return false;
}

// NICs of a device: one of its own, one that it shares, or several.
int nic_of(const HostRoutes& host, int device, int choice) {
  const int node = device / host.devices_per_node;
  const int local = device % host.devices_per_node;
  const int of_device = std::max(1, host.nics_per_node / host.devices_per_node);
  const int first = static_cast<int>(static_cast<long long>(local) * host.nics_per_node / host.devices_per_node);
  return node * host.nics_per_node + first + choice % of_device;
}

int nics_of_device(const HostRoutes& host) { return std::max(1, host.nics_per_node / host.devices_per_node); }

bool append_across(const Graph& graph, int from, int to, Attempt& attempt, std::vector<int>& links) {
  const HostRoutes& host = graph.host;
  if (host.ports.empty()) return false;
  const bool fixed = is_fixed(attempt.routing);
  const int number = fixed ? to : attempt.chooser.of(nics_of_device(host));
  const int out = nic_of(host, from, number);
  const int in = nic_of(host, to, number);
  const int ports = host.first_port[out + 1] - host.first_port[out];
  const int plane =
      fixed ? (from / host.devices_per_node + to / host.devices_per_node) % ports : attempt.chooser.of(ports);
  const NicPort& leaving = host.ports[host.first_port[out] + plane];
  const NicPort& arriving = host.ports[host.first_port[in] + plane];
  if (host.device_link[from] >= 0) links.push_back(host.device_link[from]);
  links.push_back(host.nic_link[out]);
  links.push_back(leaving.link);
  const bool joined = graph.dragonfly.groups > 0
                          ? append_dragonfly(graph, leaving.leaf, arriving.leaf, attempt.chooser, links)
                          : append_tree(graph, leaving.leaf, arriving, fixed, attempt.chooser, links);
  if (!joined) return false;
  links.push_back(arriving.link ^ 1);
  links.push_back(host.nic_link[in] ^ 1);
  if (host.device_link[to] >= 0) links.push_back(host.device_link[to] ^ 1);
  return true;
}

bool same_domain(const Graph& graph, int a, int b) {
  return graph.scale_up.domain > 1 && a / graph.scale_up.domain == b / graph.scale_up.domain;
}

// The device of the same node that has the place of another one in its node, if the scale-up network joins the two.
int neighbour_on_rail(const Graph& graph, int device, int other) {
  const int per_node = graph.host.devices_per_node;
  const int neighbour = device / per_node * per_node + other % per_node;
  const bool there = neighbour < static_cast<int>(graph.host.device_link.size());
  return there && same_domain(graph, device, neighbour) ? neighbour : device;
}

bool append_attempt(const Graph& graph, int from, int to, Attempt& attempt, std::vector<int>& links) {
  if (same_domain(graph, from, to)) return append_inside(graph, from, to, attempt, links);
  const int exit = attempt.exit >= 0 ? attempt.exit : from;
  const int entry = attempt.entry >= 0 ? attempt.entry : to;
  return append_inside(graph, from, exit, attempt, links) && append_across(graph, exit, entry, attempt, links) &&
         append_inside(graph, entry, to, attempt, links);
}

bool intact(const Graph& graph, const std::vector<int>& links, std::size_t from) {
  for (std::size_t i = from; i < links.size(); ++i) {
    if (graph.links[links[i]].bytes_per_s <= 0) return false;
  }
  return true;
}

int some_neighbour(const Graph& graph, int device, Chooser& chooser) {
  return neighbour_on_rail(graph, device, chooser.of(graph.host.devices_per_node));
}

// Equal paths first; then paths through the NICs of neighbours.
bool append_around_cuts(const Graph& graph, int from, int to, Attempt attempt, std::vector<int>& links) {
  constexpr int kEqualPaths = 24;
  constexpr int kAttempts = 72;
  const std::size_t before = links.size();
  if (attempt.routing != Routing::ecmp) attempt.routing = Routing::adaptive;
  for (int i = 0; i < kAttempts; ++i) {
    links.resize(before);
    if (i >= kEqualPaths) {
      attempt.exit = some_neighbour(graph, from, attempt.chooser);
      attempt.entry = i % 2 == 0 ? neighbour_on_rail(graph, to, attempt.exit) : to;
    }
    if (append_attempt(graph, from, to, attempt, links) && intact(graph, links, before)) return true;
  }
  links.resize(before);
  return append_any_way(graph, graph.devices[from], graph.devices[to], attempt.chooser, links);
}

// Among the links that come nearer, one of the fastest: a GPU reaches its neighbour over NVLink, not over PCIe.
void append_custom(const Graph& graph, int to, Chooser& chooser, int at, std::vector<int>& links) {
  const std::uint16_t* const distance = graph.distances.data() + static_cast<std::size_t>(to) * graph.vertices.size();
  if (distance[at] == kUnreachable) return;
  while (distance[at] > 0) {
    int count = 0;
    int taken = -1;
    double fastest = 0;
    for (int i = graph.first_out[at]; i < graph.first_out[at + 1]; ++i) {
      const int link = graph.out[i];
      const double rate = graph.links[link].bytes_per_s;
      if (rate <= 0 || rate < fastest || distance[graph.links[link].to] + 1 != distance[at]) continue;
      if (rate > fastest) count = 0;
      fastest = rate;
      if (chooser.of(++count) == 0) taken = link;  // each of them equally likely
    }
    links.push_back(taken);
    at = graph.links[taken].to;
  }
}

std::uint64_t hash_of(int from, int to, std::uint64_t salt) {
  std::uint64_t state =
      salt * 0x9e3779b97f4a7c15U + (static_cast<std::uint64_t>(from) << 32U) + static_cast<std::uint64_t>(to);
  return splitmix64(state);
}

}  // namespace

bool append_switched(const Graph& graph, int from, int to, std::vector<int>& links) {
  const ScaleUpRoutes& scale_up = graph.scale_up;
  const int up = scale_up.up[from];
  const int down = scale_up.up[to];
  links.push_back(up);
  const int from_switch = graph.links[up].to;
  const int to_switch = graph.links[down].to;
  if (from_switch != to_switch) {
    const int out = scale_up.trunk[from_switch - scale_up.first_switch];
    links.push_back(out);
    if (graph.links[out].to != to_switch) links.push_back(scale_up.trunk[to_switch - scale_up.first_switch] ^ 1);
  }
  links.push_back(down ^ 1);
  return true;
}

bool append_mesh(const Graph& graph, int from, int to, Chooser& chooser, std::vector<int>& links) {
  const ScaleUpRoutes& mesh = graph.scale_up;
  const auto& ways = mesh.paths[static_cast<std::size_t>(from % mesh.domain) * mesh.domain + to % mesh.domain];
  if (ways.empty()) return false;
  const int first = mesh.first_link[from / mesh.domain];
  for (const int link : ways[chooser.of(static_cast<int>(ways.size()))]) links.push_back(first + link);
  return true;
}

bool append_any_way(const Graph& graph, int from, int to, Chooser& chooser, std::vector<int>& links) {
  std::vector<int> arrived(graph.vertices.size(), -1);  // by which link
  std::vector<int> queue = {from};
  for (std::size_t i = 0; i < queue.size() && arrived[to] < 0; ++i) {
    const int first = graph.first_out[queue[i]];
    const int count = graph.first_out[queue[i] + 1] - first;
    const int start = chooser.of(count);
    for (int o = 0; o < count; ++o) {
      const int link = graph.out[first + (start + o) % count];
      const int next = graph.links[link].to;
      if (graph.links[link].bytes_per_s <= 0 || arrived[next] >= 0 || next == from) continue;
      arrived[next] = link;
      queue.push_back(next);
    }
  }
  if (arrived[to] < 0) return false;
  const std::size_t before = links.size();
  for (int at = to; at != from; at = graph.links[arrived[at]].from) links.push_back(arrived[at]);
  std::reverse(links.begin() + static_cast<std::ptrdiff_t>(before), links.end());
  return true;
}

Routing usual_routing(const Graph& graph) {
  if (graph.scale_up.kind == ScaleUpKind::torus) return Routing::dimension_order;
  return graph.dragonfly.groups > 0 || graph.kind == GraphKind::custom ? Routing::ecmp : Routing::rail;
}

void append_route(const Graph& graph, int from_device, int to_device, Routing routing, std::uint64_t salt,
                  std::vector<int>& links) {
  if (from_device == to_device) return;
  Attempt attempt{routing, {hash_of(from_device, to_device, salt)}, -1, -1};
  if (graph.kind == GraphKind::custom) {
    return append_custom(graph, to_device, attempt.chooser, graph.devices[from_device], links);
  }
  if (is_fixed(routing) && graph.dragonfly.groups == 0) {
    attempt.exit = neighbour_on_rail(graph, from_device, to_device);
  }
  const std::size_t before = links.size();
  bool found = append_attempt(graph, from_device, to_device, attempt, links);
  if (!found && attempt.exit < 0) {  // the fabric does not join the two rails
    links.resize(before);
    attempt.exit = neighbour_on_rail(graph, from_device, to_device);
    found = append_attempt(graph, from_device, to_device, attempt, links);
  }
  if (found && (graph.num_cut == 0 || intact(graph, links, before))) return;
  links.resize(before);
  append_around_cuts(graph, from_device, to_device, attempt, links);
}

std::vector<int> route(const Graph& graph, int from_device, int to_device, Routing routing, std::uint64_t salt) {
  constexpr std::size_t kUsualLength = 16;
  std::vector<int> links;
  links.reserve(kUsualLength);
  append_route(graph, from_device, to_device, routing, salt, links);
  return links;
}

std::vector<std::vector<int>> equal_routes(const Graph& graph, int from_device, int to_device, int limit) {
  std::vector<std::vector<int>> routes;
  const int attempts = 8 * std::max(limit, 1);
  for (int salt = 0; salt < attempts && static_cast<int>(routes.size()) < limit; ++salt) {
    std::vector<int> links = route(graph, from_device, to_device, Routing::ecmp, static_cast<std::uint64_t>(salt));
    if (links.empty()) break;
    if (!routes.empty() && links.size() > routes.front().size()) continue;
    if (!routes.empty() && links.size() < routes.front().size()) routes.clear();
    if (std::find(routes.begin(), routes.end(), links) == routes.end()) routes.push_back(std::move(links));
  }
  std::sort(routes.begin(), routes.end());
  return routes;
}

std::vector<int> next_hops(const Graph& graph, int vertex, int to_device) {
  const int goal = graph.devices[to_device];
  std::vector<int> distance(graph.vertices.size(), -1);
  std::vector<int> queue = {goal};
  distance[goal] = 0;
  for (std::size_t i = 0; i < queue.size() && distance[vertex] < 0; ++i) {
    for (int o = graph.first_out[queue[i]]; o < graph.first_out[queue[i] + 1]; ++o) {
      const GraphLink& back = graph.links[graph.out[o] ^ 1];
      if (back.bytes_per_s <= 0 || distance[back.from] >= 0) continue;
      distance[back.from] = distance[queue[i]] + 1;
      queue.push_back(back.from);
    }
  }
  std::vector<int> hops;
  for (int o = graph.first_out[vertex]; o < graph.first_out[vertex + 1]; ++o) {
    const GraphLink& link = graph.links[graph.out[o]];
    if (link.bytes_per_s > 0 && distance[link.to] >= 0 && distance[link.to] + 1 == distance[vertex]) {
      hops.push_back(graph.out[o]);
    }
  }
  return hops;
}

}  // namespace twinpod::cluster
