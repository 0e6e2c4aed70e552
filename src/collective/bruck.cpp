// Bruck all-gather: in round k every rank sends all that it has, at most 2^k pieces, over a distance of 2^k.
//   all_gather ⌈log2 n⌉ α + (n-1)/n B β for any n: as few rounds as there can be, without the extra rounds of doubling
// Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in multiport
// message-passing systems" (1997). Pieces keep their places, so the rotation at the end of the paper is not needed.
#include <algorithm>

#include "collective/algorithms.hpp"

namespace twinpod::collective {

Rounds bruck_all_gather(int ranks, int direction) {
  Rounds rounds;
  for (int distance = 1; distance < ranks; distance *= 2) {
    Round& round = rounds.emplace_back();
    const int pieces = std::min(distance, ranks - distance);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<int> sent;
      for (int i = 0; i < pieces; ++i) sent.push_back(wrap(rank - direction * i, ranks));
      std::sort(sent.begin(), sent.end());
      add_steps(round, rank, wrap(rank + direction * distance, ranks), sent);
    }
  }
  return rounds;
}

std::vector<Phase> bruck_all_gather_phases(int ranks, double bytes, int direction) {
  std::vector<Phase> phases;
  for (int distance = 1; distance < ranks; distance *= 2) {
    const int pieces = std::min(distance, ranks - distance);
    phases.push_back({.shifts = {{1, ranks, direction * distance, bytes / ranks * pieces}}, .ranks = ranks});
  }
  return phases;
}

}  // namespace twinpod::collective
