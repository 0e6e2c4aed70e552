// The mappings `topology` of nodes and of clusters.
#include <fmt/format.h>

#include <charconv>

#include "spec/bounds.hpp"
#include "spec/entries.hpp"
#include "spec/names.hpp"

namespace twinpod::spec {
namespace {

constexpr int kMaxPorts = 65'536;
constexpr int kMaxAxis = 65'536;
constexpr std::size_t kMaxAxes = 6;
constexpr int kMaxCables = 1'000'000;

// A list of numbers in which one may stand twice, unlike Reader::counts.
void read_numbers(const Node* list, Context& context, const std::string& what, int low, std::vector<int>& values) {
  if (list == nullptr) return;
  if (list->kind != Node::Kind::sequence) {
    return context.refuse(*list, what + " is " + description(*list) + "; expected a list of whole numbers");
  }
  values.clear();
  for (const Node& item : list->items) {
    const std::optional<int> value = whole_number(item);
    if (!value || *value < low || *value > kMaxPorts) {
      return context.refuse(item, fmt::format("{} holds {}; expected whole numbers from {} to {}", what,
                                              description(item), low, kMaxPorts));
    }
    values.push_back(*value);
  }
}

void read_shape(Reader& reader, Context& context, std::string_view key, std::vector<int>& shape) {
  std::string text;
  reader.text(key, text);
  if (text.empty()) return;
  shape = parse_shape(text);
  if (shape.empty()) {
    context.refuse(reader.place(key), fmt::format("{} is `{}`; expected lengths such as 16x16x16", key, text));
  }
}

void read_mesh_links(const Node* rows, Context& context, std::vector<std::vector<int>>& links) {
  if (rows == nullptr) return;
  if (rows->kind != Node::Kind::sequence) {
    return context.refuse(*rows, "mesh_links is " + description(*rows) + "; expected a list of rows");
  }
  links.clear();
  for (const Node& row : rows->items) read_numbers(&row, context, "mesh_links", 0, links.emplace_back());
  for (std::size_t i = 0; i < links.size() && !context.failed(); ++i) {
    if (links[i].size() != links.size()) {
      return context.refuse(rows->items[i], fmt::format("row {} of mesh_links has {} numbers; expected {}", i,
                                                        links[i].size(), links.size()));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (links[i][j] == links[j][i]) continue;
      return context.refuse(rows->items[i], fmt::format("mesh_links has {} links from {} to {} but {} back",
                                                        links[i][j], i, j, links[j][i]));
    }
  }
}

void read_axis_rates(const Node* list, Context& context, std::vector<double>& rates) {
  if (list == nullptr) return;
  if (list->kind != Node::Kind::sequence) {
    return context.refuse(*list, "axis_bandwidth is " + description(*list) + "; expected a list of bandwidths");
  }
  rates.clear();
  for (const Node& item : list->items) {
    const Result<double> rate = parse_quantity(item.scalar, Quantity::bytes_per_s);
    if (!rate || *rate <= 0 || *rate > kMaxBytesPerS) {
      return context.refuse(item, "axis_bandwidth holds " + description(item) + "; expected bandwidths: 128 GB/s");
    }
    rates.push_back(*rate);
  }
}

void read_vertex(const Node& node, Context& context, TopologyVertex& vertex) {
  Reader reader(node, context, "vertex");
  reader.text("name", vertex.name);
  reader.text("tier", vertex.tier);
  reader.count("count", vertex.count, 1, kMaxCables);
  reader.count("radix", vertex.radix, 0, kMaxPorts);
  reader.require("name");
  reader.require("tier");
  reader.finish();
  vertex.line = node.line;
}

void read_link(const Node& node, Context& context, TopologyLink& link) {
  Reader reader(node, context, "link");
  reader.text("from", link.from);
  reader.text("to", link.to);
  reader.count("cables", link.cables, 1, kMaxCables);
  reader.quantity("bandwidth", link.bytes_per_s, Quantity::bytes_per_s, 1, kMaxBytesPerS);
  reader.quantity("latency", link.latency_s, Quantity::seconds, 0, 10);
  for (const char* key : {"from", "to", "bandwidth"}) reader.require(key);
  reader.finish();
  link.line = node.line;
}

template <typename T>
void read_list(const Node* list, Context& context, std::string_view what, std::vector<T>& items,
               void (*read)(const Node&, Context&, T&)) {
  if (list == nullptr) return;
  if (list->kind != Node::Kind::sequence) {
    return context.refuse(*list, fmt::format("{} is {}; expected a list", what, description(*list)));
  }
  items.clear();
  for (const Node& item : list->items) read(item, context, items.emplace_back());
}

void read_tree_keys(Reader& reader, Topology& topology) {
  reader.count("unit_nodes", topology.unit_nodes, 1, kMaxPorts);
  reader.count("pod_units", topology.pod_units, 0, kMaxPorts);
  reader.count("planes", topology.planes, 1, 64);
  reader.count("links_per_cable", topology.links_per_cable, 1, 64);
  reader.count("tiers", topology.tiers, 1, 8);
  reader.quantity("oversubscription", topology.oversubscription, Quantity::number, 0.01, 1000);
  reader.count("leaf_nodes", topology.leaf_nodes, 1, kMaxPorts);
  reader.count("leaf_up", topology.leaf_up, 1, kMaxPorts);
  reader.count("pod_leaves", topology.pod_leaves, 1, kMaxPorts);
  reader.count("spines", topology.spines, 1, kMaxPorts);
  reader.count("spine_up", topology.spine_up, 1, kMaxPorts);
  reader.count("cores", topology.cores, 1, kMaxPorts);
  reader.quantity("uplink_bandwidth", topology.uplink_bytes_per_s, Quantity::bytes_per_s, 1, kMaxBytesPerS);
  reader.count("manager_cables", topology.manager_cables, 0, kMaxPorts);
  reader.count("routers", topology.routers, 1, kMaxPorts);
  reader.count("terminals", topology.terminals, 1, kMaxPorts);
  reader.count("global_links", topology.global_links, 1, kMaxPorts);
}

}  // namespace

std::vector<int> parse_shape(const std::string& text) {
  std::vector<int> shape;
  const char* at = text.data();
  const char* const end = at + text.size();
  long long volume = 1;
  while (true) {
    int length = 0;
    const auto [next, error] = std::from_chars(at, end, length);
    if (error != std::errc() || length < 1 || length > kMaxAxis || shape.size() == kMaxAxes) return {};
    volume *= length;
    if (volume > kMaxDevices) return {};
    shape.push_back(length);
    if (next == end) return shape;
    if (*next != 'x') return {};
    at = next + 1;
  }
}

std::string shape_text(const std::vector<int>& shape) { return fmt::format("{}", fmt::join(shape, "x")); }

void read_node_topology(const Node& node, Context& context, NodeTopology& topology) {
  Reader reader(node, context, "topology");
  read_numbers(reader.take("switch_links"), context, "switch_links", 1, topology.switch_links);
  reader.count("switch_radix", topology.switch_radix, 1, kMaxPorts);
  reader.count("boards", topology.boards, 1, 64);
  reader.count("board_links", topology.board_links, 1, kMaxPorts);
  reader.count("upper_switches", topology.upper_switches, 1, kMaxPorts);
  reader.count("upper_links", topology.upper_links, 1, kMaxPorts);
  reader.quantity("upper_bandwidth", topology.upper_bytes_per_s, Quantity::bytes_per_s, 1, kMaxBytesPerS);
  reader.count("upper_radix", topology.upper_radix, 1, kMaxPorts);
  read_mesh_links(reader.take("mesh_links"), context, topology.mesh_links);
  reader.count("links_per_pair", topology.links_per_pair, 1, 1024);
  read_shape(reader, context, "shape", topology.shape);
  read_axis_rates(reader.take("axis_bandwidth"), context, topology.axis_bytes_per_s);
  reader.count("pcie_switches", topology.pcie_switches, 0, 1024);
  reader.quantity("pcie_bandwidth", topology.pcie_bytes_per_s, Quantity::bytes_per_s, 1, kMaxBytesPerS);
  reader.flag("reduces", topology.reduces);
  reader.finish();
}

void read_topology(const Node& node, Context& context, Topology& topology) {
  Reader reader(node, context, "topology");
  topology.written = true;
  reader.choice("fabric", topology.fabric, kFabricNames);
  reader.count("radix", topology.radix, 1, kMaxPorts);
  reader.quantity("switch_latency", topology.switch_latency_s, Quantity::seconds, 0, 1);
  read_tree_keys(reader, topology);
  reader.flag("reduces", topology.reduces);
  read_shape(reader, context, "shape", topology.shape);
  read_shape(reader, context, "slice", topology.slice);
  reader.choice("wrap", topology.wrap, kWrapNames);
  reader.count("cube", topology.cube, 1, kMaxAxis);
  reader.count("circuit_ports", topology.circuit_ports, 1, kMaxPorts);
  reader.flag("twisted", topology.twisted);
  read_list(reader.take("vertices"), context, "vertices", topology.vertices, read_vertex);
  read_list(reader.take("links"), context, "links", topology.links, read_link);
  if (!topology.vertices.empty()) topology.fabric = Fabric::custom;
  topology.file = context.file_of(node);
  reader.finish();
  if (topology.fabric == Fabric::custom && topology.vertices.empty() && !context.failed()) reader.require("vertices");
}

}  // namespace twinpod::spec
