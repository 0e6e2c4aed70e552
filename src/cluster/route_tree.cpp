#include <algorithm>
#include <array>

#include "cluster/route_parts.hpp"

namespace twinpod::cluster {
namespace {

constexpr std::size_t kMostTiers = 8;

// The number that a fixed route is made of. At the leaf it is the destination's slot; above, which of the links that a
// switch has to the destination's group. Flows to different destinations below one leaf then never share a link on the
// way down (d-mod-k routing, Zahavi 2010, https://doi.org/10.1002/cpe.1646).
int next_key(int picked, int links, int spread, int local) {
  return local * std::max(1, links / spread) + picked / spread;
}

}  // namespace

bool append_tree(const Graph& graph, int from_leaf, const NicPort& to, bool fixed, Chooser& chooser,
                 std::vector<int>& links) {
  const TreeRoutes& tree = graph.tree;
  std::array<int, kMostTiers> goal{};  // groups of the destination, tier by tier
  goal[0] = to.leaf;
  std::array<int, kMostTiers> key{};
  key[0] = to.slot;
  int at = from_leaf;
  int group = from_leaf;
  std::size_t t = 0;
  while (group != goal[t]) {
    const TreeRoutes::Tier& tier = tree.tiers[t];
    if (t + 1 == tree.tiers.size()) return false;
    const int first = tree.first_up[at];
    const int count = tree.first_up[at + 1] - first;
    const int picked = fixed ? key[t] % count : chooser.of(count);
    links.push_back(tree.up[first + picked]);
    at = graph.links[links.back()].to - tree.first_vertex;
    key[t + 1] = next_key(picked, count, tree.tiers[t + 1].spread, tier.local[goal[t]]);
    group = tier.parent[group];
    goal[t + 1] = tier.parent[goal[t]];
    ++t;
  }
  for (; t > 0; --t) {
    const int place = tree.down_table[at] + tree.tiers[t - 1].local[goal[t - 1]];
    const int first = tree.first_down[place];
    const int count = tree.first_down[place + 1] - first;
    if (count == 0) return false;
    // A core may reach several spines of a group: destinations below one leaf spread over them by their slots.
    const int slot = t > 1 ? key[0] : 0;
    const int picked = fixed ? (key[t - 1] / tree.tiers[t].spread + slot) % count : chooser.of(count);
    links.push_back(tree.down[first + picked]);
    at = graph.links[links.back()].to - tree.first_vertex;
  }
  return true;
}

bool append_dragonfly(const Graph& graph, int from_router, int to_router, Chooser& chooser, std::vector<int>& links) {
  const DragonflyRoutes& fly = graph.dragonfly;
  const int from_group = from_router / fly.routers;
  const int to_group = to_router / fly.routers;
  int at = from_router;
  if (from_group != to_group) {
    const std::size_t pair = static_cast<std::size_t>(from_group) * fly.groups + to_group;
    const int across = fly.global[pair * fly.per_pair + chooser.of(fly.per_pair)];
    const int gate = graph.links[across].from - fly.first_vertex;
    if (gate != at) links.push_back(fly.local[static_cast<std::size_t>(at) * fly.routers + gate % fly.routers]);
    links.push_back(across);
    at = graph.links[across].to - fly.first_vertex;
  }
  if (at != to_router) links.push_back(fly.local[static_cast<std::size_t>(at) * fly.routers + to_router % fly.routers]);
  return true;
}

}  // namespace twinpod::cluster
