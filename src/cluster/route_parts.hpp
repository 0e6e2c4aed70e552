// Pieces of routing, one file each.
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/graph.hpp"
#include "core/rng.hpp"

namespace twinpod::cluster {

// Chooses among equal links: from a hash that moves on with each choice.
struct Chooser {
  std::uint64_t state = 0;

  int of(int count) {
    if (count <= 1) return 0;
    return static_cast<int>((splitmix64(state) >> 32U) * static_cast<std::uint64_t>(count) >> 32U);
  }
};

// Each appends links and says whether there is such a way; what was appended then does not matter.
bool append_switched(const Graph& graph, int from, int to, std::vector<int>& links);
bool append_mesh(const Graph& graph, int from, int to, Chooser& chooser, std::vector<int>& links);
bool append_torus(const Graph& graph, int from, int to, bool in_order, Chooser& chooser, std::vector<int>& links);
// From the leaf or router of one NIC port to that of another. fixed: by the destination's slot, not by the chooser.
bool append_tree(const Graph& graph, int from_leaf, const NicPort& to, bool fixed, Chooser& chooser,
                 std::vector<int>& links);
bool append_dragonfly(const Graph& graph, int from_router, int to_router, Chooser& chooser, std::vector<int>& links);

// Over links that are not cut, as few as possible, whatever the structure. Vertices, not devices.
bool append_any_way(const Graph& graph, int from, int to, Chooser& chooser, std::vector<int>& links);

}  // namespace twinpod::cluster
