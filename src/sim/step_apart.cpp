#include "sim/step_apart.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace twinpod::sim {
namespace {

using Index = std::uint32_t;

// What joints put on a link, for a byte that a rank sends.
struct SharedLink {
  std::vector<std::pair<Index, double>> joints;  // in order, each once
  double capacity = 0;
  bool operator<(const SharedLink& other) const {
    return capacity != other.capacity ? capacity < other.capacity : joints < other.joints;
  }
};

void merge_joints(SharedLink& use) {
  std::stable_sort(use.joints.begin(), use.joints.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::size_t last = 0;
  for (std::size_t i = 1; i < use.joints.size(); ++i) {
    if (use.joints[i].first == use.joints[last].first) {
      use.joints[last].second += use.joints[i].second;
    } else {
      use.joints[++last] = use.joints[i];
    }
  }
  if (!use.joints.empty()) use.joints.resize(last + 1);
}

std::set<SharedLink> uses_of(const cluster::Graph& graph, const StepNetworks& networks) {
  std::vector<Index> place(graph.links.size(), kNone);
  std::vector<SharedLink> uses(networks.links.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const auto link = static_cast<std::size_t>(networks.links[i]);
    place[link] = static_cast<Index>(i);
    uses[i].capacity = graph.links[link].bytes_per_s;
  }
  const GroupLoads& groups = *networks.apart.groups;
  for (std::size_t g = 0; g + 1 < groups.first.size(); ++g) {
    for (Index l = groups.first[g]; l < groups.first[g + 1]; ++l) {
      const auto link = static_cast<std::size_t>(groups.loads[l].link);
      const Index at = link < place.size() ? place[link] : kNone;
      if (at == kNone) continue;
      const double load = static_cast<double>(groups.loads[l].share) * groups.filling[g];
      uses[at].joints.emplace_back(networks.apart.joint_of_group[g], load);
    }
  }
  std::set<SharedLink> different;
  for (SharedLink& use : uses) {
    merge_joints(use);
    different.insert(std::move(use));
  }
  return different;
}

// What is wanted of a link from a moment on, more or less than before.
struct Change {
  double time_s = 0;
  double bytes_per_s = 0;
};

bool is_full(const SharedLink& use, const std::vector<std::vector<Moving>>& moving) {
  // What follows each other touches but for rounding, which is no contention.
  constexpr double kRounding = 1e-12;
  constexpr double kFull = 1 + 1e-6;
  std::vector<Change> changes;
  for (const auto& [joint, load] : use.joints) {
    for (const Moving& one : moving[joint]) {
      const double begin = one.begin_s * (1 + kRounding);
      const double end = one.end_s * (1 - kRounding);
      if (end <= begin) continue;
      changes.push_back({begin, one.bytes_per_s * load});
      changes.push_back({end, -one.bytes_per_s * load});
    }
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.time_s != b.time_s ? a.time_s < b.time_s : a.bytes_per_s < b.bytes_per_s;
  });
  double wanted = 0;
  for (const Change& change : changes) {
    wanted += change.bytes_per_s;
    if (wanted > use.capacity * kFull) return true;
  }
  return false;
}

}  // namespace

bool in_the_way(const cluster::Graph& graph, const StepNetworks& networks,
                const std::vector<std::vector<Moving>>& moving) {
  const std::set<SharedLink> uses = uses_of(graph, networks);
  return std::any_of(uses.begin(), uses.end(), [&](const SharedLink& use) { return is_full(use, moving); });
}

}  // namespace twinpod::sim
