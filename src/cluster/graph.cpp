#include "cluster/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "core/nearest.hpp"

namespace twinpod::cluster {
namespace {

int tier_called(std::vector<std::string>& tiers, std::string_view name) {
  const int found = find_tier(tiers, name);
  if (found >= 0) return found;
  tiers.emplace_back(name);
  return static_cast<int>(tiers.size()) - 1;
}

std::string torus_name(const ScaleUpRoutes& torus, int device) {
  int volume = 1;
  for (const int length : torus.shape) volume *= length;
  int rest = device % volume;
  std::vector<int> at(torus.shape.size());
  for (std::size_t axis = torus.shape.size(); axis-- > 0;) {
    at[axis] = rest % torus.shape[axis];
    rest /= torus.shape[axis];
  }
  const std::string name = fmt::format("chip({})", fmt::join(at, ","));
  return device < volume ? name : fmt::format("slice{}/{}", device / volume, name);
}

// Numbers of all links from a to b.
std::vector<int> links_between(const Graph& graph, int a, int b) {
  std::vector<int> found;
  for (int i = graph.first_out[a]; i < graph.first_out[a + 1]; ++i) {
    if (graph.links[graph.out[i]].to == b) found.push_back(graph.out[i]);
  }
  return found;
}

Error no_such_link(const Graph& graph, std::string_view name) {
  const std::size_t dash = name.find('-');
  if (dash == std::string_view::npos) {
    return input_error(fmt::format("`{}` names no link", name), "write two vertices: leaf3-spine2").value();
  }
  for (const std::string_view end : {name.substr(0, dash), name.substr(dash + 1)}) {
    if (find_vertex(graph, end) >= 0) continue;
    std::vector<std::string> known;
    for (std::size_t v = 0; v < graph.vertices.size() && v < 100'000; ++v) {
      known.push_back(vertex_name(graph, static_cast<int>(v)));
    }
    const std::string nearest = nearest_name(end, known);
    return input_error(fmt::format("`{}` has no vertex `{}`", name, end),
                       nearest.empty() ? fmt::format("vertices are called {} or {}", known.front(), known.back())
                                       : fmt::format("did you mean `{}`?", nearest))
        .value();
  }
  return Error{ErrorKind::input, fmt::format("`{}`: no cable joins these two", name), "", "", 0, 0};
}

// leaf3-spine2:1 as its two parts; -1: all of them.
std::pair<std::string_view, int> without_number(std::string_view name) {
  const std::size_t colon = name.rfind(':');
  if (colon == std::string_view::npos) return {name, -1};
  int number = -1;
  const std::string_view digits = name.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < 0) return {name, -1};
  return {name.substr(0, colon), number};
}

}  // namespace

int find_tier(const std::vector<std::string>& tiers, std::string_view name) {
  const auto found = std::find(tiers.begin(), tiers.end(), name);
  return found == tiers.end() ? -1 : static_cast<int>(found - tiers.begin());
}

int vertex_tier(Graph& graph, std::string_view name) {
  const int tier = tier_called(graph.vertex_tiers, name);
  graph.port_bytes_per_s.resize(graph.vertex_tiers.size());
  return tier;
}

int cable_tier(Graph& graph, std::string_view name) { return tier_called(graph.cable_tiers, name); }

int add_vertex(Graph& graph, const Vertex& vertex) {
  graph.vertices.push_back(vertex);
  return static_cast<int>(graph.vertices.size()) - 1;
}

int add_cable(Graph& graph, int a, int b, int tier, double bytes_per_s, double latency_s, int cables) {
  const int number = static_cast<int>(graph.links.size());
  const int cable = graph.num_cables++;
  graph.links.push_back({a, b, bytes_per_s, latency_s, tier, cable, cables});
  graph.links.push_back({b, a, bytes_per_s, latency_s, tier, cable, cables});
  return number;
}

void index_links(Graph& graph) {
  graph.first_out.assign(graph.vertices.size() + 1, 0);
  for (const GraphLink& link : graph.links) ++graph.first_out[link.from + 1];
  std::partial_sum(graph.first_out.begin(), graph.first_out.end(), graph.first_out.begin());
  graph.out.resize(graph.links.size());
  std::vector<int> next(graph.first_out.begin(), graph.first_out.end() - 1);
  for (std::size_t i = 0; i < graph.links.size(); ++i) {
    graph.out[next[graph.links[i].from]++] = static_cast<int>(i);
  }
}

void index_distances(Graph& graph) {
  const std::size_t width = graph.vertices.size();
  graph.distances.assign(width * graph.devices.size(), kUnreachable);
  std::vector<int> queue;
  for (std::size_t d = 0; d < graph.devices.size(); ++d) {
    std::uint16_t* const row = graph.distances.data() + d * width;
    queue.assign(1, graph.devices[d]);
    row[queue.front()] = 0;
    for (std::size_t i = 0; i < queue.size(); ++i) {
      const int at = queue[i];
      for (int o = graph.first_out[at]; o < graph.first_out[at + 1]; ++o) {
        const GraphLink& back = graph.links[graph.out[o] ^ 1];
        if (back.bytes_per_s <= 0 || row[back.from] != kUnreachable) continue;
        row[back.from] = static_cast<std::uint16_t>(row[at] + 1);
        queue.push_back(back.from);
      }
    }
  }
}

