// Rings over rails: as many rings as a node has ranks, all at once, each with its share of the buffer, and each
// crossing from node to node between other ranks, so that all network cards of a node are in use.
//   all_gather (n-1) α + (n-1)/n B β over the node's links, (n-1)/n B/L β over each network card
// As NCCL builds its channels on nodes with one network card for each device.
//
// Ring j walks up through one node and down through the next, so that it leaves a node on the rail on which it enters
// the next; with an odd number of nodes the last hop changes rails.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "collective/algorithms.hpp"

namespace twinpod::collective {
namespace {

std::vector<int> order_of_ring(const Nodes& nodes, int ring) {
  std::vector<int> order;
  for (int node = 0; node < nodes.count(); ++node) {
    const int size = nodes.size(node);
    for (int i = 0; i < size; ++i) {
      const int place = node % 2 == 0 ? ring + i : ring - 1 - i;
      order.push_back(nodes.first(node) + wrap(place, size));
    }
  }
  return order;
}

}  // namespace

Rounds rail_all_gather(int ranks, const Shape& shape, int direction) {
  const Nodes nodes = nodes_of(ranks, shape);
  std::vector<Rounds> rings;
  for (int ring = 0; ring < nodes.per_node; ++ring) {
    Group group{.ranks = order_of_ring(nodes, ring), .pieces = {}};
    for (const int rank : group.ranks) group.pieces.push_back({rank * nodes.per_node + ring});
    rings.push_back(ring_all_gather(group, direction));
  }
  return side_by_side(rings);
}

std::vector<Phase> rail_all_gather_phases(int ranks, double bytes, const Shape& shape, int direction) {
  const Nodes nodes = nodes_of(ranks, shape);
  if (ranks < 2) return {};
  std::vector<std::pair<int, int>> hops;
  for (int ring = 0; ring < nodes.per_node; ++ring) {
    const std::vector<int> order = order_of_ring(nodes, ring);
    for (int i = 0; i < ranks; ++i) hops.emplace_back(order[i], order[wrap(i + direction, ranks)]);
  }
  std::sort(hops.begin(), hops.end());
  Phase phase{.repeats = ranks - 1.0, .ranks = ranks};
  const double piece = bytes / ranks / nodes.per_node;
  for (std::size_t i = 0; i < hops.size(); ++i) {
    const bool again = i > 0 && hops[i] == hops[i - 1];
    if (!again) phase.transfers.push_back({hops[i].first, hops[i].second, 0});
    phase.transfers.back().bytes += piece;
  }
  return {phase};
}

}  // namespace twinpod::collective
