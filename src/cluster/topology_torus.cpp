// Tori: TPU pods and their slices, Trainium nodes.
//
// Chip (x, y, z) is device (x * Y + y) * Z + z and has one link to the next chip along each axis; an axis that wraps
// closes to a ring. In a twisted torus, n x n x 2n or n x 2n x 2n, a wrap along a short axis also moves n along the
// long ones (Camara et al. 2010, IEEE TPDS 21(12); Jouppi et al. 2023, arXiv 2304.01433, section 2.8).
//
// Pods of cubes: the links inside a cube are copper; each face of a cube sends its edge² links to optical circuit
// switches. Switch k serves one position of the face and one axis, and both faces of every cube land on it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "cluster/topology.hpp"
#include "cluster/topology_parts.hpp"

namespace twinpod::cluster {
namespace {

constexpr std::array<const char*, 6> kAxisNames = {"x", "y", "z", "w", "v", "u"};

// Walks coordinates in the order of devices.
bool advance(const std::vector<int>& shape, std::vector<int>& at) {
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (++at[axis] < shape[axis]) return true;
    at[axis] = 0;
  }
  return false;
}

int number_of(const std::vector<int>& shape, const std::vector<int>& at) {
  int number = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) number = number * shape[axis] + at[axis];
  return number;
}

// The chip one step along an axis, or -1 at the end of an axis without wrap.
int next_chip(const Machine& machine, bool twisted, const std::vector<int>& at, std::size_t axis) {
  std::vector<int> next = at;
  if (++next[axis] < machine.shape[axis]) return number_of(machine.shape, next);
  if (!machine.wraps[axis]) return -1;
  next[axis] = 0;
  const int shortest = *std::min_element(machine.shape.begin(), machine.shape.end());
  for (std::size_t other = 0; twisted && other < machine.shape.size(); ++other) {
    const bool is_long = machine.shape[other] == 2 * shortest && machine.shape[axis] == shortest;
    if (is_long) next[other] = (next[other] + shortest) % machine.shape[other];
  }
  return number_of(machine.shape, next);
}

Result<void> check_twist(const Machine& machine) {
  if (can_be_twisted(machine.cluster, machine.shape)) return {};
  return input_error(fmt::format("a {} torus cannot be twisted", spec::shape_text(machine.shape)),
                     "twisted tori are n x n x 2n or n x 2n x 2n with wraps: 4x4x8_twisted, 4x8x8_twisted");
}

double axis_rate(const Machine& machine, std::size_t axis) {
  const std::vector<double>& rates = machine.cluster.node_topology.axis_bytes_per_s;
  if (axis < rates.size()) return rates[axis];
  return machine.cluster.scale_up_bytes_per_s / (2 * static_cast<double>(machine.shape.size()));
}

void count_circuits(const Machine& machine, Graph& graph) {
  const int cube = machine.cluster.topology.cube;
  if (cube == 0 || machine.shape.size() != 3) return;
  for (const int length : machine.shape) {
    if (length % cube != 0) return;  // a part of one cube: copper only
  }
  const int cubes = machine.domain / (cube * cube * cube) * machine.domains;
  const int positions = cube * cube;
  graph.passive.push_back(
      {"ocs", 3 * positions * machine.domains, 2 * cubes / machine.domains, machine.cluster.topology.circuit_ports});
  graph.facts.push_back({"cubes", fmt::format("cubes of {0}x{0}x{0}", cube), static_cast<double>(cubes)});
  graph.facts.push_back(
      {"optical_links", "optical links from cubes to circuit switches", static_cast<double>(cubes) * 6 * positions});
}

// Distances from chip 0. A twisted torus looks the same from every chip, so these are all of them.
std::vector<std::uint16_t> distances_from_first(const ScaleUpRoutes& torus, const Graph& graph, int chips) {
  const std::size_t axes = torus.shape.size();
  std::vector<int> minus(torus.plus.size(), -1);
  for (std::size_t i = 0; i < static_cast<std::size_t>(chips) * axes; ++i) {
    const GraphLink& link = graph.links[torus.plus[i]];
    minus[static_cast<std::size_t>(link.to) * axes + i % axes] = link.from;
  }
  std::vector<std::uint16_t> distance(static_cast<std::size_t>(chips), kUnreachable);
  std::vector<int> queue = {0};
  distance[0] = 0;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const auto at = static_cast<std::size_t>(queue[i]);
    for (std::size_t axis = 0; axis < axes; ++axis) {
      for (const int next : {graph.links[torus.plus[at * axes + axis]].to, minus[at * axes + axis]}) {
        if (distance[static_cast<std::size_t>(next)] != kUnreachable) continue;
        distance[static_cast<std::size_t>(next)] = static_cast<std::uint16_t>(distance[at] + 1);
        queue.push_back(next);
      }
    }
  }
  return distance;
}

}  // namespace

