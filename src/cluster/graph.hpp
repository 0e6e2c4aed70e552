// A cluster as a graph: devices, switches and NICs are vertices, each direction of a cable is a link.
//
//     Result<Graph> graph = build_graph(cluster);                     // topology.hpp
//     const int leaf = find_vertex(*graph, "leaf3");                  // -1: no such vertex
//     Result<std::vector<int>> links = find_links(*graph, "leaf3-spine2");
//     cut_links(*graph, *links);
//
// The two directions of a cable are links 2i and 2i+1, so the way back of link l is l ^ 1. Devices come first: device i
// is vertex i in every graph that a builder of this folder made of nodes; graph.devices[i] holds in all of them.
//
// Switch chips over which the hardware stripes every message (the six NVSwitches of a DGX A100) are one vertex with a
// `count`, and their cables one link with a number of `cables`: a message gets the bandwidth of all of them, as it does
// in the machine, and counts stay those of the machine. Cables between switches of a fabric are a link each, because a
// flow takes one of them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "spec/cluster.hpp"

namespace twinpod::cluster {

struct GraphLink {
  int from = 0;
  int to = 0;
  double bytes_per_s = 0;  // 0: cut
  double latency_s = 0;
  int tier = 0;    // index into graph.cable_tiers
  int cable = 0;   // both directions of a cable share it, and so do the links of a twin-port cable
  int cables = 1;  // striped over so many
};

struct Vertex {
  int tier = 0;   // index into graph.vertex_tiers: "device", "nvswitch", "pcie", "nic", "leaf", "spine", "core", ...
  int node = -1;  // that it is part of; -1: of none
  int index = 0;  // in its node, else among those of its tier
  int radix = 0;  // ports; 0: not known
  int count = 1;  // chips that act as one
};

// Switches through which no packet is routed: optical circuit switches.
struct PassiveSwitches {
  std::string tier;
  int count = 0;
  int ports_used = 0;  // of each
  int radix = 0;       // 0: not known
};

// A further count that people know a machine by: cubes of a TPU pod.
struct GraphFact {
  std::string key;
  std::string label;
  double value = 0;
};

// What routing knows about the inside of scale-up domains.
struct ScaleUpRoutes {
  spec::ScaleUpKind kind = spec::ScaleUpKind::none;
  int domain = 1;               // devices of a domain
  std::vector<int> up;          // switched: link from each device to its switch
  int first_switch = 0;         // vertex
  std::vector<int> trunk;       // switched: of each switch the link to the next level or board; empty: none
  std::vector<int> first_link;  // mesh: of each domain
  std::vector<std::vector<std::vector<int>>> paths;  // mesh: of each pair, ways of as few links as possible
  std::vector<int> shape;                            // torus
  std::vector<bool> wraps;                           // torus: of each axis
  bool twisted = false;
  std::vector<int> plus;                // torus: link of device d along axis a at [d * axes + a]; -1: none
  std::vector<std::uint16_t> distance;  // twisted torus: from the first device
};

struct NicPort {
  int link = 0;  // from the NIC to its leaf
  int leaf = 0;  // number of the leaf
  int slot = 0;  // of the NIC among those of the leaf
};

// What routing knows about the way from devices to the fabric.
struct HostRoutes {
  int devices_per_node = 1;
  int nics_per_node = 0;         // 0: there is no fabric
  std::vector<int> device_link;  // from each device to its PCIe switch; -1: its NICs hang on the device
  std::vector<int> nic_link;     // into each NIC, from PCIe switch or device
  std::vector<int> first_port;   // of each NIC, and the end
  std::vector<NicPort> ports;
};

// Switches of a tree stand in groups: a leaf alone, the spines that join the same leaves, the cores that join the same
// groups of spines. A switch reaches exactly the leaves below its group.
struct TreeRoutes {
  struct Tier {
    int first_switch = 0;       // number, 0 is the first leaf
    int per_group = 1;          // switches of a group
    int spread = 1;             // switches of it that one switch below has links to
    std::vector<int> parent;    // of each group: its group in the next tier
    std::vector<int> local;     // of each group: its place below its parent
    std::vector<int> children;  // of each group: groups below it
  };
  std::vector<Tier> tiers;
  int unit_leaves = 0;          // rails: leaves of a scalable unit; 0: there are none
  int unit_nodes = 0;           // rails: nodes of one
  int first_vertex = 0;         // of switch 0
  std::vector<int> first_up;    // of each switch, and the end
  std::vector<int> up;          // links
  std::vector<int> down_table;  // of each switch: where its places in first_down begin
  std::vector<int> first_down;  // of each child group of each switch, and the end
  std::vector<int> down;        // links
};

struct DragonflyRoutes {
  int routers = 0;  // of a group
  int groups = 0;
  int first_vertex = 0;
  std::vector<int> local;   // link of router r to router i of its group at [r * routers + i]; -1: itself
  std::vector<int> global;  // links from group g to group h at [(g * groups + h) * per_pair]
  int per_pair = 1;
};

// nodes: routes follow from the structure. custom: they are looked up in distances.
enum class GraphKind { nodes, custom };

struct Graph {
  std::vector<Vertex> vertices;
  std::vector<GraphLink> links;
  std::vector<int> devices;  // vertex of device i
  std::vector<std::string> vertex_tiers;
  std::vector<double> port_bytes_per_s;  // of each vertex tier: a faster link takes several ports; 0: one a cable
  std::vector<std::string> cable_tiers;
  std::vector<std::string> names;  // of vertices, where they were given; else empty
  std::vector<PassiveSwitches> passive;
  std::vector<GraphFact> facts;
  std::string fabric;    // what it is, for people: "rail-optimised fat tree, 3 tiers"
  bool assumed = false;  // nobody said how it is wired
  bool domain_reduces = false;
  bool fabric_reduces = false;
  int num_cables = 0;
  int num_cut = 0;  // links
  GraphKind kind = GraphKind::nodes;
  ScaleUpRoutes scale_up;
  HostRoutes host;
  TreeRoutes tree;
  DragonflyRoutes dragonfly;
  std::vector<std::uint16_t> distances;  // custom: links from vertex v to device d at [d * vertices + v]
  // Links that leave each vertex, in order: out[first_out[v]] to out[first_out[v + 1]].
  std::vector<int> first_out;
  std::vector<int> out;

