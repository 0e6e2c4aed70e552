// Trees of switches, wired as their plan says (tree_plan.hpp).
#include <fmt/format.h>

#include <array>
#include <numeric>

#include "cluster/topology_parts.hpp"
#include "cluster/tree_plan.hpp"

namespace twinpod::cluster {
namespace {

using spec::Fabric;

std::string tier_name(std::size_t tier) {
  constexpr std::array kNames = {"leaf", "spine", "core"};
  return tier < kNames.size() ? kNames[tier] : fmt::format("core{}", tier - 1);
}

void add_switches(const TreePlan& plan, double port_bytes_per_s, Graph& graph) {
  graph.tree.first_vertex = static_cast<int>(graph.vertices.size());
  int first = 0;
  for (std::size_t t = 0; t < plan.tiers.size(); ++t) {
    const TierPlan& tier = plan.tiers[t];
    TreeRoutes::Tier routes{
        first, tier.per_group, tier.per_group / tier.blocks, tier.parent, {}, std::vector<int>(tier.groups, 0)};
    routes.local.resize(tier.parent.size());
    const int number = vertex_tier(graph, tier_name(t));
    graph.port_bytes_per_s[static_cast<std::size_t>(number)] = port_bytes_per_s;
    const int count = tier.groups * tier.per_group;
    for (int s = 0; s < count; ++s) add_vertex(graph, {number, -1, s, plan.radix, 1});
    first += count;
    graph.tree.tiers.push_back(std::move(routes));
  }
  for (std::size_t t = 0; t + 1 < plan.tiers.size(); ++t) {
    TreeRoutes::Tier& child = graph.tree.tiers[t];
    for (std::size_t g = 0; g < child.parent.size(); ++g) {
      child.local[g] = graph.tree.tiers[t + 1].children[child.parent[g]]++;
    }
  }
}

// Makes the newest link part of the cable before it.
void share_cable(Graph& graph, int link) {
  --graph.num_cables;
  for (const int l : {link, link + 1}) graph.links[l].cable = graph.num_cables - 1;
}

struct Up {
  int child = 0;   // number of the switch
  int parent = 0;  // number of the switch
  int local = 0;   // of the child's group below the parent
  int link = 0;
};

// Links between a tier and the next one.
void join_tiers(const Machine& machine, const TreePlan& plan, std::size_t t, double rate, std::vector<Up>& ups,
                Graph& graph) {
  const TierPlan& lower = plan.tiers[t];
  const TierPlan& upper = plan.tiers[t + 1];
  const TreeRoutes::Tier& routes = graph.tree.tiers[t];
  const int above = graph.tree.tiers[t + 1].first_switch;
  const int tier = cable_tier(graph, tier_name(t) + "_" + tier_name(t + 1));
  const int of_block = upper.per_group / upper.blocks;
  const double latency = machine.cluster.topology.switch_latency_s;
  const int together = machine.cluster.topology.links_per_cable;
  for (int s = 0; s < lower.groups * lower.per_group; ++s) {
    const int group = s / lower.per_group;
    const int block = s % lower.per_group * upper.blocks / lower.per_group;
    const int local = routes.local[static_cast<std::size_t>(group)];
    const int first = above + routes.parent[static_cast<std::size_t>(group)] * upper.per_group + block * of_block;
    for (int j = 0; j < lower.up; ++j) {
      // In turn, each child starting where the one before it ended, so that all switches above get as many.
      const int parent = first + static_cast<int>((static_cast<long long>(local) * lower.up + j) % of_block);
      const int child = routes.first_switch + s;
      const int link =
          add_cable(graph, graph.tree.first_vertex + child, graph.tree.first_vertex + parent, tier, rate, latency);
      if (j % together != 0) share_cable(graph, link);
      ups.push_back({child, parent, local, link});
    }
  }
}

void index_ups(const std::vector<Up>& ups, int switches, TreeRoutes& tree) {
  tree.first_up.assign(static_cast<std::size_t>(switches) + 1, 0);
  for (const Up& up : ups) ++tree.first_up[static_cast<std::size_t>(up.child) + 1];
  std::partial_sum(tree.first_up.begin(), tree.first_up.end(), tree.first_up.begin());
  tree.up.resize(ups.size());
  std::vector<int> next(tree.first_up.begin(), tree.first_up.end());
  for (const Up& up : ups) tree.up[static_cast<std::size_t>(next[static_cast<std::size_t>(up.child)]++)] = up.link;
}

void index_downs(const std::vector<Up>& ups, int switches, TreeRoutes& tree) {
  tree.down_table.assign(static_cast<std::size_t>(switches), 0);
  int places = 0;
  for (std::size_t t = 1; t < tree.tiers.size(); ++t) {
    const TreeRoutes::Tier& tier = tree.tiers[t];
    for (std::size_t g = 0; g < tier.children.size(); ++g) {
      for (int s = 0; s < tier.per_group; ++s) {
        const std::size_t number = static_cast<std::size_t>(tier.first_switch) + g * tier.per_group + s;
        tree.down_table[number] = places;
        places += tier.children[g];
      }
    }
  }
  tree.first_down.assign(static_cast<std::size_t>(places) + 1, 0);
  const auto place = [&](const Up& up) {
    return static_cast<std::size_t>(tree.down_table[up.parent]) + static_cast<std::size_t>(up.local);
  };
  for (const Up& up : ups) ++tree.first_down[place(up) + 1];
  std::partial_sum(tree.first_down.begin(), tree.first_down.end(), tree.first_down.begin());
  tree.down.resize(ups.size());
  std::vector<int> next(tree.first_down.begin(), tree.first_down.end());
  for (const Up& up : ups) tree.down[static_cast<std::size_t>(next[place(up)]++)] = up.link ^ 1;
}

NicPort port_of(const TreePlan& plan, int node, int nic, int port, int nics) {
  if (plan.by_rail) {
    const int unit = node / plan.unit_nodes;
    return {0, (unit * plan.rails + nic) * plan.planes + port, node % plan.unit_nodes};
  }
  const long long place = static_cast<long long>(node) * nics + nic;
  return {0, static_cast<int>(place / plan.leaf_down), static_cast<int>(place % plan.leaf_down)};
}

void plug_in_nics(const Machine& machine, const TreePlan& plan, Graph& graph) {
  const int tier = cable_tier(graph, "node_leaf");
  const int together = machine.cluster.topology.links_per_cable;
  const double hop = machine.cluster.topology.switch_latency_s;
  const double latency = nic_latency_s(machine.cluster, 2 * static_cast<int>(plan.tiers.size()) - 1);
  const double rate = machine.nic_bytes_per_s / plan.planes;
  for (std::size_t n = 0; n < graph.host.nic_link.size(); ++n) {
    graph.host.first_port.push_back(static_cast<int>(graph.host.ports.size()));
    const int vertex = graph.links[graph.host.nic_link[n]].to;
    const int node = static_cast<int>(n) / machine.nics;
    for (int p = 0; p < plan.planes; ++p) {
      NicPort port = port_of(plan, node, static_cast<int>(n) % machine.nics, p, machine.nics);
      port.link = add_cable(graph, vertex, graph.tree.first_vertex + port.leaf, tier, rate, latency);
      graph.links[port.link + 1].latency_s = hop;  // on the way back the switch is what takes time
      if (p % together != 0) share_cable(graph, port.link);
      graph.host.ports.push_back(port);
    }
  }
  graph.host.first_port.push_back(static_cast<int>(graph.host.ports.size()));
}

void add_managers(const Machine& machine, const TreePlan& plan, Graph& graph) {
  const int count = machine.cluster.topology.manager_cables;
  if (count == 0) return;
  const int vertices = vertex_tier(graph, "manager");
  const int cables = cable_tier(graph, "manager_leaf");
  for (int i = 0; i < count; ++i) {
    // On the last leaves, where a node was left out for them.
    const int leaf = plan.tiers[0].groups - 1 - i % plan.tiers[0].groups;
    const int manager = add_vertex(graph, {vertices, -1, i, 0, 1});
    add_cable(graph, manager, graph.tree.first_vertex + leaf, cables, machine.nic_bytes_per_s / plan.planes, 1e-6);
  }
}

std::string description(const Machine& machine, const TreePlan& plan) {
  const bool apart = machine.cluster.topology.fabric == Fabric::rail_only;
  const std::string kind = apart ? "rail-only fat trees" : plan.by_rail ? "rail-optimised fat tree" : "fat tree";
  const std::size_t tiers = plan.tiers.size();
  const std::string planes = plan.planes > 1 ? fmt::format(", {} planes", plan.planes) : "";
  return fmt::format("{}, {} tier{} of {}-port switches{}", kind, tiers, tiers == 1 ? "" : "s", plan.radix, planes);
}

}  // namespace

Result<void> add_tree(const Machine& machine, Graph& graph) {
  const Result<TreePlan> plan = tree_plan(machine);
  if (!plan) return tl::unexpected(plan.error());
  graph.fabric = description(machine, *plan);
  const double port_rate = machine.nic_bytes_per_s / plan->planes;
  const double written = machine.cluster.topology.uplink_bytes_per_s;
  add_switches(*plan, port_rate, graph);
  if (plan->by_rail) {
    graph.tree.unit_leaves = plan->rails * plan->planes;
    graph.tree.unit_nodes = plan->unit_nodes;
  }
  plug_in_nics(machine, *plan, graph);
  std::vector<Up> ups;
  for (std::size_t t = 0; t + 1 < plan->tiers.size(); ++t) {
    join_tiers(machine, *plan, t, written > 0 ? written : port_rate, ups, graph);
  }
  const TreeRoutes::Tier& top = graph.tree.tiers.back();
  const int switches = top.first_switch + plan->tiers.back().groups * top.per_group;
  index_ups(ups, switches, graph.tree);
  index_downs(ups, switches, graph.tree);
  add_managers(machine, *plan, graph);
  return {};
}

}  // namespace twinpod::cluster
