#include "cluster/fabric_load.hpp"

#include <algorithm>
#include <utility>

namespace twinpod::cluster {

FabricLoads::FabricLoads(const Graph& graph) : bytes(graph.links.size()), graph_(graph) {
  first_vertex_ = graph.dragonfly.groups > 0 ? graph.dragonfly.first_vertex : graph.tree.first_vertex;
  const std::size_t switches = graph.vertices.size() - static_cast<std::size_t>(first_vertex_);
  behind_.reserve(graph.links.size());
  for (const GraphLink& link : graph.links) behind_.push_back(link.to - first_vertex_);
  met_.assign(switches, -1);
  has_cuts_ = graph.num_cut > 0 && std::any_of(graph.links.begin(), graph.links.end(), [&](const GraphLink& link) {
                return link.bytes_per_s <= 0 && link.from >= first_vertex_ && link.to >= first_vertex_;
              });
}

int next_key(int picked, int links, int spread, int local) {
  return local * std::max(1, links / spread) + picked / spread;
}

// Adds to what is being collected: traffic with the same keys in the same switch is one.
void FabricLoads::meet(std::vector<Arrived>& there, int link, const Arrived& arrived) {
  load(link, arrived.bytes);
  const int at = switch_behind(link);
  int& place = met_[static_cast<std::size_t>(at)];
  if (place >= 0 && there[static_cast<std::size_t>(place)].key == arrived.key) {
    there[static_cast<std::size_t>(place)].bytes += arrived.bytes;
    return;
  }
  place = static_cast<int>(there.size());
  there.push_back(arrived);
  there.back().at = at;
}

// How many ways lead to the destination from a switch. Where links are cut, traffic is shared out by these, so that it
// is the same on all ways that are left.
double FabricLoads::ways_from(int at, int group, std::size_t tier) {
  double& known = ways_[static_cast<std::size_t>(at)];
  if (known >= 0) return known;
  const TreeRoutes& tree = graph_.tree;
  double ways = 0;
  if (group == goal_[tier]) {
    const int place = tier == 0 ? 0 : tree.down_table[at] + tree.tiers[tier - 1].local[goal_[tier - 1]];
    if (tier == 0) ways = 1;
    for (int i = tree.first_down[place]; tier > 0 && i < tree.first_down[place + 1]; ++i) {
      ways += ways_by(tree.down[i], goal_[tier - 1], tier - 1);
    }
  } else if (tier + 1 < tree.tiers.size()) {
    for (int i = tree.first_up[at]; i < tree.first_up[at + 1]; ++i) {
      ways += ways_by(tree.up[i], tree.tiers[tier].parent[group], tier + 1);
    }
  }
  ways_[static_cast<std::size_t>(at)] = ways;
  return ways;
}

// By a link; `group` and `tier` are those of the switch behind it.
double FabricLoads::ways_by(int link, int group, std::size_t tier) {
  if (!has_cuts_) return 1;
  return is_cut(link) ? 0 : ways_from(switch_behind(link), group, tier);
}

// Sends what has arrived over the fixed one of some links, or, if that is cut or there is none, over all.
template <typename Take>
void FabricLoads::share_out(const int* links, int count, int fixed, int group, std::size_t tier, const Take& take) {
  if (fixed >= 0 && ways_by(links[fixed], group, tier) > 0) return take(fixed, 1.0);
  double all = 0;
  for (int i = 0; i < count; ++i) all += ways_by(links[i], group, tier);
  for (int i = 0; i < count; ++i) {
    const double ways = ways_by(links[i], group, tier);
    if (ways > 0) take(i, ways / all);
  }
}

void FabricLoads::climb(const Arrived& from, std::size_t tier, bool fixed) {
  const TreeRoutes& tree = graph_.tree;
  const int* const links = tree.up.data() + tree.first_up[from.at];
  const int count = tree.first_up[from.at + 1] - tree.first_up[from.at];
  const int group = tree.tiers[tier].parent[from.group];
  const int local = tree.tiers[tier].local[goal_[tier]];
  const int spread = tree.tiers[tier + 1].spread;
  share_out(links, count, fixed ? from.key[tier] % count : -1, group, tier + 1, [&](int picked, double share) {
    Arrived arrived{0, group, from.key, from.bytes * share, picked, count};
    if (fixed) arrived.key[tier + 1] = next_key(picked, count, spread, local);
    meet(up_, links[picked], arrived);
  });
}

void FabricLoads::descend(const Arrived& from, std::size_t tier, bool fixed) {
  const TreeRoutes& tree = graph_.tree;
  const int place = tree.down_table[from.at] + tree.tiers[tier - 1].local[goal_[tier - 1]];
  const int* const links = tree.down.data() + tree.first_down[place];
  const int count = tree.first_down[place + 1] - tree.first_down[place];
  const int slot = tier > 1 ? slot_ : 0;
  const int picked = fixed ? (from.key[tier - 1] / tree.tiers[tier].spread + slot) % count : -1;
  share_out(links, count, picked, goal_[tier - 1], tier - 1, [&](int i, double share) {
    meet(down_, links[i], {0, goal_[tier - 1], from.key, from.bytes * share});
  });
}

// Any of the links that join the two groups, and the links inside the groups to its ends.
bool FabricLoads::spread_dragonfly(const FabricSource& source, int to_router) {
  const DragonflyRoutes& fly = graph_.dragonfly;
  const int from_group = source.leaf / fly.routers;
  const int to_group = to_router / fly.routers;
  const auto inside = [&](int a, int b) {
    return a == b ? -1 : fly.local[static_cast<std::size_t>(a) * fly.routers + b % fly.routers];
  };
  const auto intact = [&](int link) { return link < 0 || !is_cut(link); };
  if (from_group == to_group) {
    const int link = inside(source.leaf, to_router);
    if (link >= 0 && intact(link)) load(link, source.bytes);
    return intact(link);
  }
  const std::size_t pair = static_cast<std::size_t>(from_group) * fly.groups + to_group;
  const auto each = [&](const auto& visit) {
    for (int k = 0; k < fly.per_pair; ++k) {
      const int across = fly.global[pair * fly.per_pair + k];
      const GraphLink& link = graph_.links[static_cast<std::size_t>(across)];
      const std::array<int, 3> path = {inside(source.leaf, link.from - first_vertex_), across,
                                       inside(link.to - first_vertex_, to_router)};
      if (!has_cuts_ || std::all_of(path.begin(), path.end(), intact)) visit(path);
    }
  };
  int usable = 0;
  each([&](const auto&) { ++usable; });
  each([&](const auto& path) {
    for (const int link : path) {
      if (link >= 0) load(link, source.bytes / usable);
    }
  });
  return usable > 0;
}

void FabricLoads::set_goal(const NicPort& to) {
  const TreeRoutes& tree = graph_.tree;
  // Ways are those to a leaf: destinations behind it share them.
  if (has_cuts_ && (to.leaf != goal_[0] || ways_.empty())) ways_.assign(met_.size(), -1);
  goal_[0] = to.leaf;
  slot_ = to.slot;
  for (std::size_t t = 0; t + 1 < tree.tiers.size(); ++t) goal_[t + 1] = tree.tiers[t].parent[goal_[t]];
  up_.clear();
}

// From the second tier, where up_ is, up and down again.
void FabricLoads::go_on(bool fixed) {
  const TreeRoutes& tree = graph_.tree;
  std::vector<std::vector<Arrived>> turning(tree.tiers.size());  // at the tier where they turn round
  for (std::size_t t = 1; !up_.empty(); ++t) {
    const std::vector<Arrived> here = std::exchange(up_, {});
    for (const Arrived& one : here) met_[static_cast<std::size_t>(one.at)] = -1;
    for (const Arrived& one : here) {
      if (one.group == goal_[t]) {
        turning[t].push_back(one);
      } else if (t + 1 < tree.tiers.size()) {
        climb(one, t, fixed);
      }
    }
  }
  down_.clear();
  for (std::size_t t = tree.tiers.size(); t-- > 1;) {
    const std::vector<Arrived> here = std::exchange(down_, {});
    for (const Arrived& one : here) met_[static_cast<std::size_t>(one.at)] = -1;
    for (const Arrived& one : here) descend(one, t, fixed);
    for (const Arrived& one : turning[t]) descend(one, t, fixed);
  }
  for (const Arrived& one : down_) met_[static_cast<std::size_t>(one.at)] = -1;
}

std::vector<FabricLoads::Arrived> FabricLoads::lift(const std::vector<FabricSource>& sources, int slot, bool fixed,
                                                    double destinations) {
  set_goal({0, 0, slot});
  Arrived start;
  start.key[0] = fixed ? slot : 0;
  for (const FabricSource& source : sources) {
    start.at = start.group = source.leaf;
    start.bytes = source.bytes * destinations;
    climb(start, 0, fixed);
  }
  for (Arrived& one : up_) {
    met_[static_cast<std::size_t>(one.at)] = -1;
    one.bytes /= destinations;
  }
  return std::exchange(up_, {});
}

void FabricLoads::spread_lifted(const std::vector<Arrived>& lifted, const std::vector<FabricSource>& besides,
                                const NicPort& to, bool fixed) {
  const TreeRoutes& tree = graph_.tree;
  set_goal(to);
  const int local = tree.tiers[0].local[goal_[0]];
  up_ = lifted;
  for (std::size_t i = 0; i < up_.size(); ++i) {
    if (fixed) up_[i].key[1] = next_key(up_[i].picked, up_[i].count, tree.tiers[1].spread, local);
    met_[static_cast<std::size_t>(up_[i].at)] = static_cast<int>(i);
  }
  Arrived start;
  start.key[0] = fixed ? to.slot : 0;
  for (const FabricSource& source : besides) {
    start.at = start.group = source.leaf;
    start.bytes = source.bytes;
    climb(start, 0, fixed);
  }
  go_on(fixed);
}

std::vector<FabricSource> FabricLoads::spread(const std::vector<FabricSource>& sources, const NicPort& to, bool fixed) {
  std::vector<FabricSource> stuck;
  if (graph_.dragonfly.groups > 0) {
    for (const FabricSource& source : sources) {
      if (source.leaf != to.leaf && !spread_dragonfly(source, to.leaf)) stuck.push_back(source);
    }
    return stuck;
  }
  set_goal(to);
  Arrived start;
  start.key[0] = fixed ? to.slot : 0;
  for (const FabricSource& source : sources) {
    if (source.leaf == to.leaf) continue;
    const bool joined = graph_.tree.tiers.size() > 1 && (!has_cuts_ || ways_from(source.leaf, source.leaf, 0) > 0);
    if (!joined) {
      stuck.push_back(source);
      continue;
    }
    start.at = start.group = source.leaf;
    start.bytes = source.bytes;
    climb(start, 0, fixed);
  }
  go_on(fixed);
  return stuck;
}

}  // namespace twinpod::cluster
