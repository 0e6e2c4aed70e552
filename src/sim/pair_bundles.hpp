// Pieces of pair_load: routes of an all-to-all laid on the links, one by one or in bundles.
#pragma once

#include "sim/network_share.hpp"

namespace twinpod::sim {

struct Loads {
  std::vector<double> bytes;  // of each link
  std::vector<int> path;      // scratch
};

// One byte from one device to another, over as many ports of its NICs.
void add_route(const cluster::Graph& graph, int from, int to, cluster::Routing routing, Loads& loads,
               int nic_ports = 1);

// Between all devices of the torus that begins with a device. REQUIRES: has_uniform_tori; kinds are torus_link_kinds.
void add_torus_domain(const cluster::Graph& graph, int first, cluster::Routing routing, const std::vector<int>& kinds,
                      Loads& loads);

// Whether routes depend on nothing but their ends.
bool is_fixed(const cluster::Graph& graph, cluster::Routing routing);

// Through a fabric, by what flows have in common. Next to cuts inside nodes routes are looked at one by one: so many.
double routes_near_cuts(const cluster::Graph& graph, const CollectiveGroups& groups);
void add_bundles(const cluster::Graph& graph, const CollectiveGroups& groups, cluster::Routing routing, Loads& loads);

}  // namespace twinpod::sim