std::string vertex_name(const Graph& graph, int vertex) {
  if (!graph.names.empty()) return graph.names[vertex];
  const Vertex& v = graph.vertices[vertex];
  const std::string& tier = graph.vertex_tiers[v.tier];
  if (tier == "device") {
    if (graph.scale_up.kind == spec::ScaleUpKind::torus) return torus_name(graph.scale_up, vertex);
    return fmt::format("gpu{}", vertex);
  }
  if (v.node < 0) return fmt::format("{}{}", tier, v.index);
  const bool of_domain = tier == "nvswitch" && graph.scale_up.domain > graph.host.devices_per_node;
  return fmt::format("{}{}/{}{}", of_domain ? "domain" : "node", v.node, tier, v.index);
}

std::string link_name(const Graph& graph, int link) {
  return vertex_name(graph, graph.links[link].from) + "-" + vertex_name(graph, graph.links[link].to);
}

int find_vertex(const Graph& graph, std::string_view name) {
  for (std::size_t v = 0; v < graph.vertices.size(); ++v) {
    if (vertex_name(graph, static_cast<int>(v)) == name) return static_cast<int>(v);
  }
  return -1;
}

Result<std::vector<int>> find_links(const Graph& graph, std::string_view name) {
  if (name.starts_with("link=")) name.remove_prefix(5);
  const auto [ends, number] = without_number(name);
  // Names that people gave may hold a dash, so every dash is tried.
  for (std::size_t dash = ends.find('-'); dash != std::string_view::npos; dash = ends.find('-', dash + 1)) {
    const int a = find_vertex(graph, ends.substr(0, dash));
    const int b = a < 0 ? -1 : find_vertex(graph, ends.substr(dash + 1));
    if (b < 0) continue;
    const std::vector<int> between = links_between(graph, a, b);
    if (between.empty()) break;
    if (number >= static_cast<int>(between.size())) {
      return input_error(fmt::format("`{}`: {} cables join these two", name, between.size()),
                         fmt::format("write {}:0 to {}:{}", ends, ends, between.size() - 1));
    }
    std::vector<int> links;
    for (std::size_t i = 0; i < between.size(); ++i) {
      if (number >= 0 && number != static_cast<int>(i)) continue;
      links.push_back(between[i]);
      links.push_back(between[i] ^ 1);
    }
    return links;
  }
  return tl::unexpected(no_such_link(graph, ends));
}

void cut_links(Graph& graph, const std::vector<int>& links) {
  for (const int link : links) {
    graph.num_cut += graph.links[link].bytes_per_s > 0 ? 1 : 0;
    graph.links[link].bytes_per_s = 0;
  }
  if (graph.kind == GraphKind::custom) index_distances(graph);
}

void slow_links(Graph& graph, const std::vector<int>& links, double factor) {
  if (factor <= 0) return cut_links(graph, links);
  for (const int link : links) graph.links[link].bytes_per_s *= factor;
}

int ports_used(const Graph& graph, int vertex) {
  const Vertex& v = graph.vertices[vertex];
  const double port = graph.port_bytes_per_s[v.tier];
  long long ports = 0;
  for (int i = graph.first_out[vertex]; i < graph.first_out[vertex + 1]; ++i) {
    const GraphLink& link = graph.links[graph.out[i]];
    const double share = port > 0 ? std::ceil(link.bytes_per_s / link.cables / port - 1e-9) : 1;
    ports += link.cables * std::max(1LL, static_cast<long long>(share));
  }
  return static_cast<int>((ports + v.count - 1) / v.count);
}

Result<void> check_ports(const Graph& graph) {
  for (const PassiveSwitches& passive : graph.passive) {
    if (passive.radix == 0 || passive.ports_used <= passive.radix) continue;
    return input_error(
        fmt::format("each {} would need {} ports, but has {}", passive.tier, passive.ports_used, passive.radix),
        "use a smaller slice");
  }
  for (std::size_t i = 0; i < graph.vertices.size(); ++i) {
    const int vertex = static_cast<int>(i);
    const int radix = graph.vertices[i].radix;
    if (radix == 0) continue;
    const int used = ports_used(graph, vertex);
    if (used <= radix) continue;
    return input_error(fmt::format("{} would need {} ports, but has {}", vertex_name(graph, vertex), used, radix),
                       "use switches with more ports, fewer links, or another tier of switches");
  }
  return {};
}

Result<void> check_connected(const Graph& graph) {
  if (graph.devices.empty()) return input_error("the graph has no devices", "give some vertices the tier `device`");
  std::vector<char> seen(graph.vertices.size(), 0);
  std::vector<int> queue = {graph.devices.front()};
  seen[queue.front()] = 1;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (int o = graph.first_out[queue[i]]; o < graph.first_out[queue[i] + 1]; ++o) {
      const GraphLink& link = graph.links[graph.out[o]];
      if (link.bytes_per_s <= 0 || seen[link.to] != 0) continue;
      seen[link.to] = 1;
      queue.push_back(link.to);
    }
  }
  for (const int device : graph.devices) {
    if (seen[device] != 0) continue;
    return input_error(
        fmt::format("no route from {} to {}", vertex_name(graph, graph.devices.front()), vertex_name(graph, device)),
        "join their parts of the graph by a link");
  }
  return {};
}

}  // namespace twinpod::cluster
