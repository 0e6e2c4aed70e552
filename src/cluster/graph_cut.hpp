// The least capacity between two sets of devices: max-flow is min-cut.
//
//     max_flow_bytes_per_s(graph, {0, 1, 2, 3}, {4, 5, 6, 7})
#pragma once

#include <vector>

#include "cluster/graph.hpp"

namespace twinpod::cluster {

// One direction, from the first set of devices to the second, by Dinic's algorithm. For graphs of some thousand links.
double max_flow_bytes_per_s(const Graph& graph, const std::vector<int>& from, const std::vector<int>& to);

}  // namespace twinpod::cluster
