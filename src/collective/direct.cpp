// Direct all-gather: everybody sends its piece to everybody else, at once.
//   all_gather α + (n-1)/n B β;  all_reduce 2 α + 2 (n-1)/n B β + (n-1)/n B γ, when a rank sends to all others at once
// The fewest rounds, for ranks that one switch joins.
#include "collective/algorithms.hpp"

namespace twinpod::collective {

Rounds direct_all_gather(int ranks) {
  Rounds rounds(ranks > 1 ? 1 : 0);
  for (int distance = 1; distance < ranks; ++distance) {
    for (int rank = 0; rank < ranks; ++rank) add_steps(rounds[0], rank, (rank + distance) % ranks, {rank});
  }
  return rounds;
}

std::vector<Phase> direct_all_gather_phases(int ranks, double bytes) {
  Phase phase{.ranks = ranks};
  for (int distance = 1; distance < ranks; ++distance) phase.shifts.push_back({1, ranks, distance, bytes / ranks});
  return folded({phase});
}

}  // namespace twinpod::collective
