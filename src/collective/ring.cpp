// Ring all-gather: in round t everybody passes on what it received in round t - 1.
//   all_gather (n-1) α + (n-1)/n B β;  reduce_scatter the same + (n-1)/n B γ;
//   all_reduce 2 (n-1) α + 2 (n-1)/n B β + (n-1)/n B γ
// Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009).
//
// Bidirectional: every piece goes both ways round and stops half-way; with an even number of ranks, the piece opposite
// arrives in two halves. Half of the rounds, and both directions of every cable are in use:
//   all_gather ⌈(n-1)/2⌉ α + (n-1)/(2n) B β, when a rank sends both ways at once
// Jain and Sabharwal, "Optimal bucket algorithms for large MPI collectives on torus interconnects" (2010).
#include <cstddef>

#include "collective/algorithms.hpp"

namespace twinpod::collective {

Rounds ring_all_gather(const Group& group, int direction) {
  const int n = static_cast<int>(group.ranks.size());
  Rounds rounds(static_cast<std::size_t>(n > 0 ? n - 1 : 0));
  for (int t = 0; t + 1 < n; ++t) {
    for (int i = 0; i < n; ++i) {
      const int to = group.ranks[wrap(i + direction, n)];
      add_steps(rounds[t], group.ranks[i], to, group.pieces[wrap(i - direction * t, n)]);
    }
  }
  return rounds;
}

Rounds bidirectional_ring_all_gather(const Group& group, int direction) {
  const int n = static_cast<int>(group.ranks.size());
  const int whole = (n - 1) / 2;
  Rounds rounds(static_cast<std::size_t>(n / 2));
  for (int t = 0; t < n / 2; ++t) {
    for (int i = 0; i < n; ++i) {
      for (const int sense : {direction, -direction}) {
        const std::vector<int>& piece = group.pieces[wrap(i - sense * t, n)];
        const auto middle = piece.begin() + static_cast<std::ptrdiff_t>(piece.size() + 1) / 2;
        std::vector<int> part = piece;
        if (t == whole && sense == direction) part.assign(piece.begin(), middle);
        if (t == whole && sense != direction) part.assign(middle, piece.end());
        add_steps(rounds[t], group.ranks[i], group.ranks[wrap(i + sense, n)], part);
      }
    }
  }
  return rounds;
}

std::vector<Phase> ring_phases(int ranks, int stride, int extent, double bytes, int direction) {
  if (extent < 2) return {};
  return {Phase{.shifts = {{stride, extent, direction, bytes}}, .repeats = extent - 1.0, .ranks = ranks}};
}

std::vector<Phase> bidirectional_ring_phases(int ranks, int stride, int extent, double bytes) {
  const auto both_ways = [&](double sent, double repeats) {
    return Phase{.shifts = {{stride, extent, 1, sent}, {stride, extent, -1, sent}}, .repeats = repeats, .ranks = ranks};
  };
  const double whole = (extent - 1) / 2;  // NOLINT(bugprone-integer-division): rounds are whole
  const double halves = extent % 2 == 0 ? 1 : 0;
  return folded({both_ways(bytes, whole), both_ways(bytes / 2, halves)});
}

}  // namespace twinpod::collective