std::vector<int> even_shape(int chips, int axes, int cube) {
  if (axes == 1) return {chips};
  std::vector<int> best;
  long long best_score = 0;
  for (int first = 1; first <= chips; ++first) {
    if (chips % first != 0 || (!best.empty() && static_cast<long long>(first) * first > chips)) continue;
    std::vector<int> shape = even_shape(chips / first, axes - 1, cube);
    if (first > shape.front() && first != chips) continue;
    shape.insert(shape.begin(), first);
    // Even axes first of all, but whole cubes before that: only they can close to rings.
    constexpr long long kOpen = 1'000'000'000;
    const bool open =
        cube > 0 && std::any_of(shape.begin(), shape.end(), [&](int length) { return length % cube != 0; });
    const long long score = std::accumulate(shape.begin(), shape.end(), open ? kOpen : 0LL);
    if (best.empty() || score < best_score) {
      best = shape;
      best_score = score;
    }
  }
  return best;
}

std::vector<bool> wraps_of(const spec::Topology& topology, const std::vector<int>& shape) {
  std::vector<bool> wraps(shape.size(), false);
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    switch (topology.wrap) {
      case spec::Wrap::all:
        wraps[axis] = shape[axis] > 2;
        break;
      case spec::Wrap::full:
        wraps[axis] = axis < topology.shape.size() && shape[axis] == topology.shape[axis] && shape[axis] > 2;
        break;
      case spec::Wrap::multiples:
        wraps[axis] = topology.cube > 0 &&
                      std::all_of(shape.begin(), shape.end(), [&](int length) { return length % topology.cube == 0; });
        break;
      case spec::Wrap::none:
        break;
    }
  }
  return wraps;
}

bool can_be_twisted(const spec::Cluster& cluster, const std::vector<int>& shape) {
  const std::vector<bool> wraps = wraps_of(cluster.topology, shape);
  const int shortest = *std::min_element(shape.begin(), shape.end());
  const bool has_long = std::find(shape.begin(), shape.end(), 2 * shortest) != shape.end();
  const bool right =
      std::all_of(shape.begin(), shape.end(), [&](int length) { return length == shortest || length == 2 * shortest; });
  return has_long && right && std::all_of(wraps.begin(), wraps.end(), [](bool wrap) { return wrap; });
}

Result<void> add_torus(const Machine& machine, Graph& graph) {
  const bool twisted = machine.cluster.topology.twisted;
  if (twisted) {
    if (Result<void> right = check_twist(machine); !right) return right;
  }
  const std::size_t axes = machine.shape.size();
  ScaleUpRoutes& torus = graph.scale_up;
  torus.shape = machine.shape;
  torus.wraps = machine.wraps;
  torus.twisted = twisted;
  torus.plus.assign(static_cast<std::size_t>(machine.devices) * axes, -1);
  std::array<int, kAxisNames.size()> tiers{};
  for (std::size_t axis = 0; axis < axes; ++axis) tiers[axis] = cable_tier(graph, kAxisNames[axis]);
  for (int first = 0; first < machine.devices; first += machine.domain) {
    std::vector<int> at(axes, 0);
    int chip = first;
    do {
      for (std::size_t axis = 0; axis < axes; ++axis) {
        const int next = next_chip(machine, twisted, at, axis);
        if (next < 0) continue;
        torus.plus[static_cast<std::size_t>(chip) * axes + axis] =
            add_cable(graph, chip, first + next, tiers[axis], axis_rate(machine, axis), kTorusLinkLatency);
      }
      ++chip;
    } while (advance(machine.shape, at));
  }
  if (twisted) torus.distance = distances_from_first(torus, graph, machine.domain);
  count_circuits(machine, graph);
  return {};
}

}  // namespace twinpod::cluster
