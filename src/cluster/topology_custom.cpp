// A graph that a file writes out, vertex by vertex and link by link.
//
//     topology:
//       vertices: [{name: gpu, tier: device, count: 4}, {name: sw, tier: switch, radix: 8}]
//       links: [{from: gpu, to: sw, bandwidth: 25 GB/s, latency: 1 us}]          # all four
//
// A vertex with a count stands for name0, name1, ...; a link that names it joins all of them.
#include <fmt/format.h>

#include <map>

#include "cluster/topology_parts.hpp"
#include "core/nearest.hpp"

namespace twinpod::cluster {
namespace {

constexpr std::size_t kMostDistances = 256'000'000;

tl::unexpected<Error> at_line(const spec::Topology& topology, int line, std::string message, std::string hint = "") {
  return tl::unexpected(Error{ErrorKind::input, std::move(message), std::move(hint), topology.file, line, 0});
}

using Names = std::map<std::string, std::vector<int>, std::less<>>;

Result<Names> add_vertices(const spec::Topology& topology, Graph& graph) {
  Names names;
  for (const spec::TopologyVertex& written : topology.vertices) {
    const int tier = vertex_tier(graph, written.tier);
    std::vector<int>& all = names[written.name];
    for (int i = 0; i < written.count; ++i) {
      const std::string name = written.count == 1 ? written.name : fmt::format("{}{}", written.name, i);
      const int vertex = add_vertex(graph, {tier, -1, i, written.radix, 1});
      if (written.tier == "device") graph.devices.push_back(vertex);
      all.push_back(vertex);
      if (written.count == 1) continue;
      if (!names[name].empty()) return at_line(topology, written.line, fmt::format("`{}` stands twice", name));
      names[name].push_back(vertex);
    }
    if (all.size() != static_cast<std::size_t>(written.count)) {
      return at_line(topology, written.line, fmt::format("`{}` stands twice", written.name));
    }
  }
  graph.names.resize(graph.vertices.size());
  for (const auto& [name, vertices] : names) {
    if (vertices.size() == 1) graph.names[static_cast<std::size_t>(vertices.front())] = name;
  }
  return names;
}

Result<std::vector<int>> ends(const spec::Topology& topology, const Names& names, const std::string& name, int line) {
  const auto found = names.find(name);
  if (found != names.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [text, unused] : names) known.push_back(text);
  const std::string nearest = nearest_name(name, known);
  return at_line(topology, line, fmt::format("a link names `{}`, which is no vertex", name),
                 nearest.empty() ? "" : fmt::format("did you mean `{}`?", nearest));
}

std::string tier_of_cable(const Graph& graph, int a, int b) {
  return graph.vertex_tiers[graph.vertices[a].tier] + "_" + graph.vertex_tiers[graph.vertices[b].tier];
}

Result<void> add_links(const spec::Topology& topology, const Names& names, Graph& graph) {
  for (const spec::TopologyLink& written : topology.links) {
    const Result<std::vector<int>> from = ends(topology, names, written.from, written.line);
    if (!from) return tl::unexpected(from.error());
    const Result<std::vector<int>> to = ends(topology, names, written.to, written.line);
    if (!to) return tl::unexpected(to.error());
    for (const int a : *from) {
      for (const int b : *to) {
        if (a == b) return at_line(topology, written.line, fmt::format("`{}` is joined to itself", written.from));
        const int tier = cable_tier(graph, tier_of_cable(graph, a, b));
        for (int i = 0; i < written.cables; ++i) {
          add_cable(graph, a, b, tier, written.bytes_per_s, written.latency_s);
        }
      }
    }
  }
  return {};
}

// The line of the vertex that a check complains about is more use than none.
tl::unexpected<Error> placed(const spec::Topology& topology, Error error) {
  error.file = topology.file;
  for (const spec::TopologyVertex& vertex : topology.vertices) {
    if (error.message.starts_with(vertex.name)) error.line = vertex.line;
  }
  if (error.line == 0 && !topology.vertices.empty()) error.line = topology.vertices.front().line;
  return tl::unexpected(std::move(error));
}

}  // namespace

Result<Graph> custom_graph(const spec::Cluster& cluster) {
  const spec::Topology& topology = cluster.topology;
  Graph graph;
  graph.kind = GraphKind::custom;
  graph.fabric = "custom graph";
  vertex_tier(graph, "device");
  const Result<Names> names = add_vertices(topology, graph);
  if (!names) return tl::unexpected(names.error());
  const Result<void> joined = add_links(topology, *names, graph);
  if (!joined) return tl::unexpected(joined.error());
  index_links(graph);
  if (graph.num_devices() != cluster.devices && !graph.devices.empty()) {
    return at_line(topology, topology.vertices.front().line,
                   fmt::format("the graph has {} devices, but the cluster {}", graph.num_devices(), cluster.devices),
                   fmt::format("write devices: {}", graph.num_devices()));
  }
  for (const auto check : {check_ports, check_connected}) {
    const Result<void> right = check(graph);
    if (!right) return placed(topology, right.error());
  }
  if (graph.devices.size() * graph.vertices.size() > kMostDistances) {
    return at_line(topology, topology.vertices.front().line,
                   fmt::format("{} devices and {} vertices are too many for a graph that is written out",
                               graph.devices.size(), graph.vertices.size()));
  }
  index_distances(graph);
  return graph;
}

}  // namespace twinpod::cluster