  int num_devices() const { return static_cast<int>(devices.size()); }
};

// Building blocks. Tiers are made when they are first named.
int vertex_tier(Graph& graph, std::string_view name);
int cable_tier(Graph& graph, std::string_view name);
int add_vertex(Graph& graph, const Vertex& vertex);
// The number of the link a → b; the way back has the next number.
int add_cable(Graph& graph, int a, int b, int tier, double bytes_per_s, double latency_s, int cables = 1);
// Fills in first_out and out. Call it when all cables are there.
void index_links(Graph& graph);
// Fills in distances of a custom graph; cut_links does it again.
void index_distances(Graph& graph);
inline constexpr std::uint16_t kUnreachable = 65'535;

// The tier's number, or -1.
int find_tier(const std::vector<std::string>& tiers, std::string_view name);

// gpu17, chip(1,2,3), leaf3, node4/nvswitch1
std::string vertex_name(const Graph& graph, int vertex);
std::string link_name(const Graph& graph, int link);
int find_vertex(const Graph& graph, std::string_view name);  // -1: there is none

// Links of all cables between two vertices, both directions: `leaf3-spine2`, or one of the parallel ones:
// `leaf3-spine2:1`.
Result<std::vector<int>> find_links(const Graph& graph, std::string_view name);

// A cut link carries nothing, and no route takes it. A link that is striped over several cables loses its share for
// each number that stands twice.
void cut_links(Graph& graph, const std::vector<int>& links);
void slow_links(Graph& graph, const std::vector<int>& links, double factor);

// Ports that the cables of a vertex take, of one of its chips.
int ports_used(const Graph& graph, int vertex);

// Every switch has the ports that its cables need, and every device reaches every other one; else an input error that
// names the switch, or two devices.
Result<void> check_ports(const Graph& graph);
Result<void> check_connected(const Graph& graph);

}  // namespace twinpod::cluster
