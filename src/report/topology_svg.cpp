// Puts the picture of a topology together (topology_report.hpp).
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "core/thousands.hpp"
#include "core/units.hpp"
#include "report/topology_report.hpp"
#include "report/topology_svg_parts.hpp"

namespace twinpod::report {
namespace {

using cluster::Graph;

// How far each tier is from the devices, so that rows stand in the order in which a flow meets them.
std::vector<int> tier_distance(const Graph& graph) {
  std::vector<int> distance(graph.vertices.size(), -1);
  std::vector<int> queue = graph.devices;
  for (const int device : queue) distance[device] = 0;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (int o = graph.first_out[queue[i]]; o < graph.first_out[queue[i] + 1]; ++o) {
      const int next = graph.links[graph.out[o]].to;
      if (distance[next] >= 0) continue;
      distance[next] = distance[queue[i]] + 1;
      queue.push_back(next);
    }
  }
  std::vector<int> of_tier(graph.vertex_tiers.size(), 0);
  for (std::size_t v = 0; v < graph.vertices.size(); ++v) {
    of_tier[graph.vertices[v].tier] = std::max(of_tier[graph.vertices[v].tier], distance[v]);
  }
  return of_tier;
}

double title(const TopologyView& view, Canvas& canvas) {
  const std::string& name = view.cluster.name.empty() ? view.cluster.device.name : view.cluster.name;
  canvas.text(kMargin, 34, name, {20, "start", "#222", true});
  std::string text = view.graph.fabric;
  if (!text.empty()) text += " · ";
  text += fmt::format("{} · bisection {} one way · longest route {} link{}", counted(view.measures.devices, "device"),
                      format_bytes_per_s(view.measures.bisection_bytes_per_s), view.measures.diameter_links,
                      view.measures.diameter_links == 1 ? "" : "s");
  const int switches = view.measures.diameter_switches;
  if (switches > 0) text += fmt::format(", {} switch{}", switches, switches == 1 ? "" : "es");
  canvas.text(kMargin, 56, text, {13, "start", "#555"});
  double y = 76;
  if (view.graph.assumed) {
    canvas.text(kMargin, y, "How it is wired is not known: assumed.", {12, "start", "#a33"});
    y += 18;
  }
  for (const std::string& fault : view.faults) {
    canvas.text(kMargin, y, "fault: " + fault, {12, "start", "#a33"});
    y += 18;
  }
  return y + 10;
}

}  // namespace

std::string in_gbit(double bytes_per_s) { return fmt::format("{:g} Gbit/s", std::round(bytes_per_s * 8e-7) / 100); }

std::string cables_of(const TopologyView& view, const std::string& tier) {
  for (const cluster::CableCount& count : view.measures.cables) {
    if (count.tier != tier) continue;
    return fmt::format("{} of {}", counted(count.count, "cable"), in_gbit(count.bytes_per_s));
  }
  return "";
}

double draw_dragonfly(const TopologyView& view, double top, Canvas& canvas) {
  const cluster::DragonflyRoutes& fly = view.graph.dragonfly;
  constexpr double kRadius = 270;
  const double cx = kPictureWidth / 2 + 80;
  const double cy = top + kRadius + 30;
  const auto at = [&](int g) {
    const double angle = 2 * std::numbers::pi * g / fly.groups - std::numbers::pi / 2;
    return std::pair{cx + kRadius * std::cos(angle), cy + kRadius * std::sin(angle)};
  };
  const double opacity = std::clamp(8.0 / fly.groups, 0.06, 0.6);
  for (int g = 0; g < fly.groups; ++g) {
    for (int h = g + 1; h < fly.groups; ++h) {
      const auto [x1, y1] = at(g);
      const auto [x2, y2] = at(h);
      const bool first = g == 0;
      canvas.line(x1, y1, x2, y2, first ? "#d55e00" : "#46689b", first ? 1 : 0.8, first ? 0.6 : opacity);
    }
  }
  for (int g = 0; g < fly.groups; ++g) {
    const auto [x, y] = at(g);
    canvas.circle(x, y, std::clamp(500.0 / fly.groups, 4.0, 20.0), "#dfe8f5", "#46689b");
  }
  canvas.text(kMargin, top + 20, counted(fly.groups, "group"), {14, "start", "#222", true});
  canvas.text(kMargin, top + 38, fmt::format("{} routers each, all joined", fly.routers), {11});
  canvas.text(kMargin, top + 56, cables_of(view, "local") + " inside groups", {11, "start", "#555"});
  canvas.text(kMargin, top + 74, cables_of(view, "global") + " between them", {11, "start", "#555"});
  canvas.text(kMargin, top + 92, fmt::format("a line stands for {}", fly.per_pair), {11, "start", "#555"});
  canvas.text(kMargin, top + 110, "(those of group 0 in orange)", {11, "start", "#d55e00"});
  canvas.text(kMargin, top + 128, cables_of(view, "node_router") + " to nodes", {11, "start", "#555"});
  return cy + kRadius + 40;
}

