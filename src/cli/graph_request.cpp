#include "cli/graph_request.hpp"

#include <fmt/format.h>

#include "cli/command.hpp"
#include "cluster/nccl_topology_xml.hpp"
#include "cluster/topology.hpp"
#include "core/nearest.hpp"
#include "core/units.hpp"
#include "spec/read.hpp"

namespace twinpod::cli {
namespace {

using cluster::Graph;

Result<spec::Cluster> read_named_cluster(const Arguments& arguments, const std::string& name, int devices) {
  spec::Node node;
  node.kind = spec::Node::Kind::scalar;
  node.scalar = name;
  Result<spec::Cluster> cluster = spec::read_cluster(node, "", catalog_of(arguments));
  if (!cluster) return cluster;
  if (const auto slice = arguments.value("slice")) {
    const Result<void> applied = cluster::apply_slice(*cluster, *slice);
    if (!applied) return tl::unexpected(applied.error());
    return cluster;
  }
  const Result<int> asked = whole_number(arguments, "devices", 1, devices);
  if (!asked) return tl::unexpected(asked.error());
  if (*asked > 0) {
    const Result<void> applied = cluster::apply_devices(*cluster, *asked);
    if (!applied) return tl::unexpected(applied.error());
  }
  return cluster;
}

// `link=leaf3-spine2` and `leaf3-spine2` are the same.
std::string without_kind(const std::string& text) { return text.starts_with("link=") ? text.substr(5) : text; }

Result<void> cut(Graph& graph, const std::string& names, std::vector<std::string>& faults) {
  for (const std::string& written : split_outside_brackets(names)) {
    const std::string name = without_kind(written);
    const Result<std::vector<int>> links = cluster::find_links(graph, name);
    if (!links) return tl::unexpected(links.error());
    cluster::cut_links(graph, *links);
    faults.push_back(fmt::format("{} cut, {} cable{}", name, links->size() / 2, links->size() == 2 ? "" : "s"));
  }
  return cluster::check_connected(graph);
}

Result<void> slow(Graph& graph, const std::string& names, std::vector<std::string>& faults) {
  for (const std::string& written : split_outside_brackets(names)) {
    const std::string item = without_kind(written);
    const std::size_t sign = item.rfind('=');
    const Result<double> factor =
        parse_quantity(sign == std::string::npos ? "" : item.substr(sign + 1), Quantity::number);
    if (!factor || *factor <= 0 || *factor > 1) {
      return input_error(fmt::format("--slow {}: expected a link and a factor above 0 and up to 1", item),
                         "--slow leaf3-spine2=0.5");
    }
    const Result<std::vector<int>> links = cluster::find_links(graph, item.substr(0, sign));
    if (!links) return tl::unexpected(links.error());
    cluster::slow_links(graph, *links, *factor);
    faults.push_back(fmt::format("{} at {:.3g} of its rate", item.substr(0, sign), *factor));
  }
  return {};
}

// What an NCCL topology file describes has no entry in the catalog.
spec::Cluster described(const std::string& path, const Graph& graph) {
  spec::Cluster cluster;
  cluster.name = path;
  cluster.devices = graph.num_devices();
  cluster.devices_per_node = graph.num_devices();
  return cluster;
}

}  // namespace

std::vector<std::string> split_outside_brackets(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;  // a comma inside chip(1,2,3) is part of the name
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

Result<cluster::Routing> routing_of(const Graph& graph, const Arguments& arguments) {
  const std::string asked = arguments.value_or("routing", "");
  if (asked.empty()) return cluster::usual_routing(graph);
  std::vector<std::string> known;
  for (const auto& [name, routing] : cluster::kRoutingNames) {
    if (name == asked) return routing;
    known.emplace_back(name);
  }
  return input_error(fmt::format("--routing {}: expected ecmp, rail, adaptive or dimension_order", asked),
                     nearest_name(asked, known));
}

Result<GraphRequest> read_graph_request(const Arguments& arguments, const std::string& name, int devices) {
  const bool xml = name.ends_with(".xml");
  Result<spec::Cluster> cluster = spec::Cluster{};
  if (!xml) cluster = read_named_cluster(arguments, name, devices);
  if (!cluster) return tl::unexpected(cluster.error());
  Result<Graph> graph = xml ? cluster::read_nccl_topology(name) : cluster::build_graph(*cluster);
  if (!graph) return tl::unexpected(graph.error());
  if (xml) *cluster = described(name, *graph);

  GraphRequest request{std::move(*cluster), std::move(*graph), {}, {}};
  const auto slowed = arguments.value("slow");
  const auto to_cut = arguments.value("cut");
  if (slowed || to_cut) request.healthy = request.graph;
  if (slowed) {
    const Result<void> done = slow(request.graph, *slowed, request.faults);
    if (!done) return tl::unexpected(done.error());
  }
  if (to_cut) {
    const Result<void> done = cut(request.graph, *to_cut, request.faults);
    if (!done) return tl::unexpected(done.error());
  }
  return request;
}

}  // namespace twinpod::cli
