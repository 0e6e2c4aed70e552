// Part j of rank i's input becomes part i of rank j's output. B is what one rank sends, its own part included.
//   direct: in round s every rank sends to the one s further: (n-1) α + (n-1)/n B β; or all pairs in one round
//   bruck: in round k every part whose way has bit k goes 2^k further: ⌈log2 n⌉ α + about ⌈log2 n⌉/2 B β
//     Bruck, Ho, Kipnis, Upfal and Weathersby (1997); Thakur, Rabenseifner and Gropp (2005)
//   hierarchical: inside the node to the rank on the rail of the receiver, then along that rail, with the parts of the
//     whole node together: (L-1) α_in + (L-1)/L B β_in + (N-1) α_out + (N-1)/N B β_out.
//     As NCCL's PXN and DeepSpeed-MoE (Rajbhandari et al., 2022)
#include <algorithm>
#include <bit>
#include <cstddef>

#include "collective/algorithms.hpp"

namespace twinpod::collective {
namespace {

Schedule blank(Algorithm algorithm, int ranks) {
  return {.verb = Verb::all_to_all, .algorithm = algorithm, .ranks = ranks, .chunks = ranks, .in_place = false};
}

void keep_own(Round& round, int rank) {
  round.steps.push_back({rank, rank, Buffer::input, rank, Buffer::output, rank});
}

Schedule direct(int ranks, bool all_pairs) {
  Schedule made = blank(Algorithm::direct, ranks);
  made.rounds.resize(all_pairs ? 1 : std::max(1, ranks - 1));
  for (int rank = 0; rank < ranks; ++rank) keep_own(made.rounds[0], rank);
  for (int s = 1; s < ranks; ++s) {
    for (int rank = 0; rank < ranks; ++rank) {
      const int to = (rank + s) % ranks;
      made.rounds[all_pairs ? 0 : s - 1].steps.push_back({rank, to, Buffer::input, to, Buffer::output, rank});
    }
  }
  return made;
}

// A part that goes j further does so in the steps of j's bits. It waits in one of two halves of the scratch, in turn,
// so that no round reads what it writes.
Step bruck_step(int ranks, int rank, int distance, int j) {
  const int done = j & (distance - 1);  // of its way, before this round
  const int to = (rank + distance) % ranks;
  const int origin = wrap(rank - done, ranks);
  const int half = std::popcount(static_cast<unsigned>(done)) % 2;
  Step step{rank, to, Buffer::scratch, j + half * ranks, Buffer::scratch, j + (1 - half) * ranks};
  if (done == 0) {
    step.source = Buffer::input;
    step.source_chunk = wrap(rank + j, ranks);
  }
  if (done + distance == j) {
    step.target = Buffer::output;
    step.target_chunk = origin;
  }
  return step;
}

Schedule bruck(int ranks) {
  Schedule made = blank(Algorithm::bruck, ranks);
  made.scratch_chunks = 2 * ranks;
  made.rounds.resize(static_cast<std::size_t>(std::max(1, ceil_log2(ranks))));
  for (int rank = 0; rank < ranks; ++rank) keep_own(made.rounds[0], rank);
  for (int k = 0; (1 << k) < ranks; ++k) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (int j = 1; j < ranks; ++j) {
        if ((j >> k) % 2 == 1) made.rounds[k].steps.push_back(bruck_step(ranks, rank, 1 << k, j));
      }
    }
  }
  return made;
}

// Parts whose way has this bit.
int with_bit(int ranks, int bit) { return ranks / (2 * bit) * bit + std::max(0, ranks % (2 * bit) - bit); }

// Who in `node` sends to `to`, which is on another node: the rank on the same rail, or one that stands in for it.
int proxy(const Nodes& nodes, int node, int to) { return nodes.first(node) + to % nodes.per_node % nodes.size(node); }

// Inside the node: to the ranks themselves, and for other nodes to their proxies, into scratch[to * L + place].
void add_inside(const Nodes& nodes, Rounds& rounds) {
  for (int from = 0; from < nodes.ranks; ++from) {
    const int node = from / nodes.per_node;
    const int size = nodes.size(node);
    for (int to = 0; to < nodes.ranks; ++to) {
      const bool near = to / nodes.per_node == node;
      const int next = near ? to : proxy(nodes, node, to);
      const int round = wrap(next - from, size);
      Step step{from, next, Buffer::input, to, Buffer::output, from};
      if (!near) {
        step.target = Buffer::scratch;
        step.target_chunk = to * nodes.per_node + from % nodes.per_node;
      }
      rounds[std::max(0, round - 1)].steps.push_back(step);
    }
  }
}

void add_between(const Nodes& nodes, Rounds& rounds, int first_round) {
  for (int node = 0; node < nodes.count(); ++node) {
    for (int to = 0; to < nodes.ranks; ++to) {
      const int s = wrap(to / nodes.per_node - node, nodes.count());
      if (s == 0) continue;
      Step step{proxy(nodes, node, to), to, Buffer::scratch, to * nodes.per_node, Buffer::output, nodes.first(node)};
      step.count = nodes.size(node);
      rounds[first_round + s - 1].steps.push_back(step);
    }
  }
}

