// What a graph amounts to: switches, cables and ports of each tier, bisection and diameter.
//
//     const Measures measures = measure(graph);
//     measures.switches[0].tier == "leaf"; measures.switches[0].count == 56
#pragma once

#include <string>
#include <vector>

#include "cluster/graph.hpp"

namespace twinpod::cluster {

struct SwitchCount {
  std::string tier;
  long long count = 0;
  int ports_used = 0;  // of the fullest one
  int radix = 0;       // 0: not known
};

struct CableCount {
  std::string tier;
  long long count = 0;
  double bytes_per_s = 0;  // of one cable, one direction, the slowest that is not cut
};

struct Measures {
  int devices = 0;
  int nics = 0;
  std::vector<SwitchCount> switches;
  std::vector<CableCount> cables;
  // The least capacity from one half of the devices to the other, one direction.
  double bisection_bytes_per_s = 0;
  bool bisection_is_bound = false;  // a graph of no known structure: no half that was tried has less
  int diameter_links = 0;           // links of the longest route
  int diameter_switches = 0;        // switches on it
};

Measures measure(const Graph& graph);

double bisection_bytes_per_s(const Graph& graph, bool& is_bound);

}  // namespace twinpod::cluster
