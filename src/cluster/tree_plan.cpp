#include "cluster/tree_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace twinpod::cluster {
namespace {

using spec::Fabric;

constexpr int kMostTiers = 8;

int divided_up(long long a, long long b) { return static_cast<int>((a + b - 1) / b); }

// The smallest divisor of n that is at least `least`; 0: there is none.
int divisor_from(int n, int least) {
  for (int d = std::max(1, least); d <= n; ++d) {
    if (n % d == 0) return d;
  }
  return 0;
}

struct RailSizes {
  int units = 1, rails = 1, planes = 1;
  int leaf_up = 1;
  int radix = kDefaultRadix;
  bool apart = false;  // rails never meet

  int leaves_of_plane() const { return units * rails; }
  // Leaves that must meet in the end.
  int leaves_that_meet() const { return apart ? units : leaves_of_plane(); }
  int leaf(int unit, int rail, int plane) const { return (unit * rails + rail) * planes + plane; }
  int tops() const { return planes * (apart ? rails : 1); }
  int top_of(int rail, int plane) const { return apart ? rail * planes + plane : plane; }
};

TierPlan rail_leaves(const RailSizes& sizes) {
  TierPlan leaves;
  leaves.groups = sizes.units * sizes.rails * sizes.planes;
  leaves.up = sizes.leaf_up;
  return leaves;
}

void two_rail_tiers(const RailSizes& sizes, int spines, TreePlan& plan) {
  TierPlan leaves = rail_leaves(sizes);
  leaves.parent.resize(static_cast<std::size_t>(leaves.groups));
  for (int u = 0; u < sizes.units; ++u) {
    for (int r = 0; r < sizes.rails; ++r) {
      for (int p = 0; p < sizes.planes; ++p) {
        leaves.parent[static_cast<std::size_t>(sizes.leaf(u, r, p))] = sizes.top_of(r, p);
      }
    }
  }
  TierPlan top;
  top.groups = sizes.tops();
  top.per_group = spines;
  plan.tiers = {leaves, top};
}

// As many blocks as divide the spines of a group, such that each spine has as many links to each core of its block.
int num_blocks(int spines, int cores, int spine_up) {
  for (int blocks = spines; blocks > 1; --blocks) {
    if (spines % blocks == 0 && cores % blocks == 0 && spine_up % (cores / blocks) == 0) return blocks;
  }
  return 1;
}

// One way to build three tiers: so many units in a pod.
struct RailPods {
  int pod_units = 1;
  int pods = 1;
  int spines = 0;  // of a pod and rail; 0: it cannot be done
  int spine_up = 1;
  int cores = 1;  // of a plane, or of a rail of it
  int blocks = 1;
  bool reaches() const { return spines > 0 && cores / blocks <= spine_up; }
};

RailPods rail_pods(const spec::Topology& topology, const RailSizes& sizes, int pod_units) {
  RailPods p;
  p.pod_units = pod_units;
  p.pods = divided_up(sizes.units, pod_units);
  const int least = divided_up(2LL * pod_units * sizes.leaf_up, sizes.radix);
  p.spines = topology.spines > 0 ? topology.spines : divisor_from(sizes.leaf_up, least);
  if (p.spines == 0) return p;
  p.spine_up = topology.spine_up > 0 ? topology.spine_up : divided_up(1LL * pod_units * sizes.leaf_up, p.spines);
  const long long links = 1LL * p.pods * (sizes.apart ? 1 : sizes.rails) * p.spines * p.spine_up;
  p.cores = topology.cores > 0 ? topology.cores : divided_up(links, sizes.radix);
  p.blocks = num_blocks(p.spines, p.cores, p.spine_up);
  return p;
}

Result<void> three_rail_tiers(const spec::Topology& topology, const RailSizes& sizes, TreePlan& plan) {
  // Larger pods where the ports of a core do not reach all groups of spines.
  const int most = std::max(1, sizes.radix / 2);
  const int even = divided_up(sizes.units, divided_up(sizes.units, most));
  RailPods p = rail_pods(topology, sizes, topology.pod_units > 0 ? std::min(topology.pod_units, sizes.units) : even);
  while (!p.reaches() && p.pod_units < sizes.units) {
    p = rail_pods(topology, sizes, std::min(2 * p.pod_units, sizes.units));
  }
  if (!p.reaches()) {
    return input_error(fmt::format("{} units of {} rails are too many for three tiers of {}-port switches", sizes.units,
                                   sizes.rails, sizes.radix),
                       "use switches with more ports, or fabric: fat_tree");
  }
  TierPlan leaves = rail_leaves(sizes);
  leaves.parent.resize(static_cast<std::size_t>(leaves.groups));
  TierPlan middle;
  middle.groups = p.pods * sizes.rails * sizes.planes;
  middle.per_group = p.spines;
  middle.up = p.spine_up;
  middle.parent.resize(static_cast<std::size_t>(middle.groups));
  for (int u = 0; u < sizes.units; ++u) {
    for (int r = 0; r < sizes.rails; ++r) {
      for (int plane = 0; plane < sizes.planes; ++plane) {
        const int group = (u / p.pod_units * sizes.rails + r) * sizes.planes + plane;
        leaves.parent[static_cast<std::size_t>(sizes.leaf(u, r, plane))] = group;
        middle.parent[static_cast<std::size_t>(group)] = sizes.top_of(r, plane);
      }
    }
  }
  TierPlan top;
  top.groups = sizes.tops();
  top.per_group = p.cores;
  top.blocks = p.blocks;
  plan.tiers = {leaves, middle, top};
  return {};
}

Result<TreePlan> rail_plan(const Machine& machine, bool apart) {
  const spec::Topology& topology = machine.cluster.topology;
  TreePlan plan;
  plan.by_rail = true;
  plan.radix = topology.radix > 0 ? topology.radix : kDefaultRadix;
  plan.rails = machine.nics;
  plan.planes = topology.planes;
  plan.unit_nodes = topology.unit_nodes > 0 ? topology.unit_nodes : std::min(plan.radix / 2, machine.nodes);
  RailSizes sizes;
  sizes.units = divided_up(machine.nodes, plan.unit_nodes);
  sizes.rails = plan.rails;
  sizes.planes = plan.planes;
  sizes.radix = plan.radix;
  sizes.apart = apart;
  sizes.leaf_up = topology.leaf_up > 0 ? topology.leaf_up : plan.unit_nodes;
  if (sizes.leaves_that_meet() == 1) {
    plan.tiers = {rail_leaves(sizes)};
    plan.tiers[0].up = 0;
    return plan;
  }
  const long long links = static_cast<long long>(sizes.leaves_that_meet()) * sizes.leaf_up;
  const int least = divided_up(links, plan.radix);
  const int spines = topology.spines > 0 && topology.cores == 0 ? topology.spines : divisor_from(sizes.leaf_up, least);
  if (spines > 0 && topology.tiers != 3) {
    two_rail_tiers(sizes, spines, plan);
    return plan;
  }
  const Result<void> planned = three_rail_tiers(topology, sizes, plan);
  if (!planned) return tl::unexpected(planned.error());
  return plan;
}

// Ports of a leaf down and up.
struct LeafPorts {
  int down = 1;
  int up = 1;
};

Result<LeafPorts> leaf_ports(const Machine& machine, int radix) {
  const spec::Topology& topology = machine.cluster.topology;
  LeafPorts ports;
  const double o = topology.oversubscription;
  if (topology.leaf_nodes > 0) {
    ports.down = topology.leaf_nodes * machine.nics;
    ports.up = std::max(1, static_cast<int>(std::ceil(ports.down / o - 1e-9)));
  } else {
    // Leaves of what is plugged in as a whole: nodes, where a leaf has room for one.
    ports.up = std::max(1, static_cast<int>(radix / (1 + o)));
    ports.down = radix - ports.up;
    if (ports.down > machine.nics) ports.down -= ports.down % machine.nics;
  }
  if (topology.leaf_up > 0) ports.up = topology.leaf_up;
  if (ports.down >= 1 && (ports.down + ports.up <= radix || topology.uplink_bytes_per_s > 0)) return ports;
  return input_error(fmt::format("leaf0 would need {} ports, but has {}", ports.down + ports.up, radix),
                     "use switches with more ports, fewer nodes at a leaf, or more oversubscription");
}

// Joins groups of the last tier by one more tier. The top sees all of them; else as many as half the ports allow.
struct NextTier {
  int children = 0;  // of a group
  int spread = 0;    // switches of a block
  bool top = false;
};

NextTier next_tier(const spec::Topology& topology, const TreePlan& plan) {
  const TierPlan& last = plan.tiers.back();
  const std::size_t number = plan.tiers.size();
  NextTier next;
  const int tops = divided_up(static_cast<long long>(last.groups) * last.up, plan.radix);
  const bool pods_asked = number == 1 && topology.pod_leaves > 0 && last.groups > topology.pod_leaves;
  const bool deeper = static_cast<int>(number) + 1 < topology.tiers && last.groups > plan.radix / 2;
  next.top = tops <= last.up && last.groups <= plan.radix && !pods_asked && !deeper;
  next.children = next.top ? last.groups : std::min(last.groups, std::max(2, plan.radix / 2));
  if (pods_asked) next.children = topology.pod_leaves;
  const int ports = next.top || pods_asked ? plan.radix : plan.radix / 2;
  next.spread = divided_up(static_cast<long long>(next.children) * last.up, ports);
  if (number == 1 && topology.spines > 0) next.spread = topology.spines;
  if (next.top && number > 1 && topology.cores > 0) {
    next.spread = divided_up(topology.cores, last.per_group <= topology.cores ? last.per_group : topology.cores);
  }
  return next;
}

Result<void> add_next_tier(const spec::Topology& topology, double oversubscription, TreePlan& plan) {
  TierPlan& last = plan.tiers.back();
  const NextTier next = next_tier(topology, plan);
  TierPlan tier;
  tier.groups = divided_up(last.groups, next.children);
  const bool one_block = next.top && plan.tiers.size() > 1 && topology.cores > 0 && topology.cores <= last.up;
  tier.blocks = one_block ? 1 : last.per_group;
  tier.per_group = one_block ? topology.cores : tier.blocks * next.spread;
  const int of_block = tier.per_group / tier.blocks;
  if (of_block > last.up) {
    return input_error(fmt::format("{} switches of {} links up cannot reach {} switches above each of them",
                                   last.groups * last.per_group, last.up, of_block),
                       "use switches with more ports, or more tiers");
  }
  const int down = divided_up(static_cast<long long>(next.children) * last.up, of_block);
  if (tier.groups > 1) {
    tier.up = std::max(1, static_cast<int>(std::lround(down / oversubscription)));
    if (plan.tiers.size() == 1 && topology.spine_up > 0) tier.up = topology.spine_up;
    tier.up = std::min(tier.up, std::max(1, plan.radix - down));
  }
  last.parent.resize(static_cast<std::size_t>(last.groups));
  for (int g = 0; g < last.groups; ++g) last.parent[static_cast<std::size_t>(g)] = g / next.children;
  plan.tiers.push_back(tier);
  return {};
}

Result<TreePlan> fat_tree_plan(const Machine& machine) {
  spec::Topology topology = machine.cluster.topology;
  TreePlan plan;
  plan.radix = topology.radix > 0 ? topology.radix : kDefaultRadix;
  plan.planes = topology.planes;
  const Result<LeafPorts> ports = leaf_ports(machine, plan.radix);
  if (!ports) return tl::unexpected(ports.error());
  const long long endpoints = static_cast<long long>(machine.nodes) * machine.nics;
  plan.leaf_down = ports->down;
  TierPlan leaves;
  leaves.groups = divided_up(endpoints, ports->down);
  leaves.up = ports->up;
  plan.tiers.push_back(leaves);
  // A cluster whose file knows of a slower part beyond some devices, and of no wiring, has pods of that many.
  double oversubscription = 1;
  const spec::Cluster& cluster = machine.cluster;
  if (!topology.written && cluster.oversubscription > 1 && cluster.non_blocking_devices > 0) {
    oversubscription = cluster.oversubscription;
    const int nics = cluster.non_blocking_devices / cluster.devices_per_node * machine.nics;
    topology.pod_leaves = std::clamp(divided_up(nics, ports->down), 1, plan.radix / 2);
  }
  while (plan.tiers.back().groups > 1) {
    if (static_cast<int>(plan.tiers.size()) == kMostTiers) {
      return input_error(
          fmt::format("{} NICs need more than {} tiers of {}-port switches", endpoints, kMostTiers, plan.radix),
          "use switches with more ports");
    }
    const Result<void> added = add_next_tier(topology, oversubscription, plan);
    if (!added) return tl::unexpected(added.error());
  }
  plan.tiers.back().up = 0;
  if (topology.tiers > 0 && static_cast<int>(plan.tiers.size()) > topology.tiers) {
    return input_error(fmt::format("{} NICs need {} tiers of {}-port switches, but tiers is {}", endpoints,
                                   plan.tiers.size(), plan.radix, topology.tiers),
                       fmt::format("write tiers: {}, or a larger radix", plan.tiers.size()));
  }
  return plan;
}

}  // namespace

Result<TreePlan> tree_plan(const Machine& machine) {
  const Fabric fabric = machine.cluster.topology.fabric;
  if (fabric == Fabric::rail_only) return rail_plan(machine, true);
  const bool rails = machine.nics > 1 && machine.nics <= 16;
  if (fabric == Fabric::rail_fat_tree) return rail_plan(machine, false);
  const bool slower_beyond = machine.cluster.oversubscription > 1 && machine.cluster.non_blocking_devices > 0;
  if (fabric == Fabric::automatic && rails && !slower_beyond) {
    Result<TreePlan> plan = rail_plan(machine, false);
    if (plan) return plan;  // else too large for three tiers
  }
  return fat_tree_plan(machine);
}

}  // namespace twinpod::cluster
