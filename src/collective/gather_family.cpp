#include "collective/gather_family.hpp"

#include <algorithm>
#include <cstddef>

namespace twinpod::collective {
namespace {

// All ranks in order, each with its chunks.
Group everybody(int ranks, int factor) {
  Group group;
  for (int rank = 0; rank < ranks; ++rank) {
    group.ranks.push_back(rank);
    std::vector<int>& piece = group.pieces.emplace_back();
    for (int c = 0; c < factor; ++c) piece.push_back(rank * factor + c);
  }
  return group;
}

}  // namespace

bool gathers(Algorithm algorithm) {
  return algorithm != Algorithm::tree && algorithm != Algorithm::double_tree && algorithm != Algorithm::in_network;
}

int factor_of(Algorithm algorithm, int ranks, const Shape& shape) {
  if (algorithm == Algorithm::bidirectional_ring) return 2;
  if (algorithm == Algorithm::rail) return nodes_of(ranks, shape).per_node;
  if (algorithm == Algorithm::torus) return torus_factor(shape);
  return 1;
}

Rounds all_gather(Algorithm algorithm, int ranks, const Shape& shape, int direction) {
  switch (algorithm) {
    case Algorithm::bidirectional_ring:
      return bidirectional_ring_all_gather(everybody(ranks, 2), direction);
    case Algorithm::halving_doubling:
      return halving_doubling_all_gather(ranks);
    case Algorithm::bruck:
      return bruck_all_gather(ranks, direction);
    case Algorithm::hierarchical:
      return hierarchical_all_gather(ranks, shape, direction);
    case Algorithm::rail:
      return rail_all_gather(ranks, shape, direction);
    case Algorithm::torus:
      return torus_all_gather(ranks, shape, direction);
    case Algorithm::direct:
      return direct_all_gather(ranks);
    default:
      return ring_all_gather(everybody(ranks, 1), direction);
  }
}

Rounds reduce_scatter(Algorithm algorithm, int ranks, const Shape& shape) {
  return reversed(all_gather(algorithm, ranks, shape, -1), true);
}

std::vector<Phase> all_gather_phases(Algorithm algorithm, int ranks, double bytes, const Shape& shape, int direction) {
  switch (algorithm) {
    case Algorithm::bidirectional_ring:
      return bidirectional_ring_phases(ranks, 1, ranks, bytes / ranks);
    case Algorithm::halving_doubling:
      return halving_doubling_all_gather_phases(ranks, bytes);
    case Algorithm::bruck:
      return bruck_all_gather_phases(ranks, bytes, direction);
    case Algorithm::hierarchical:
      return hierarchical_all_gather_phases(ranks, bytes, shape, direction);
    case Algorithm::rail:
      return rail_all_gather_phases(ranks, bytes, shape, direction);
    case Algorithm::torus:
      return torus_all_gather_phases(ranks, bytes, shape, direction);
    case Algorithm::direct:
      return direct_all_gather_phases(ranks, bytes);
    default:
      return ring_phases(ranks, 1, ranks, bytes / ranks, direction);
  }
}

std::vector<Phase> reduce_scatter_phases(Algorithm algorithm, int ranks, double bytes, const Shape& shape) {
  return reversed(all_gather_phases(algorithm, ranks, bytes, shape, -1));
}

}  // namespace twinpod::collective
