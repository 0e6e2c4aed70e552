// What `twinpod topology` prints and draws.
//
//     const cluster::Measures measures = cluster::measure(graph);
//     const TopologyView view{cluster, graph, measures, {}, {}};
//     topology_text(view);  topology_json(view);  topology_svg(view);
#pragma once

#include <string>
#include <vector>

#include "cluster/graph.hpp"
#include "cluster/measure.hpp"
#include "spec/cluster.hpp"

namespace twinpod::report {

// A route that was asked for.
struct RouteView {
  int from = 0;  // devices
  int to = 0;
  std::string routing;
  std::vector<int> links;
  int equal = 1;  // routes as short as this one, as far as they were counted
  bool more = false;
};

struct TopologyView {
  const spec::Cluster& cluster;
  const cluster::Graph& graph;
  const cluster::Measures& measures;
  std::vector<std::string> faults;  // "leaf3-spine2 cut", as they were asked for
  std::vector<RouteView> routes;
};

std::string topology_text(const TopologyView& view);
std::string topology_json(const TopologyView& view);

// A picture that shows the wiring, not every wire: groups of switches are boxes, cables between two boxes one line with
// their number.
std::string topology_svg(const TopologyView& view);

}  // namespace twinpod::report
