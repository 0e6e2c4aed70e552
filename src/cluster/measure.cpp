#include "cluster/measure.hpp"

#include <algorithm>
#include <limits>

#include "cluster/route.hpp"

namespace twinpod::cluster {
namespace {

bool is_switch_tier(const std::string& tier) {
  return tier != "device" && tier != "nic" && tier != "net" && tier != "host" && tier != "cpu" && tier != "manager";
}

std::vector<SwitchCount> count_switches(const Graph& graph) {
  std::vector<SwitchCount> counts(graph.vertex_tiers.size());
  for (std::size_t t = 0; t < counts.size(); ++t) counts[t].tier = graph.vertex_tiers[t];
  for (std::size_t v = 0; v < graph.vertices.size(); ++v) {
    const Vertex& vertex = graph.vertices[v];
    SwitchCount& count = counts[vertex.tier];
    if (!is_switch_tier(count.tier)) continue;
    count.count += vertex.count;
    count.radix = std::max(count.radix, vertex.radix);
    count.ports_used = std::max(count.ports_used, ports_used(graph, static_cast<int>(v)));
  }
  std::erase_if(counts, [](const SwitchCount& count) { return count.count == 0; });
  for (const PassiveSwitches& passive : graph.passive) {
    counts.push_back({passive.tier, passive.count, passive.ports_used, passive.radix});
  }
  return counts;
}

std::vector<CableCount> count_cables(const Graph& graph) {
  std::vector<CableCount> counts(graph.cable_tiers.size());
  for (std::size_t t = 0; t < counts.size(); ++t) counts[t].tier = graph.cable_tiers[t];
  int last = -1;  // links of one cable stand together
  for (std::size_t l = 0; l < graph.links.size(); l += 2) {
    const GraphLink& link = graph.links[l];
    CableCount& count = counts[link.tier];
    const double rate = link.bytes_per_s / link.cables;
    if (rate > 0) count.bytes_per_s = count.bytes_per_s == 0 ? rate : std::min(count.bytes_per_s, rate);
    if (link.cable != last) count.count += link.cables;
    last = link.cable;
  }
  return counts;
}

bool is_switch(const Graph& graph, int vertex) {
  const std::string& tier = graph.vertex_tiers[graph.vertices[vertex].tier];
  return is_switch_tier(tier) && tier != "pcie";
}

// All routes from some devices, spread over the machine; from all of them when it is small.
void measure_diameter(const Graph& graph, Measures& measures) {
  const int devices = graph.num_devices();
  const int sources = std::clamp(1'000'000 / std::max(1, devices), 4, devices);
  const Routing routing = usual_routing(graph) == Routing::rail ? Routing::ecmp : usual_routing(graph);
  std::vector<int> links;
  for (int s = 0; s < sources; ++s) {
    const int from = static_cast<int>(static_cast<long long>(s) * devices / sources);
    for (int to = 0; to < devices; ++to) {
      links.clear();
      append_route(graph, from, to, routing, 0, links);
      if (static_cast<int>(links.size()) <= measures.diameter_links) continue;
      measures.diameter_links = static_cast<int>(links.size());
      measures.diameter_switches = 0;
      for (const int link : links) measures.diameter_switches += is_switch(graph, graph.links[link].to) ? 1 : 0;
    }
  }
}

}  // namespace

Measures measure(const Graph& graph) {
  Measures measures;
  measures.devices = graph.num_devices();
  const int nic = find_tier(graph.vertex_tiers, "nic");
  for (const Vertex& vertex : graph.vertices) measures.nics += vertex.tier == nic ? 1 : 0;
  measures.switches = count_switches(graph);
  measures.cables = count_cables(graph);
  measures.bisection_bytes_per_s = bisection_bytes_per_s(graph, measures.bisection_is_bound);
  measure_diameter(graph, measures);
  return measures;
}

}  // namespace twinpod::cluster
