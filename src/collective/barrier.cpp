// Dissemination barrier: in round k every rank tells the one 2^k further what it has heard. ⌈log2 n⌉ α, no bytes.
// Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization" (1988). The pattern is that of Bruck.
#include "collective/algorithms.hpp"

namespace twinpod::collective {

Rounds dissemination_barrier(int ranks) {
  Rounds rounds;
  for (int distance = 1; distance < ranks; distance *= 2) {
    Round& round = rounds.emplace_back();
    for (int rank = 0; rank < ranks; ++rank) add_steps(round, rank, (rank + distance) % ranks, {0}, true);
  }
  return rounds;
}

std::vector<Phase> dissemination_barrier_phases(int ranks) {
  std::vector<Phase> phases;
  for (int distance = 1; distance < ranks; distance *= 2) {
    phases.push_back({.shifts = {{1, ranks, distance, 0}}, .ranks = ranks});
  }
  return phases;
}

}  // namespace twinpod::collective
