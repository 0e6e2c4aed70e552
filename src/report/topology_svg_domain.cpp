// One node, or one scale-up domain: devices, what joins them, and the way to the network.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/thousands.hpp"
#include "report/topology_svg_parts.hpp"

namespace twinpod::report {
namespace {

using cluster::Graph;
using spec::ScaleUpKind;

// What is drawn: the devices of one domain, or of one node where the domain is larger than the picture.
struct Part {
  int devices = 1;
  double left = kMargin + kNotesWidth;
  double step = 60;
  double x(int device) const { return left + step * (device + 0.5); }
};

Part part_of(const Graph& graph) {
  Part part;
  const bool torus = graph.scale_up.kind == ScaleUpKind::torus;
  part.devices = torus ? graph.host.devices_per_node : std::max(graph.scale_up.domain, graph.host.devices_per_node);
  part.devices = std::min(part.devices, graph.num_devices());
  part.devices = std::min(part.devices, graph.scale_up.domain > 72 ? graph.host.devices_per_node : 72);
  part.step = std::min(90.0, (kPictureWidth - kMargin - part.left) / part.devices);
  return part;
}

void draw_devices(const Graph& graph, const Part& part, double y, Canvas& canvas) {
  const double size = std::min(34.0, part.step - 2);
  for (int d = 0; d < part.devices; ++d) {
    const int local = d % graph.host.devices_per_node;
    canvas.rect(part.x(d) - size / 2, y, size, 30, "#e6f2e6", rail_colour(local), 3, 2);
    if (size > 26) canvas.text(part.x(d), y + 19, fmt::format("gpu{}", d), {10, "middle"});
  }
  if (size > 26) return;
  canvas.text(part.x(0) - size / 2, y + 44, "gpu0", {10});
  canvas.text(part.x(part.devices - 1) + size / 2, y + 44, fmt::format("gpu{}", part.devices - 1), {10, "end"});
}

std::string chip_name(const Graph& graph, const cluster::Vertex& vertex) {
  const std::string& tier = graph.vertex_tiers[vertex.tier];
  return tier == "nvswitch" ? "NVSwitch" : tier == "l1" ? "L1 switch" : tier == "l2" ? "L2 switch" : tier;
}

void draw_switches(const TopologyView& view, const Part& part, double y, Canvas& canvas) {
  const Graph& graph = view.graph;
  // Each first-level switch vertex is a bar over its devices.
  int start = 0;
  while (start < part.devices) {
    const int vertex = graph.links[graph.scale_up.up[start]].to;
    int end = start;
    while (end < part.devices && graph.links[graph.scale_up.up[end]].to == vertex) ++end;
    const double left = part.x(start) - part.step / 2 + 3;
    const double width = part.x(end - 1) + part.step / 2 - 3 - left;
    canvas.rect(left, y, width, 26, "#dfe8f5", "#46689b");
    const cluster::Vertex& v = graph.vertices[vertex];
    canvas.text(left + width / 2, y + 17,
                fmt::format("{} {} chip{}", v.count, chip_name(graph, v), v.count == 1 ? "" : "s"), {12, "middle"});
    for (int d = start; d < end; ++d) canvas.line(part.x(d), y + 26, part.x(d), y + 62, "#46689b", 2);
    start = end;
  }
  const cluster::GraphLink& link = graph.links[graph.scale_up.up[0]];
  canvas.text(kMargin, y + 42,
              fmt::format("{} link{} of {} from each device", link.cables, link.cables == 1 ? "" : "s",
                          in_gbit(link.bytes_per_s / link.cables)),
              {11, "start", "#555"});
  canvas.text(kMargin, y + 57, fmt::format("{:.0f} GB/s each way", link.bytes_per_s / 1e9), {11, "start", "#555"});
}

void draw_trunks(const TopologyView& view, const Part& part, double y, Canvas& canvas) {
  const Graph& graph = view.graph;
  if (graph.scale_up.trunk.empty()) return;
  const cluster::GraphLink& trunk = graph.links[graph.scale_up.trunk[0]];
  const cluster::Vertex& above = graph.vertices[trunk.to];
  if (above.tier == graph.vertices[trunk.from].tier) {  // boards side by side
    const double a = part.x(part.devices / 4);
    const double b = part.x(3 * part.devices / 4);
    canvas.path(fmt::format("M{0:.1f} {2:.1f}Q{3:.1f} {4:.1f} {1:.1f} {2:.1f}", a, b, y, (a + b) / 2, y - 46),
                "#46689b", 4);
    canvas.label((a + b) / 2, y - 18, counted(trunk.cables, "link"));
    return;
  }
  const double left = part.x(0) - part.step / 2 + 3;
  const double width = part.x(part.devices - 1) + part.step / 2 - 3 - left;
  canvas.rect(left, y - 66, width, 26, "#d3ddec", "#46689b");
  canvas.text(left + width / 2, y - 49,
              fmt::format("{} {} chips, shared by all nodes of the domain", above.count, chip_name(graph, above)),
              {12, "middle"});
  canvas.line(left + width / 2, y - 40, left + width / 2, y, "#46689b", 5);
  canvas.label(left + width / 2 + 60, y - 16, fmt::format("{} of a node", counted(trunk.cables, "link")));
}

// Devices on a circle, a line for each pair that has links.
double draw_mesh(const TopologyView& view, const Part& part, double top, Canvas& canvas) {
  const Graph& graph = view.graph;
  const int count = std::min(part.devices, graph.scale_up.domain);
  constexpr double kRadius = 130;
  const double cx = kPictureWidth / 2;
  const double cy = top + kRadius + 30;
  const auto at = [&](int d) {
    const double angle = 2 * std::numbers::pi * (d + 0.5) / count - std::numbers::pi / 2;
    return std::pair{cx + kRadius * std::cos(angle), cy + kRadius * std::sin(angle)};
  };
  int least = 0;
  int most = 0;
  for (std::size_t l = graph.scale_up.first_link[0]; l < graph.links.size(); l += 2) {
    const cluster::GraphLink& link = graph.links[l];
    if (link.from >= count || link.to >= count) break;
    const auto [x1, y1] = at(link.from);
    const auto [x2, y2] = at(link.to);
    canvas.line(x1, y1, x2, y2, link.cables > 1 ? "#46689b" : "#8aa3c6", 1.2 * link.cables, 0.8);
    least = least == 0 ? link.cables : std::min(least, link.cables);
    most = std::max(most, link.cables);
  }
  for (int d = 0; d < count; ++d) {
    const auto [x, y] = at(d);
    canvas.circle(x, y, 18, "#e6f2e6", rail_colour(d));
    canvas.text(x, y + 4, fmt::format("gpu{}", d), {10, "middle"});
  }
  canvas.text(kMargin, top + 40, "links between devices", {14, "start", "#222", true});
  canvas.text(kMargin, top + 57, cables_of(view, "device_device"), {11, "start", "#555"});
  const std::string number =
      least == most ? fmt::format("{}", most) : fmt::format("{} (thin) or {} (thick)", least, most);
  canvas.text(kMargin, top + 73, fmt::format("a line stands for {}", number), {11, "start", "#555"});
  return cy + kRadius + 30;
}

void draw_hosts(const TopologyView& view, const Part& part, double y, Canvas& canvas) {
  const Graph& graph = view.graph;
  const cluster::HostRoutes& host = graph.host;
  if (host.nics_per_node == 0 || host.nic_link.empty()) return;
  const int per_node = host.devices_per_node;
  const bool pcie = host.device_link[0] >= 0;
  for (int d = 0; pcie && d < part.devices; ++d) {
    const int vertex = graph.links[host.device_link[d]].to;
    int first = d;
    int last = d;
    while (first > 0 && graph.links[host.device_link[first - 1]].to == vertex) --first;
    while (last + 1 < part.devices && graph.links[host.device_link[last + 1]].to == vertex) ++last;
    canvas.line(part.x(d), y, part.x(d), y + 24, "#888", 1.5);
    if (d != first) continue;
    canvas.rect(part.x(first) - 16, y + 24, part.x(last) - part.x(first) + 32, 22, "#f0ece4", "#888");
    canvas.text((part.x(first) + part.x(last)) / 2, y + 39, "PCIe", {11, "middle"});
  }
  const int nics = part.devices / per_node * host.nics_per_node;
  const double span = part.step * part.devices / std::max(1, nics);
  for (int n = 0; n < nics; ++n) {
    const double x = part.left + span * (n + 0.5);
    const double size = std::min(30.0, span - 2);
    canvas.line(x, pcie ? y + 46 : y, x, y + 68, "#888", 1.5);
    canvas.rect(x - size / 2, y + 68, size, 20, "#fff4e0", rail_colour(n % host.nics_per_node), 3, 2);
    if (size > 24) canvas.text(x, y + 82, fmt::format("nic{}", n % host.nics_per_node), {10, "middle"});
    if (!host.ports.empty()) canvas.line(x, y + 88, x, y + 106, rail_colour(n % host.nics_per_node), 2);
  }
  const double rate = host.ports.empty()
                          ? view.cluster.scale_out_bytes_per_s * per_node / host.nics_per_node
                          : graph.links[host.ports[0].link].bytes_per_s * (host.first_port[1] - host.first_port[0]);
  canvas.text(kMargin, y + 82, fmt::format("{} NICs of {} a node", host.nics_per_node, in_gbit(rate)),
              {11, "start", "#555"});
  if (!host.ports.empty()) {
    canvas.text(kMargin, y + 104, graph.tree.unit_leaves > 0 ? "nic r goes to leaf r of its unit" : "to the fabric",
                {11, "start", "#555"});
  }
}

}  // namespace

double draw_domain(const TopologyView& view, double top, Canvas& canvas) {
  const Graph& graph = view.graph;
  const Part part = part_of(graph);
  const bool whole = part.devices >= graph.scale_up.domain;
  const bool alone = graph.tree.tiers.empty() && graph.dragonfly.groups == 0;
  const int per_node = graph.host.devices_per_node;
  const std::string what = part.devices > per_node
                               ? fmt::format("one domain of {}, {} a node", counted(part.devices, "device"), per_node)
                               : "one node";
  canvas.text(kMargin, top + 14, alone && whole ? "" : "inside " + what, {14, "start", "#222", true});
  double y = top + 30;
  if (graph.scale_up.kind == ScaleUpKind::switched) {
    if (!graph.scale_up.trunk.empty()) y += 66;
    draw_trunks(view, part, y, canvas);
    draw_switches(view, part, y, canvas);
    y += 62;
  } else if (graph.scale_up.kind == ScaleUpKind::mesh) {
    y = draw_mesh(view, part, top, canvas);
  }
  draw_devices(graph, part, y, canvas);
  draw_hosts(view, part, y + 30, canvas);
  return y + (graph.host.nics_per_node > 0 ? 146 : 56);
}

}  // namespace twinpod::report
