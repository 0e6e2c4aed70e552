// How the parts of a cluster are wired, as plain structs: what no bandwidth figure says.
//
// Everything has a default, so that a cluster without a `topology` can be drawn and simulated too: a node is one
// switch, a complete mesh or a torus by its kind of scale-up, and nodes are joined by a fat tree without
// oversubscription.
//
//     topology: {fabric: rail_fat_tree, unit_nodes: 20, radix: 40, switch_latency: 130 ns}     # of a cluster
//     topology: {switch_links: [2, 2, 2, 2, 2, 2], pcie_switches: 4}                           # of a node
#pragma once

#include <string>
#include <vector>

namespace twinpod::spec {

// Inside a scale-up domain.
struct NodeTopology {
  // Switched: links from each device to each switch chip, {5, 4, 4, 5} on a DGX H100; empty: one chip, one link.
  std::vector<int> switch_links;
  int switch_radix = 0;  // ports of a chip; 0: not known
  int boards = 1;        // that devices and chips are spread over; chip i of a board is joined to chip i of the next
  int board_links = 0;   // links of such a pair
  // A second level of chips that joins the nodes of one domain (CloudMatrix384).
  int upper_switches = 0;
  int upper_links = 0;  // from each chip of a node to the upper ones
  double upper_bytes_per_s = 0;
  int upper_radix = 0;
  // Mesh: links between each pair of devices; empty: each pair is joined by one link.
  std::vector<std::vector<int>> mesh_links;
  int links_per_pair = 1;                // of a complete mesh
  std::vector<int> shape;                // torus: lengths of the axes; empty: as square as it can be
  std::vector<double> axis_bytes_per_s;  // of one link, one direction; empty: all alike
  int pcie_switches = 0;                 // between devices and NICs; 0: as many as there are NICs, or one
  double pcie_bytes_per_s = 0;           // of one port; 0: that of the device's link to its host
  bool reduces = false;                  // the switches add up (NVLink SHARP)
};

enum class Fabric {
  automatic,      // rail_fat_tree where nodes have several NICs, else fat_tree
  none,           // nothing beyond the scale-up domain
  rail_fat_tree,  // NIC r of the nodes of a unit meet in leaf r of the unit; leaves meet in spines, spines in cores
  rail_only,      // the same, but rails never meet
  fat_tree,       // nodes fill leaf after leaf
  dragonfly,      // groups of routers, each pair of groups joined
  custom,         // vertices and links are written out
};

// Axes of a torus that close to a ring.
enum class Wrap {
  all,        // every axis longer than 2
  full,       // axes as long as in the whole pod
  multiples,  // axes whose length is a multiple of the cube's (optical circuit switches join cubes)
  none,
};

struct TopologyVertex {
  std::string name;
  std::string tier;  // "device" for what computes
  int count = 1;     // name0, name1, ... when above 1
  int radix = 0;     // 0: not limited
  int line = 0;      // of the file, for messages
};

struct TopologyLink {
  std::string from;
  std::string to;
  int cables = 1;
  double bytes_per_s = 0;  // one direction, of one cable
  double latency_s = 0;
  int line = 0;
};

struct Topology {
  bool written = false;  // false: nobody said how this cluster is wired; the graph is a guess
  Fabric fabric = Fabric::automatic;
  int radix = 0;                   // ports of a switch; 0: 64
  int unit_nodes = 0;              // rails: nodes of a scalable unit; 0: half the radix
  int pod_units = 0;               // rails, three tiers: units whose leaves of a rail share spines; 0: all
  int planes = 1;                  // networks that never meet, one port of each NIC on each
  int links_per_cable = 1;         // twin-port cables carry two
  int tiers = 0;                   // fat tree; 0: as few as it takes
  double oversubscription = 1;     // fat tree: ports down over ports up of a leaf
  int leaf_nodes = 0;              // fat tree: nodes under one leaf; 0: what the ports allow
  int leaf_up = 0;                 // links up of a leaf; 0: follows from the rest
  int pod_leaves = 0;              // fat tree: leaves of a pod
  int spines = 0;                  // of each pod or plane; 0: follows from the rest
  int spine_up = 0;                // links up of a spine; 0: follows from the rest
  int cores = 0;                   // 0: follows from the rest
  double uplink_bytes_per_s = 0;   // of one link between switches; 0: as the NICs
  double switch_latency_s = 2e-7;  // of one switch
  int manager_cables = 0;          // fabric managers on leaves
  int routers = 0;                 // dragonfly: routers of a group
  int terminals = 0;               // dragonfly: NICs of a router
  int global_links = 1;            // dragonfly: between each pair of groups
  bool reduces = false;            // the switches add up (SHARP)
  std::vector<int> shape;          // torus: axes of the pod
  std::vector<int> slice;          // torus: axes of the part that is used; empty: as many devices as the cluster has
  Wrap wrap = Wrap::all;
  int cube = 0;           // edge of the electrical cubes that optical circuit switches join; 0: none
  int circuit_ports = 0;  // of an optical circuit switch; 0: not known
  bool twisted = false;   // wraps of the short axes shift the long ones
  std::vector<TopologyVertex> vertices;
  std::vector<TopologyLink> links;
  std::string file;  // where vertices and links stand
};

// "16x16x16" as lengths; empty when it is no such text.
std::vector<int> parse_shape(const std::string& text);
std::string shape_text(const std::vector<int>& shape);

}  // namespace twinpod::spec
