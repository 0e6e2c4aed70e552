// Bisection: the least capacity from one half of the devices to the other, from the structure of the graph
// (measure.hpp).
//
// Tree: all that leaves the half of the groups of a tier goes up from them, so no half gets more than half of the links
// up of any tier. Dragonfly: half of the groups. Torus: the halves are a window of half an axis; the least window
// counts. Switched domain: half of the devices' links, or what joins its boards. Meshes and graphs that were written
// out: all halves where they are few.
#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "cluster/graph_cut.hpp"
#include "cluster/measure.hpp"

namespace twinpod::cluster {
namespace {

using spec::ScaleUpKind;

constexpr int kFewDevices = 12;  // halves of so many can all be tried

double tree_bisection(const Graph& graph) {
  double ports = 0;
  for (const NicPort& port : graph.host.ports) ports += graph.links[port.link].bytes_per_s;
  double least = ports / 2;
  for (std::size_t t = 0; t + 1 < graph.tree.tiers.size(); ++t) {
    const TreeRoutes::Tier& tier = graph.tree.tiers[t];
    double up = 0;
    const int end = graph.tree.tiers[t + 1].first_switch;
    for (int i = graph.tree.first_up[tier.first_switch]; i < graph.tree.first_up[end]; ++i) {
      up += graph.links[graph.tree.up[i]].bytes_per_s;
    }
    least = std::min(least, up / 2);
  }
  return least;
}

double dragonfly_bisection(const Graph& graph) {
  const DragonflyRoutes& fly = graph.dragonfly;
  const bool one = fly.groups == 1;
  const int half = (one ? fly.routers : fly.groups) / 2;
  double across = 0;
  for (const std::vector<int>* links : {one ? &fly.local : &fly.global}) {
    for (const int link : *links) {
      if (link < 0) continue;
      const int of = one ? 1 : fly.routers;
      const int a = (graph.links[link].from - fly.first_vertex) / of;
      const int b = (graph.links[link].to - fly.first_vertex) / of;
      if (a < half && b >= half) across += graph.links[link].bytes_per_s;
    }
  }
  double ports = 0;
  for (const NicPort& port : graph.host.ports) ports += graph.links[port.link].bytes_per_s;
  return std::min(across, ports / 2);
}

// Capacity out of the window [start, start + length / 2) of an axis.
double window_capacity(const Graph& graph, std::size_t axis, int start) {
  const ScaleUpRoutes& torus = graph.scale_up;
  const int length = torus.shape[axis];
  int below = 1;
  for (std::size_t a = axis + 1; a < torus.shape.size(); ++a) below *= torus.shape[a];
  const auto inside = [&](int chip) { return (chip / below % length - start + length) % length < length / 2; };
  double sum = 0;
  for (const int link : torus.plus) {
    if (link < 0) continue;
    const bool from = inside(graph.links[link].from);
    const bool to = inside(graph.links[link].to);
    if (from && !to) sum += graph.links[link].bytes_per_s;
    if (to && !from) sum += graph.links[link ^ 1].bytes_per_s;
  }
  return sum;
}

double torus_bisection(const Graph& graph) {
  const ScaleUpRoutes& torus = graph.scale_up;
  // Only axes of even length have halves; odd ones are cut as evenly as they can be when there is no other.
  const bool any_even = std::any_of(torus.shape.begin(), torus.shape.end(), [](int n) { return n % 2 == 0; });
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t axis = 0; axis < torus.shape.size(); ++axis) {
    const int length = torus.shape[axis];
    if (length < 2 || (any_even && length % 2 != 0)) continue;
    const int starts = torus.wraps[axis] ? (length + 1) / 2 : 1;
    for (int start = 0; start < starts; ++start) least = std::min(least, window_capacity(graph, axis, start));
  }
  return least;
}

double switched_bisection(const Graph& graph) {
  double devices = 0;
  for (const int link : graph.scale_up.up) devices += graph.links[link].bytes_per_s;
  double least = devices / 2;
  if (graph.scale_up.trunk.empty()) return least;
  double trunks = 0;
  for (const int link : graph.scale_up.trunk) trunks += graph.links[link].bytes_per_s;
  return std::min(least, trunks / 2);
}

// Devices of one mesh: the links from each half that holds the first device to the other.
double mesh_bisection(const Graph& graph, bool& is_bound) {
  const int devices = graph.num_devices();
  const auto crossing = [&](const auto& inside) {
    double sum = 0;
    const std::size_t begin = graph.scale_up.first_link.empty() ? 0 : graph.scale_up.first_link.front();
    for (std::size_t l = begin; l < graph.links.size() && graph.links[l].to < devices; l += 2) {
      const GraphLink& link = graph.links[l];
      if (inside(link.from) != inside(link.to)) sum += link.bytes_per_s;
    }
    return sum;
  };
  if (devices > kFewDevices + 4) {
    is_bound = true;
    return crossing([&](int d) { return d < devices / 2; });
  }
  double least = std::numeric_limits<double>::infinity();
  for (unsigned set = 1; set < 1U << static_cast<unsigned>(devices); set += 2) {
    if (std::popcount(set) != devices / 2) continue;
    least = std::min(least, crossing([&](int d) { return (set >> static_cast<unsigned>(d) & 1U) != 0; }));
  }
  return least;
}

// All halves that hold the first device; else windows of the order of devices, which may miss the least.
double searched_bisection(const Graph& graph, bool& is_bound) {
  const int devices = graph.num_devices();
  double least = std::numeric_limits<double>::infinity();
  const auto try_half = [&](const std::vector<char>& inside) {
    std::vector<int> from;
    std::vector<int> to;
    for (int d = 0; d < devices; ++d) (inside[d] != 0 ? from : to).push_back(d);
    least = std::min(least, max_flow_bytes_per_s(graph, from, to));
  };
  std::vector<char> inside(static_cast<std::size_t>(devices));
  if (devices <= kFewDevices) {
    for (unsigned set = 1; set < 1U << static_cast<unsigned>(devices); set += 2) {
      if (std::popcount(set) != devices / 2) continue;
      for (int d = 0; d < devices; ++d) inside[d] = static_cast<char>(set >> static_cast<unsigned>(d) & 1U);
      try_half(inside);
    }
    return least;
  }
  is_bound = true;
  const int starts = std::min(devices / 2, 16);
  for (int s = 0; s < starts; ++s) {
    for (int d = 0; d < devices; ++d) inside[d] = (d - s + devices) % devices < devices / 2 ? 1 : 0;
    try_half(inside);
  }
  return least;
}

}  // namespace

double bisection_bytes_per_s(const Graph& graph, bool& is_bound) {
  is_bound = false;
  if (graph.num_devices() < 2) return 0;
  if (graph.kind == GraphKind::custom) return searched_bisection(graph, is_bound);
  if (graph.dragonfly.groups > 0) return dragonfly_bisection(graph);
  if (!graph.tree.tiers.empty()) return tree_bisection(graph);
  if (graph.scale_up.kind == ScaleUpKind::torus) {
    is_bound = graph.scale_up.twisted;  // halves that are no windows were not tried
    return torus_bisection(graph);
  }
  if (graph.scale_up.kind == ScaleUpKind::switched) return switched_bisection(graph);
  if (graph.scale_up.kind == ScaleUpKind::mesh && graph.scale_up.domain >= graph.num_devices()) {
    return mesh_bisection(graph, is_bound);
  }
  return searched_bisection(graph, is_bound);
}

}  // namespace twinpod::cluster
