// PCIe switches and NICs of the nodes.
//
// Where a node has as many NICs as devices and no PCIe switch is known, each device has its own NICs. Else devices and
// NICs are spread evenly over the PCIe switches: DGX A100 has four, with two devices and two NICs each.
#include <algorithm>

#include "cluster/topology_parts.hpp"

namespace twinpod::cluster {
namespace {

int num_pcie_switches(const Machine& machine) {
  const int written = machine.cluster.node_topology.pcie_switches;
  const int devices = machine.cluster.devices_per_node;
  // Devices of one node that their scale-up network does not join meet in the host.
  if (machine.domain < devices) return std::max({1, written, devices / machine.domain});
  if (written > 0) return written;
  return machine.nics < devices ? machine.nics : 0;
}

struct HostTiers {
  int pcie = 0, host = 0, nic = 0;                                   // vertices
  int device_pcie = 0, pcie_host = 0, pcie_nic = 0, device_nic = 0;  // cables
};

HostTiers host_tiers(const Machine& machine, int switches, Graph& graph) {
  HostTiers tiers;
  if (switches > 0) {
    tiers.pcie = vertex_tier(graph, "pcie");
    tiers.device_pcie = cable_tier(graph, "device_pcie");
    tiers.pcie_nic = cable_tier(graph, "pcie_nic");
  } else {
    tiers.device_nic = cable_tier(graph, "device_nic");
  }
  if (machine.domain < machine.cluster.devices_per_node) {
    tiers.host = vertex_tier(graph, "host");
    tiers.pcie_host = cable_tier(graph, "pcie_host");
  }
  tiers.nic = vertex_tier(graph, "nic");
  return tiers;
}

// PCIe switches of one node and the cables to its devices; the number of the first one.
int add_pcie(const Machine& machine, const HostTiers& tiers, int node, int switches, double rate, Graph& graph) {
  const int devices = machine.cluster.devices_per_node;
  const int first = static_cast<int>(graph.vertices.size());
  for (int s = 0; s < switches; ++s) add_vertex(graph, {tiers.pcie, node, s, 0, 1});
  for (int i = 0; i < devices; ++i) {
    const int device = node * devices + i;
    if (device >= machine.devices) break;
    graph.host.device_link[static_cast<std::size_t>(device)] =
        add_cable(graph, device, first + i * switches / devices, tiers.device_pcie, rate, 0);
  }
  if (machine.domain < devices) {
    const int host = add_vertex(graph, {tiers.host, node, 0, 0, 1});
    for (int s = 0; s < switches; ++s) add_cable(graph, first + s, host, tiers.pcie_host, rate, kSwitchedLinkLatency);
  }
  return first;
}

}  // namespace

void add_hosts(const Machine& machine, Graph& graph) {
  const spec::Cluster& cluster = machine.cluster;
  const int devices = cluster.devices_per_node;
  const int switches = num_pcie_switches(machine);
  const HostTiers tiers = host_tiers(machine, switches, graph);
  const double written = cluster.node_topology.pcie_bytes_per_s;
  const double of_device = cluster.device.host_bytes_per_s;
  const double pcie = written > 0 ? written : of_device > 0 ? of_device : machine.nic_bytes_per_s;
  const double nic_rate = std::max(pcie, machine.nic_bytes_per_s);
  graph.host.nics_per_node = machine.nics;
  graph.host.device_link.assign(static_cast<std::size_t>(machine.devices), -1);
  for (int node = 0; node < machine.nodes; ++node) {
    const int first = switches > 0 ? add_pcie(machine, tiers, node, switches, pcie, graph) : 0;
    for (int n = 0; n < machine.nics; ++n) {
      const int owner = std::min(node * devices + n * devices / machine.nics, machine.devices - 1);
      const int from = switches > 0 ? first + n * switches / machine.nics : owner;
      const int nic = add_vertex(graph, {tiers.nic, node, n, 0, 1});
      const int tier = switches > 0 ? tiers.pcie_nic : tiers.device_nic;
      graph.host.nic_link.push_back(add_cable(graph, from, nic, tier, nic_rate, 0));
    }
  }
}

}  // namespace twinpod::cluster
