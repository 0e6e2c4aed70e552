// Which links of a torus a collective uses, and how much of what a rank sends goes over each of them.
//
//     const std::vector<double> rates = torus_axis_rates(graph);
//     const TorusUse use = torus_use(graph, rates, {0, 1, 2, 3});       // a line along the last axis
//     use.loads                                                        // both ways of its three cables, share 1 each
//
// Members whose coordinates are all combinations of some of each axis (a box, or one with gaps) go along all their axes
// at once, each with a part of the data: round an axis both ways where it closes, there and back on a line, which is
// half as fast. An axis gets data in proportion to its links' rate, and the less the more links lie between neighbours:
// where members are s apart, s groups lie between each other and share them. So the parts of all axes end together.
//
// This is the bucket algorithm with all axes in turn (Jain and Sabharwal 2010, "Optimal bucket algorithms for large MPI
// collectives on torus interconnects", ICS'10). Other members are a ring in their order, both ways.
#pragma once

#include <vector>

#include "cluster/graph.hpp"
#include "sim/step_network.hpp"

namespace twinpod::sim {

// Two devices that exchange so much of what a rank sends, each way, by whatever route there is.
struct TorusHop {
  int from = 0;
  int to = 0;
  double share = 0;
};

struct TorusUse {
  std::vector<LinkLoad> loads;
  std::vector<TorusHop> hops;  // where members are no box, and where a cable is cut
  double byte_s = 0;           // of a link, as built, for each byte that a rank sends; 0: members are no box
};

// Of a link along each axis, as built: the fastest.
std::vector<double> torus_axis_rates(const cluster::Graph& graph);

// `devices`: at least two, of one torus.
TorusUse torus_use(const cluster::Graph& graph, const std::vector<double>& axis_rates, const std::vector<int>& devices);

}  // namespace twinpod::sim
