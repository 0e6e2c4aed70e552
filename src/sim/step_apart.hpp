// Whether transfers that were timed as if each were alone would have been in each other's way. If not, those are their
// times, and nothing has to be known about links.
//
//     std::vector<std::vector<Moving>> moving = ...;                    // by joint of networks.apart
//     if (!in_the_way(graph, networks, moving)) ...                     // done
//
// Used by the step engine. A link is full when what moves over it at a moment wants more than its rate. Links that the
// same joints use alike are looked at once.
#pragma once

#include <vector>

#include "cluster/graph.hpp"
#include "sim/step_network.hpp"

namespace twinpod::sim {

struct Moving {
  double begin_s = 0;
  double end_s = 0;
  double bytes_per_s = 0;  // that one rank sends
};

bool in_the_way(const cluster::Graph& graph, const StepNetworks& networks,
                const std::vector<std::vector<Moving>>& moving);

}  // namespace twinpod::sim