double draw_custom(const TopologyView& view, double top, Canvas& canvas) {
  const Graph& graph = view.graph;
  constexpr std::size_t kMostOfRow = 48;
  const std::vector<int> distance = tier_distance(graph);
  std::map<int, std::vector<int>, std::greater<>> rows;  // farthest from the devices first
  for (std::size_t v = 0; v < graph.vertices.size(); ++v) {
    rows[distance[graph.vertices[v].tier] * 100 + graph.vertices[v].tier].push_back(static_cast<int>(v));
  }
  std::map<int, std::pair<double, double>> place;
  double y = top + 20;
  for (const auto& [unused, vertices] : rows) {
    const double left = kMargin + kNotesWidth;
    const std::size_t shown = std::min(vertices.size(), kMostOfRow);
    const double step = (kPictureWidth - kMargin - left) / static_cast<double>(shown);
    for (std::size_t i = 0; i < shown; ++i) place[vertices[i]] = {left + step * (static_cast<double>(i) + 0.5), y};
    const std::string& tier = graph.vertex_tiers[graph.vertices[vertices[0]].tier];
    canvas.text(kMargin, y + 4, fmt::format("{} {}", vertices.size(), tier), {14, "start", "#222", true});
    if (shown < vertices.size()) canvas.text(kMargin, y + 20, fmt::format("{} of them drawn", shown), {11});
    y += 110;
  }
  std::map<std::pair<int, int>, int> cables;
  for (std::size_t l = 0; l < graph.links.size(); l += 2) {
    const cluster::GraphLink& link = graph.links[l];
    if (place.contains(link.from) && place.contains(link.to)) cables[{link.from, link.to}] += link.cables;
  }
  for (const auto& [ends, count] : cables) {
    const auto [x1, y1] = place[ends.first];
    const auto [x2, y2] = place[ends.second];
    // Two of one row are joined by an arc, so that those between them are not crossed out.
    const double bow = y1 == y2 ? 14 + 0.12 * std::abs(x1 - x2) : 0;
    canvas.path(fmt::format("M{:.1f} {:.1f}Q{:.1f} {:.1f} {:.1f} {:.1f}", x1, y1, (x1 + x2) / 2,
                            (y1 + y2) / 2 + 2 * bow, x2, y2),
                "#46689b", std::clamp(0.8 * count, 0.8, 4.0), 0.7);
    if (cables.size() <= 40 && count > 1) canvas.label((x1 + x2) / 2, (y1 + y2) / 2 + bow, fmt::format("{}", count));
  }
  for (const auto& [vertex, at] : place) {
    const std::string name = vertex_name(graph, vertex);
    const double width = place.size() <= 64 ? std::max(30.0, 6.5 * static_cast<double>(name.size())) : 12;
    canvas.rect(at.first - width / 2, at.second - 11, width, 22, "#eef2f7", "#46689b");
    if (width > 12) canvas.text(at.first, at.second + 4, name, {10, "middle"});
  }
  return y;
}

std::string topology_svg(const TopologyView& view) {
  const Graph& graph = view.graph;
  Canvas canvas;
  double y = title(view, canvas);
  if (graph.kind == cluster::GraphKind::custom) {
    y = draw_custom(view, y, canvas);
    return canvas.svg(kPictureWidth, y + 20);
  }
  if (graph.dragonfly.groups > 0) y = draw_dragonfly(view, y, canvas);
  if (!graph.tree.tiers.empty()) y = draw_tree(view, y, canvas) + 34;
  if (graph.scale_up.kind == spec::ScaleUpKind::torus) {
    y = draw_torus(view, y, canvas);
  } else {
    y = draw_domain(view, y, canvas);
  }
  return canvas.svg(kPictureWidth, y + 16);
}

}  // namespace twinpod::report
