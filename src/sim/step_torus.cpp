#include "sim/step_torus.hpp"

#include <algorithm>

namespace twinpod::sim {
namespace {

using cluster::Graph;
using cluster::ScaleUpRoutes;

// How a group lies on an axis.
struct AxisUse {
  std::vector<int> steps;  // from each coordinate to the next member's; 0: it goes no further
  int ways = 0;            // 2: round the ring in both senses; 1: there and back; 0: it does not use the axis
  double spread = 1;       // links from one member to the next, on average
  double share = 0;        // on each link
};

// Which coordinates the members have, by axis.
std::vector<std::vector<bool>> coordinates(const ScaleUpRoutes& torus, const std::vector<int>& devices) {
  std::vector<std::vector<bool>> taken;
  for (const int length : torus.shape) taken.emplace_back(static_cast<std::size_t>(length), false);
  for (const int device : devices) {
    int chip = device % torus.domain;
    for (std::size_t axis = torus.shape.size(); axis-- > 0;) {
      taken[axis][static_cast<std::size_t>(chip % torus.shape[axis])] = true;
      chip /= torus.shape[axis];
    }
  }
  return taken;
}

int coordinate(const ScaleUpRoutes& torus, int device, std::size_t axis) {
  int chip = device % torus.domain;
  for (std::size_t later = torus.shape.size(); --later > axis;) chip /= torus.shape[later];
  return chip % torus.shape[axis];
}

// Going round a short axis of a twisted torus moves along the long ones: members come back to members only if they have
// all of those.
bool closes(const ScaleUpRoutes& torus, const std::vector<std::vector<bool>>& taken, std::size_t axis) {
  if (!torus.wraps[axis] || !torus.twisted) return torus.wraps[axis];
  const int shortest = *std::min_element(torus.shape.begin(), torus.shape.end());
  if (torus.shape[axis] != shortest) return true;
  for (std::size_t other = 0; other < taken.size(); ++other) {
    const bool whole = std::all_of(taken[other].begin(), taken[other].end(), [](bool one) { return one; });
    if (torus.shape[other] != shortest && !whole) return false;
  }
  return true;
}

AxisUse axis_use(const std::vector<bool>& taken, bool is_ring) {
  const auto length = static_cast<int>(taken.size());
  AxisUse use;
  use.steps.assign(taken.size(), 0);
  std::vector<int> members;
  for (int at = 0; at < length; ++at) {
    if (taken[static_cast<std::size_t>(at)]) members.push_back(at);
  }
  if (members.size() < 2) return use;
  int longest = members.front();
  for (std::size_t i = 0; i < members.size(); ++i) {
    const int next = i + 1 < members.size() ? members[i + 1] : members.front() + length;
    use.steps[static_cast<std::size_t>(members[i])] = next - members[i];
    if (next - members[i] > use.steps[static_cast<std::size_t>(longest)]) longest = members[i];
  }
  // The way back is shorter than a gap of more than half of the ring.
  if (!is_ring) longest = members.back();
  use.ways = is_ring && 2 * use.steps[static_cast<std::size_t>(longest)] <= length ? 2 : 1;
  if (use.ways == 1) use.steps[static_cast<std::size_t>(longest)] = 0;
  double links = 0;
  for (const int steps : use.steps) links += steps;
  use.spread = links / static_cast<double>(use.ways == 2 ? members.size() : members.size() - 1);
  return use;
}

// From a member to the next one along the axis, both ways.
void add_walk(const Graph& graph, int device, std::size_t axis, const AxisUse& use, int steps, TorusUse& all) {
  const ScaleUpRoutes& torus = graph.scale_up;
  const std::size_t before = all.loads.size();
  int at = device;
  bool whole = true;
  for (int i = 0; i < steps; ++i) {
    const int link = torus.plus[static_cast<std::size_t>(at) * torus.shape.size() + axis];
    at = graph.links[static_cast<std::size_t>(link)].to;
    for (const int way : {link, link ^ 1}) {
      whole = whole && graph.links[static_cast<std::size_t>(way)].bytes_per_s > 0;
      all.loads.push_back({way, static_cast<float>(use.share)});
    }
  }
  if (whole) return;
  all.loads.resize(before);
  all.hops.push_back({device, at, use.share});
}

TorusUse ring_of(const std::vector<int>& devices) {
  TorusUse use;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    use.hops.push_back({devices[i], devices[(i + 1) % devices.size()], 0.5});
  }
  return use;
}

}  // namespace

std::vector<double> torus_axis_rates(const Graph& graph) {
  const ScaleUpRoutes& torus = graph.scale_up;
  std::vector<double> rates(torus.shape.size(), 0);
  for (std::size_t i = 0; i < torus.plus.size(); ++i) {
    if (torus.plus[i] < 0) continue;
    double& rate = rates[i % rates.size()];
    rate = std::max(rate, graph.links[static_cast<std::size_t>(torus.plus[i])].bytes_per_s);
  }
  return rates;
}

TorusUse torus_use(const Graph& graph, const std::vector<double>& axis_rates, const std::vector<int>& devices) {
  const ScaleUpRoutes& torus = graph.scale_up;
  const std::vector<std::vector<bool>> taken = coordinates(torus, devices);
  std::vector<AxisUse> axes;
  std::size_t combinations = 1;
  double rate = 0;
  for (std::size_t axis = 0; axis < taken.size(); ++axis) {
    combinations *= static_cast<std::size_t>(std::count(taken[axis].begin(), taken[axis].end(), true));
    axes.push_back(axis_use(taken[axis], closes(torus, taken, axis)));
    rate += axes.back().ways * axis_rates[axis] / axes.back().spread;
  }
  if (combinations != devices.size() || !(rate > 0)) return ring_of(devices);
  TorusUse use;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    axes[axis].share = axis_rates[axis] / axes[axis].spread / rate;
    if (axes[axis].ways > 0) use.byte_s = std::max(use.byte_s, axes[axis].share / axis_rates[axis]);
    for (const int device : devices) {
      const int steps = axes[axis].steps[static_cast<std::size_t>(coordinate(torus, device, axis))];
      if (steps > 0) add_walk(graph, device, axis, axes[axis], steps, use);
    }
  }
  return use;
}

}  // namespace twinpod::sim
