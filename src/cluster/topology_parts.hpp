// The parts that build_graph puts together, one file each. Only the builders of this folder use them.
#pragma once

#include <vector>

#include "cluster/graph.hpp"
#include "core/error.hpp"
#include "spec/cluster.hpp"

namespace twinpod::cluster {

// Sizes of the machine that is built. Nodes are whole, also when a job uses a part of the last one.
struct Machine {
  const spec::Cluster& cluster;
  int nodes = 1;
  int devices = 1;  // nodes * devices_per_node, or the chips of all tori
  int domain = 1;   // devices of a scale-up domain
  int domains = 1;
  int nics = 0;                // of a node
  double nic_bytes_per_s = 0;  // of one NIC, all its ports
  std::vector<int> shape;      // torus
  std::vector<bool> wraps;
};

Result<Machine> machine_of(const spec::Cluster& cluster);

// Axes of a torus of so many chips, as even as can be; multiples of `cube` where that is possible.
std::vector<int> even_shape(int chips, int axes, int cube);
std::vector<bool> wraps_of(const spec::Topology& topology, const std::vector<int>& shape);

// Scale-up domains. REQUIRES: the devices are the first vertices of the graph.
Result<void> add_switched(const Machine& machine, Graph& graph);
Result<void> add_mesh(const Machine& machine, Graph& graph);
Result<void> add_torus(const Machine& machine, Graph& graph);

// PCIe switches and NICs of all nodes; the NICs have no ports yet.
void add_hosts(const Machine& machine, Graph& graph);

// The network between the NICs.
Result<void> add_tree(const Machine& machine, Graph& graph);
Result<void> add_dragonfly(const Machine& machine, Graph& graph);

Result<Graph> custom_graph(const spec::Cluster& cluster);

// One-way latency of a NIC with its cable, when the way through `switches` switches takes what the cluster's file says.
double nic_latency_s(const spec::Cluster& cluster, int switches);

// Of one link of the scale-up network. Recalled for NVLink and xGMI; TPU: the worked examples of "How to scale your
// model" (github.com/jax-ml/scaling-book) take 1 us a hop.
inline constexpr double kSwitchedLinkLatency = 5e-7;
inline constexpr double kTorusLinkLatency = 1e-6;

inline constexpr int kDefaultRadix = 64;

}  // namespace twinpod::cluster
