// The algorithms, one file each. Costs are in the letters of Thakur, Rabenseifner and Gropp, "Optimization of
// Collective Communication Operations in MPICH" (2005):
//   n ranks, B bytes (as in phases.hpp), α seconds for a message, β seconds for a byte, γ seconds to add up a byte,
//   p pieces of a pipeline, L ranks on each of N nodes.
//
// Those that gather are written once, as an all-gather, and give three verbs. Backwards, an all-gather is a
// reduce-scatter: each chunk runs back along the tree on which it was spread, and is added up where the tree joins.
// One after the other, the two are an all-reduce. `direction` (1 or -1) is the sense of rotation: the reduce-scatter is
// the mirrored all-gather backwards, so that both halves of an all-reduce go round the same way.
#pragma once

#include <vector>

#include "collective/build.hpp"
#include "collective/phases.hpp"
#include "collective/schedule.hpp"

namespace twinpod::collective {

// Chunks are numbered so that rank r brings chunks r * factor to r * factor + factor - 1.
Rounds ring_all_gather(const Group& group, int direction);
Rounds bidirectional_ring_all_gather(const Group& group, int direction);
Rounds halving_doubling_all_gather(int ranks);
Rounds halving_doubling_all_reduce(int ranks);
Rounds bruck_all_gather(int ranks, int direction);
Rounds direct_all_gather(int ranks);
Rounds hierarchical_all_gather(int ranks, const Shape& shape, int direction);
Rounds rail_all_gather(int ranks, const Shape& shape, int direction);
Rounds torus_all_gather(int ranks, const Shape& shape, int direction);
int torus_factor(const Shape& shape);

// Along one digit of the rank number, as Shift means it; every rank brings `bytes`.
std::vector<Phase> ring_phases(int ranks, int stride, int extent, double bytes, int direction);
std::vector<Phase> bidirectional_ring_phases(int ranks, int stride, int extent, double bytes);

// `bytes` is the whole buffer.
std::vector<Phase> halving_doubling_all_gather_phases(int ranks, double bytes);
std::vector<Phase> halving_doubling_all_reduce_phases(int ranks, double bytes);
std::vector<Phase> bruck_all_gather_phases(int ranks, double bytes, int direction);
std::vector<Phase> direct_all_gather_phases(int ranks, double bytes);
std::vector<Phase> hierarchical_all_gather_phases(int ranks, double bytes, const Shape& shape, int direction);
std::vector<Phase> rail_all_gather_phases(int ranks, double bytes, const Shape& shape, int direction);
std::vector<Phase> torus_all_gather_phases(int ranks, double bytes, const Shape& shape, int direction);

// Bytes that the busiest rank sends, where that is not the (n - 1) / n B of a ring.
double halving_doubling_all_gather_sent_chunks(int ranks, int rank);  // by this rank; rank 0 sends most
double halving_doubling_all_reduce_sent(int ranks, double bytes);
double hierarchical_all_gather_sent(int ranks, double bytes, const Shape& shape);
double hierarchical_reduce_scatter_sent(int ranks, double bytes, const Shape& shape);
double hierarchical_all_reduce_sent(int ranks, double bytes, const Shape& shape);
double hierarchical_all_gather_rounds(int ranks, const Shape& shape);
double torus_all_gather_rounds(const Shape& shape);

// All-reduce over one binary tree, or over two that carry half of the buffer each.
Rounds tree_all_reduce(int ranks, int pieces, int trees);
std::vector<Phase> tree_all_reduce_phases(int ranks, double bytes, int pieces, int trees);
Volume tree_all_reduce_volume(int ranks, double bytes, int pieces, int trees);

// From the root to all; backwards they reduce.
Rounds tree_broadcast(int ranks, int root);
Rounds chain_broadcast(int ranks, int root, int pieces);
Rounds direct_broadcast(int ranks, int root);
Rounds scatter_gather_broadcast(int ranks, int root);
std::vector<Phase> tree_broadcast_phases(int ranks, double bytes, int root);
std::vector<Phase> chain_broadcast_phases(int ranks, double bytes, int root, int pieces);
std::vector<Phase> direct_broadcast_phases(int ranks, double bytes, int root);
std::vector<Phase> scatter_gather_broadcast_phases(int ranks, double bytes, int root);
double scatter_gather_broadcast_sent(int ranks, double bytes, int root);

// Parts from the root; backwards they gather.
Rounds tree_scatter(int ranks, int root);
Rounds direct_scatter(int ranks, int root);
std::vector<Phase> tree_scatter_phases(int ranks, double bytes, int root);

Schedule all_to_all(Algorithm algorithm, int ranks, const Shape& shape);
std::vector<Phase> all_to_all_phases(Algorithm algorithm, int ranks, double bytes, const Shape& shape);
Volume all_to_all_volume(Algorithm algorithm, int ranks, double bytes, const Shape& shape);

Rounds dissemination_barrier(int ranks);
std::vector<Phase> dissemination_barrier_phases(int ranks);

Schedule in_network(Verb verb, int ranks, const Shape& shape);
std::vector<Phase> in_network_phases(Verb verb, int ranks, double bytes, const Shape& shape);
Volume in_network_volume(Verb verb, int ranks, double bytes, const Shape& shape);

// How ranks are spread over nodes: consecutive ranks share a node, and the last node may be smaller.
struct Nodes {
  int ranks = 1;
  int per_node = 1;
  int count() const { return (ranks + per_node - 1) / per_node; }
  int size(int node) const { return node + 1 < count() ? per_node : ranks - node * per_node; }
  int first(int node) const { return node * per_node; }
  bool even() const { return ranks % per_node == 0; }
};
Nodes nodes_of(int ranks, const Shape& shape);

}  // namespace twinpod::collective