Schedule hierarchical(const Nodes& nodes) {
  Schedule made = blank(Algorithm::hierarchical, nodes.ranks);
  made.scratch_chunks = nodes.ranks * nodes.per_node;
  const int inside = std::max(1, nodes.per_node - 1);
  made.rounds.resize(static_cast<std::size_t>(inside + nodes.count() - 1));
  add_inside(nodes, made.rounds);
  add_between(nodes, made.rounds, inside);
  return made;
}

// Parts that a rank sends to another of its node: the other's own, and those for other nodes that it is the proxy of.
int parts_inside(const Nodes& nodes, int to) {
  const int node = to / nodes.per_node;
  int parts = 1;
  for (int rail = to % nodes.per_node; rail < nodes.per_node; rail += nodes.size(node)) {
    parts += nodes.count() - 1;
    if (node + 1 < nodes.count() && rail >= nodes.size(nodes.count() - 1)) --parts;
  }
  return parts;
}

std::vector<Phase> uneven_phases(const Nodes& nodes, double part) {
  std::vector<Phase> phases(static_cast<std::size_t>(nodes.per_node - 1 + nodes.count() - 1),
                            Phase{.ranks = nodes.ranks});
  for (int rank = 0; rank < nodes.ranks; ++rank) {
    const int node = rank / nodes.per_node;
    for (int s = 1; s < nodes.size(node); ++s) {
      const int to = nodes.first(node) + (rank - nodes.first(node) + s) % nodes.size(node);
      phases[s - 1].transfers.push_back({rank, to, part * parts_inside(nodes, to)});
    }
    for (int s = 1; s < nodes.count(); ++s) {
      const int from_node = wrap(node - s, nodes.count());
      const double bytes = part * nodes.size(from_node);
      phases[nodes.per_node - 2 + s].transfers.push_back({proxy(nodes, from_node, rank), rank, bytes});
    }
  }
  return folded(std::move(phases));
}

std::vector<Phase> hierarchical_phases(const Nodes& nodes, double part) {
  if (!nodes.even()) return uneven_phases(nodes, part);
  std::vector<Phase> phases;
  for (int s = 1; s < nodes.per_node; ++s) {
    phases.push_back({.shifts = {{1, nodes.per_node, s, part * nodes.count()}}, .ranks = nodes.ranks});
  }
  for (int s = 1; s < nodes.count(); ++s) {
    const Shift shift{nodes.per_node, nodes.count(), s, part * nodes.per_node};
    phases.push_back({.shifts = {shift}, .ranks = nodes.ranks});
  }
  return phases;
}

Volume hierarchical_volume(const Nodes& nodes, double part) {
  Volume volume{.rounds = nodes.per_node - 1.0 + nodes.count() - 1.0};
  for (int rank = 0; rank < nodes.ranks; ++rank) {
    const int node = rank / nodes.per_node;
    const int size = nodes.size(node);
    const double for_others = parts_inside(nodes, rank) - 1;  // that it sends on, for each rank of its node
    double inside = nodes.ranks - for_others - 1;
    if (size == 1) inside = 0;
    const double sent = part * (inside + for_others * size);
    volume.sent_bytes = std::max(volume.sent_bytes, sent);
    volume.total_bytes += sent;
  }
  return volume;
}

}  // namespace

Schedule all_to_all(Algorithm algorithm, int ranks, const Shape& shape) {
  if (algorithm == Algorithm::bruck) return bruck(ranks);
  if (algorithm == Algorithm::hierarchical) return hierarchical(nodes_of(ranks, shape));
  return direct(ranks, shape.all_pairs);
}

std::vector<Phase> all_to_all_phases(Algorithm algorithm, int ranks, double bytes, const Shape& shape) {
  const double part = bytes / ranks;
  if (algorithm == Algorithm::hierarchical) return hierarchical_phases(nodes_of(ranks, shape), part);
  std::vector<Phase> phases;
  if (algorithm == Algorithm::bruck) {
    for (int distance = 1; distance < ranks; distance *= 2) {
      phases.push_back({.shifts = {{1, ranks, distance, part * with_bit(ranks, distance)}}, .ranks = ranks});
    }
    return phases;
  }
  if (shape.all_pairs) return direct_all_gather_phases(ranks, bytes);
  for (int s = 1; s < ranks; ++s) phases.push_back({.shifts = {{1, ranks, s, part}}, .ranks = ranks});
  return phases;
}

Volume all_to_all_volume(Algorithm algorithm, int ranks, double bytes, const Shape& shape) {
  const double part = bytes / ranks;
  if (algorithm == Algorithm::hierarchical) return hierarchical_volume(nodes_of(ranks, shape), part);
  double parts = ranks - 1;
  double rounds = shape.all_pairs ? std::min(1, ranks - 1) : ranks - 1;
  if (algorithm == Algorithm::bruck) {
    parts = 0;
    rounds = ceil_log2(ranks);
    for (int distance = 1; distance < ranks; distance *= 2) parts += with_bit(ranks, distance);
  }
  return {rounds, part * parts, part * parts * ranks};
}

}  // namespace twinpod::collective
