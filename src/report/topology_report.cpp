#include "report/topology_report.hpp"

#include <fmt/format.h>

#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "report/json_parts.hpp"

namespace twinpod::report {
namespace {

using cluster::CableCount;
using cluster::Graph;
using cluster::GraphLink;
using cluster::SwitchCount;

int num_nodes(const TopologyView& view) {
  const int per_node = view.cluster.devices_per_node;
  return view.graph.kind == cluster::GraphKind::custom ? 0 : (view.measures.devices + per_node - 1) / per_node;
}

// What the devices could send out of one half if no switch held them up.
double injection_bytes_per_s(const TopologyView& view) {
  const Graph& graph = view.graph;
  double sum = 0;
  for (const cluster::NicPort& port : graph.host.ports) sum += graph.links[port.link].bytes_per_s;
  return sum / 2;
}

std::string title(const TopologyView& view) {
  const std::string& name = view.cluster.name.empty() ? view.cluster.device.name : view.cluster.name;
  std::string text = name + "\n";
  if (!view.graph.fabric.empty()) text += fmt::format("  {}\n", view.graph.fabric);
  if (view.graph.scale_up.kind == spec::ScaleUpKind::torus) {
    text += fmt::format("  {}torus {}\n", view.graph.scale_up.twisted ? "twisted " : "",
                        spec::shape_text(view.graph.scale_up.shape));
  }
  if (view.graph.assumed) text += "  how it is wired is not known: assumed here\n";
  const int nodes = num_nodes(view);
  text += fmt::format("  {}", counted(view.measures.devices, "device"));
  if (nodes > 1) text += fmt::format(" in {}", counted(nodes, "node"));
  if (view.measures.nics > 0) text += fmt::format(", {} NICs", with_thousands(view.measures.nics));
  text += "\n";
  for (const cluster::GraphFact& fact : view.graph.facts) {
    text += fmt::format("  {} {}\n", with_thousands(fact.value), fact.label);
  }
  return text;
}

std::string switches_text(const TopologyView& view) {
  if (view.measures.switches.empty()) return "";
  Table table({{"switches"}, {"count", Align::right}, {"ports used", Align::right}, {"of", Align::right}},
              {2, 2, true});
  for (const SwitchCount& s : view.measures.switches) {
    table.row({s.tier, with_thousands(static_cast<double>(s.count)), fmt::format("{}", s.ports_used),
               s.radix > 0 ? fmt::format("{}", s.radix) : ""});
  }
  return "\n" + table.text();
}

std::string cables_text(const TopologyView& view) {
  if (view.measures.cables.empty()) return "";
  Table table({{"cables"}, {"count", Align::right}, {"each, one way", Align::right}}, {2, 2, true});
  for (const CableCount& c : view.measures.cables) {
    table.row({c.tier, with_thousands(static_cast<double>(c.count)), format_bytes_per_s(c.bytes_per_s)});
  }
  return "\n" + table.text();
}

std::string measures_text(const TopologyView& view) {
  const cluster::Measures& m = view.measures;
  const double injection = injection_bytes_per_s(view);
  std::string text = fmt::format("\n  bisection  {}{} one way", m.bisection_is_bound ? "at most " : "",
                                 format_bytes_per_s(m.bisection_bytes_per_s));
  if (injection > 0)
    text += fmt::format(", {:.0f} % of what half of the NICs can send", 100 * m.bisection_bytes_per_s / injection);
  text += fmt::format("\n  diameter   {} link{}, {} switch{}\n", m.diameter_links, m.diameter_links == 1 ? "" : "s",
                      m.diameter_switches, m.diameter_switches == 1 ? "" : "es");
  std::string adders;
  if (view.graph.domain_reduces) adders += "scale-up switches";
  if (view.graph.fabric_reduces) adders += adders.empty() ? "fabric switches" : " and fabric switches";
  if (!adders.empty()) text += fmt::format("  reductions can be made by {}\n", adders);
  for (const std::string& fault : view.faults) text += fmt::format("  fault      {}\n", fault);
  return text;
}

std::string route_text(const TopologyView& view, const RouteView& route) {
  const Graph& graph = view.graph;
  std::string text =
      fmt::format("\n  {} to {} by {}, {}, {}{} as short\n", cluster::vertex_name(graph, graph.devices[route.from]),
                  cluster::vertex_name(graph, graph.devices[route.to]), route.routing,
                  counted(route.links.size(), "link"), route.more ? "at least " : "", route.equal);
  Table table({{"from"}, {"to"}, {"cable"}, {"one way", Align::right}}, {4, 2, false});
  for (const int number : route.links) {
    const GraphLink& link = graph.links[number];
    table.row({cluster::vertex_name(graph, link.from), cluster::vertex_name(graph, link.to),
               graph.cable_tiers[link.tier], format_bytes_per_s(link.bytes_per_s)});
  }
  return text + table.text();
}

Json route_json(const Graph& graph, const RouteView& route) {
  Json json = {{"from", cluster::vertex_name(graph, graph.devices[route.from])},
               {"to", cluster::vertex_name(graph, graph.devices[route.to])},
               {"routing", route.routing},
               {"equal_routes", route.equal},
               {"links", Json::array()}};
  for (const int number : route.links) {
    const GraphLink& link = graph.links[number];
    json["links"].push_back({{"link", cluster::link_name(graph, number)},
                             {"tier", graph.cable_tiers[link.tier]},
                             {"bytes_per_s", link.bytes_per_s},
                             {"latency_s", link.latency_s}});
  }
  return json;
}

Json torus_json(const TopologyView& view) {
  const cluster::ScaleUpRoutes& torus = view.graph.scale_up;
  if (torus.kind != spec::ScaleUpKind::torus) return nullptr;
  return {{"shape", torus.shape}, {"wraps", torus.wraps}, {"twisted", torus.twisted}};
}

}  // namespace

std::string topology_text(const TopologyView& view) {
  std::string text = title(view) + switches_text(view) + cables_text(view) + measures_text(view);
  for (const RouteView& route : view.routes) text += route_text(view, route);
  return text;
}

std::string topology_json(const TopologyView& view) {
  const cluster::Measures& m = view.measures;
  const double injection = injection_bytes_per_s(view);
  Json json = {{"cluster", view.cluster.entry.empty() ? view.cluster.name : view.cluster.entry},
               {"fabric", or_null(view.graph.fabric)},
               {"assumed", view.graph.assumed},
               {"devices", m.devices},
               {"nodes", or_null(num_nodes(view))},
               {"nics", m.nics},
               {"switches", Json::object()},
               {"cables", Json::object()},
               {"ports", Json::object()},
               {"cable_bytes_per_s", Json::object()},
               {"bisection_bytes_per_s", m.bisection_bytes_per_s},
               {"bisection_is_bound", m.bisection_is_bound},
               {"bisection_of_injection", injection > 0 ? Json(m.bisection_bytes_per_s / injection) : Json(nullptr)},
               {"diameter_links", m.diameter_links},
               {"diameter_switches", m.diameter_switches},
               {"cable_cost_usd", nullptr},
               {"torus", torus_json(view)},
               {"scale_up_reduces", view.graph.domain_reduces},
               {"fabric_reduces", view.graph.fabric_reduces}};
  for (const SwitchCount& s : m.switches) {
    json["switches"][s.tier] = s.count;
    json["ports"][s.tier] = {{"used", s.ports_used}, {"radix", or_null(s.radix)}};
  }
  for (const CableCount& c : m.cables) {
    json["cables"][c.tier] = c.count;
    json["cable_bytes_per_s"][c.tier] = c.bytes_per_s;
  }
  for (const cluster::GraphFact& fact : view.graph.facts) json[fact.key] = fact.value;
  json["faults"] = view.faults;
  json["routes"] = Json::array();
  for (const RouteView& route : view.routes) json["routes"].push_back(route_json(view.graph, route));
  return printed(json);
}

}  // namespace twinpod::report
