#include <algorithm>
#include <array>
#include <numeric>

#include "cluster/route_parts.hpp"

namespace twinpod::cluster {
namespace {

constexpr std::size_t kMostAxes = 6;
using Place = std::array<int, kMostAxes>;

Place place_of(const ScaleUpRoutes& torus, int chip) {
  Place at{};
  for (std::size_t axis = torus.shape.size(); axis-- > 0;) {
    at[axis] = chip % torus.shape[axis];
    chip /= torus.shape[axis];
  }
  return at;
}

int chip_at(const ScaleUpRoutes& torus, const Place& at) {
  int chip = 0;
  for (std::size_t axis = 0; axis < torus.shape.size(); ++axis) chip = chip * torus.shape[axis] + at[axis];
  return chip;
}

// Steps along an axis, negative for the way back; the shorter way round where there is one. Half-way round the sense
// depends on where the flow starts, so that the ring is used evenly.
int steps_along(const ScaleUpRoutes& torus, std::size_t axis, int from, int to, bool in_order, Chooser& chooser) {
  const int length = torus.shape[axis];
  int steps = to - from;
  if (!torus.wraps[axis]) return steps;
  if (steps > length / 2) steps -= length;
  if (steps < -(length / 2)) steps += length;
  if (2 * std::abs(steps) != length) return steps;
  const bool back = in_order ? from % 2 == 1 : chooser.of(2) == 1;
  return back ? -length / 2 : length / 2;
}

void walk(const Graph& graph, int first, std::size_t axis, int steps, Place& at, std::vector<int>& links) {
  const ScaleUpRoutes& torus = graph.scale_up;
  const std::size_t axes = torus.shape.size();
  const int length = torus.shape[axis];
  for (; steps > 0; --steps) {
    links.push_back(torus.plus[static_cast<std::size_t>(first + chip_at(torus, at)) * axes + axis]);
    at[axis] = at[axis] + 1 == length ? 0 : at[axis] + 1;
  }
  for (; steps < 0; ++steps) {
    at[axis] = at[axis] == 0 ? length - 1 : at[axis] - 1;
    links.push_back(torus.plus[static_cast<std::size_t>(first + chip_at(torus, at)) * axes + axis] ^ 1);
  }
}

std::array<std::size_t, kMostAxes> axis_order(std::size_t axes, bool in_order, Chooser& chooser) {
  std::array<std::size_t, kMostAxes> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = axes; !in_order && i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<std::size_t>(chooser.of(static_cast<int>(i)))]);
  }
  return order;
}

// Chip `to` as seen from chip `from`, as if that were the first one. Going once round a short axis moves along the long
// ones, so a negative difference there is a move, too.
int seen_from(const ScaleUpRoutes& torus, int from, int to) {
  const Place a = place_of(torus, from);
  Place seen = place_of(torus, to);
  const int shortest = *std::min_element(torus.shape.begin(), torus.shape.end());
  int moved = 0;
  for (std::size_t axis = 0; axis < torus.shape.size(); ++axis) {
    seen[axis] -= a[axis];
    if (seen[axis] < 0 && torus.shape[axis] == shortest) ++moved;
    if (seen[axis] < 0) seen[axis] += torus.shape[axis];
  }
  for (std::size_t axis = 0; axis < torus.shape.size(); ++axis) {
    if (torus.shape[axis] != shortest) seen[axis] = (seen[axis] + moved * shortest) % torus.shape[axis];
  }
  return chip_at(torus, seen);
}

// Any link that comes nearer to the goal, by the chooser: the first one of all would have most flows on the same links.
bool append_twisted(const Graph& graph, int from, int to, Chooser& chooser, std::vector<int>& links) {
  const ScaleUpRoutes& torus = graph.scale_up;
  const int first = from / torus.domain * torus.domain;
  const int goal = to - first;
  for (int at = from; at != to;) {
    const int left = torus.distance[static_cast<std::size_t>(seen_from(torus, at - first, goal))];
    std::array<int, 2 * kMostAxes> nearer{};
    int count = 0;
    for (int i = graph.first_out[at]; i < graph.first_out[at + 1]; ++i) {
      const int link = graph.out[i];
      const int next = graph.links[link].to;
      if (next >= first + torus.domain || next < first) continue;  // a link to the host
      if (torus.distance[static_cast<std::size_t>(seen_from(torus, next - first, goal))] != left - 1) continue;
      nearer[static_cast<std::size_t>(count++)] = link;
    }
    if (count == 0) return false;
    links.push_back(nearer[static_cast<std::size_t>(chooser.of(count))]);
    at = graph.links[links.back()].to;
  }
  return true;
}

}  // namespace

bool append_torus(const Graph& graph, int from, int to, bool in_order, Chooser& chooser, std::vector<int>& links) {
  const ScaleUpRoutes& torus = graph.scale_up;
  if (torus.twisted) return append_twisted(graph, from, to, chooser, links);
  const int first = from / torus.domain * torus.domain;
  Place at = place_of(torus, from - first);
  const Place goal = place_of(torus, to - first);
  const auto order = axis_order(torus.shape.size(), in_order, chooser);
  for (std::size_t i = 0; i < torus.shape.size(); ++i) {
    const std::size_t axis = order[i];
    if (at[axis] == goal[axis]) continue;
    walk(graph, first, axis, steps_along(torus, axis, at[axis], goal[axis], in_order, chooser), at, links);
  }
  return true;
}

}  // namespace twinpod::cluster
