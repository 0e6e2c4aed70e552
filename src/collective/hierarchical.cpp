// All-gather by node: first a ring between the nodes through ranks of the same place (a rail), then a ring inside each
// node with what they brought. Backwards, and then forwards: the all-reduce that reduces and scatters inside the node,
// all-reduces between the nodes, and gathers inside the node.
//   all_reduce 2 (L-1) α_in + 2 (L-1)/L B β_in + 2 (N-1) α_out + 2 (N-1)/N B/L β_out + γ
// Jia et al., "Highly Scalable Deep Learning Training System with Mixed-Precision" (2018); Cho et al., "BlueConnect"
// (2019).
//
// A last node that is smaller takes part in every rail: where it has no rank of that place, one that it has carries the
// rail without bringing anything to it.
#include <algorithm>
#include <cstddef>

#include "collective/algorithms.hpp"

namespace twinpod::collective {
namespace {

// The rank of a node on a rail.
int on_rail(const Nodes& nodes, int node, int rail) { return nodes.first(node) + rail % nodes.size(node); }

// The pieces of ranks that a rail gathers.
std::vector<int> rail_pieces(const Nodes& nodes, int rail) {
  std::vector<int> pieces;
  for (int node = 0; node < nodes.count(); ++node) {
    if (rail < nodes.size(node)) pieces.push_back(nodes.first(node) + rail);
  }
  return pieces;
}

int num_rail_pieces(const Nodes& nodes, int rail) {
  return nodes.count() - (rail < nodes.size(nodes.count() - 1) ? 0 : 1);
}

// How many pieces a rank holds when the rails are done: those of all rails that it is on.
int num_held(const Nodes& nodes, int node, int place) {
  int held = 0;
  for (int rail = place; rail < nodes.per_node; rail += nodes.size(node)) held += num_rail_pieces(nodes, rail);
  return held;
}

Rounds through_rails(const Nodes& nodes, int direction) {
  std::vector<Rounds> rails;
  for (int rail = 0; rail < nodes.per_node; ++rail) {
    Group group;
    for (int node = 0; node < nodes.count(); ++node) {
      const bool brings = rail < nodes.size(node);
      group.ranks.push_back(on_rail(nodes, node, rail));
      group.pieces.push_back(brings ? std::vector<int>{group.ranks.back()} : std::vector<int>{});
    }
    rails.push_back(ring_all_gather(group, direction));
  }
  return side_by_side(rails);
}

Rounds inside_nodes(const Nodes& nodes, int direction) {
  std::vector<Rounds> rings;
  for (int node = 0; node < nodes.count(); ++node) {
    Group group;
    for (int place = 0; place < nodes.size(node); ++place) {
      group.ranks.push_back(nodes.first(node) + place);
      std::vector<int>& pieces = group.pieces.emplace_back();
      for (int rail = place; rail < nodes.per_node; rail += nodes.size(node)) {
        const std::vector<int> more = rail_pieces(nodes, rail);
        pieces.insert(pieces.end(), more.begin(), more.end());
      }
      std::sort(pieces.begin(), pieces.end());
    }
    rings.push_back(ring_all_gather(group, direction));
  }
  return side_by_side(rings);
}

// Rounds of a smaller last node differ from each other, so each is spelled out.
std::vector<Phase> uneven_phases(const Nodes& nodes, double piece, int direction) {
  const int last = nodes.count() - 1;
  std::vector<Phase> phases;
  for (int t = 0; t < last; ++t) {
    Phase& phase = phases.emplace_back(Phase{.ranks = nodes.ranks});
    for (int rail = 0; rail < nodes.per_node; ++rail) {
      for (int node = 0; node < nodes.count(); ++node) {
        const int brought_by = wrap(node - direction * t, nodes.count());
        if (rail >= nodes.size(brought_by)) continue;
        const int to = on_rail(nodes, wrap(node + direction, nodes.count()), rail);
        phase.transfers.push_back({on_rail(nodes, node, rail), to, piece});
      }
    }
  }
  std::vector<Phase> inside;
  for (int t = 0; t + 1 < nodes.per_node; ++t) {
    Phase& phase = inside.emplace_back(Phase{.ranks = nodes.ranks});
    for (int node = 0; node < nodes.count(); ++node) {
      const int size = nodes.size(node);
      for (int place = 0; place < size && t + 1 < size; ++place) {
        const int held = num_held(nodes, node, wrap(place - direction * t, size));
        const int to = nodes.first(node) + wrap(place + direction, size);
        phase.transfers.push_back({nodes.first(node) + place, to, piece * held});
      }
    }
  }
  return folded(one_after_another(std::move(phases), inside));
}

// What a rank sends in a ring: all that goes round, but what its successor brought. Backwards, all that it receives.
double sent_chunks(const Nodes& nodes, int rank, bool backwards) {
  const int node = rank / nodes.per_node;
  const int place = rank % nodes.per_node;
  double chunks = 0;
  for (int rail = place; rail < nodes.per_node && nodes.count() > 1; rail += nodes.size(node)) {
    const int other = backwards ? node : (node + 1) % nodes.count();
    chunks += num_rail_pieces(nodes, rail) - (rail < nodes.size(other) ? 1 : 0);
  }
  if (nodes.size(node) == 1) return chunks;
  const int other = backwards ? place : (place + 1) % nodes.size(node);
  return chunks + nodes.ranks - num_held(nodes, node, other);
}

// Of all ranks, with the all-gather forwards, the reduce-scatter backwards (mirrored), or both.
double most_sent(const Nodes& nodes, bool forwards, bool backwards) {
  double most = 0;
  for (int rank = 0; rank < nodes.ranks; ++rank) {
    const double gather = forwards ? sent_chunks(nodes, rank, false) : 0;
    const double scatter = backwards ? sent_chunks(nodes, rank, true) : 0;
    most = std::max(most, gather + scatter);
  }
  return most;
}

}  // namespace

Nodes nodes_of(int ranks, const Shape& shape) { return {ranks, std::min(ranks, shape.ranks_per_node)}; }

Rounds hierarchical_all_gather(int ranks, const Shape& shape, int direction) {
  const Nodes nodes = nodes_of(ranks, shape);
  return one_after_another(through_rails(nodes, direction), inside_nodes(nodes, direction));
}

std::vector<Phase> hierarchical_all_gather_phases(int ranks, double bytes, const Shape& shape, int direction) {
  const Nodes nodes = nodes_of(ranks, shape);
  const double piece = bytes / ranks;
  if (!nodes.even()) return uneven_phases(nodes, piece, direction);
  return one_after_another(ring_phases(ranks, nodes.per_node, nodes.count(), piece, direction),
                           ring_phases(ranks, 1, nodes.per_node, piece * nodes.count(), direction));
}

double hierarchical_all_gather_sent(int ranks, double bytes, const Shape& shape) {
  return bytes / ranks * most_sent(nodes_of(ranks, shape), true, false);
}

double hierarchical_reduce_scatter_sent(int ranks, double bytes, const Shape& shape) {
  return bytes / ranks * most_sent(nodes_of(ranks, shape), false, true);
}

double hierarchical_all_reduce_sent(int ranks, double bytes, const Shape& shape) {
  return bytes / ranks * most_sent(nodes_of(ranks, shape), true, true);
}

double hierarchical_all_gather_rounds(int ranks, const Shape& shape) {
  const Nodes nodes = nodes_of(ranks, shape);
  return nodes.count() - 1 + nodes.per_node - 1;
}

}  // namespace twinpod::collective
