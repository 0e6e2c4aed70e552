// What the algorithms are made of: rounds and phases that follow each other, run side by side, or run backwards.
#pragma once

#include <vector>

#include "collective/phases.hpp"
#include "collective/schedule.hpp"

namespace twinpod::collective {

// Ranks that gather together: pieces[i] are the chunks that ranks[i] brings.
struct Group {
  std::vector<int> ranks;
  std::vector<std::vector<int>> pieces;
};

int ceil_log2(int n);
int floor_power_of_two(int n);
inline int wrap(int i, int n) { return (i % n + n) % n; }

// Consecutive chunks go in one step; the chunks keep their numbers.
void add_steps(Round& round, int from, int to, const std::vector<int>& chunks, bool reduce = false);

Rounds one_after_another(Rounds first, Rounds second);
Rounds side_by_side(const std::vector<Rounds>& parts);

// Backwards in time, every step from its receiver to its sender. An all-gather in which every rank receives every chunk
// once becomes a reduce-scatter, and a broadcast a reduce (with `reduce`); a scatter becomes a gather (without).
Rounds reversed(const Rounds& rounds, bool reduce);

// Every step reads and writes this buffer.
Rounds on_buffer(Rounds rounds, Buffer buffer);

std::vector<Phase> one_after_another(std::vector<Phase> first, const std::vector<Phase>& second);
std::vector<Phase> side_by_side(const std::vector<std::vector<Phase>>& parts);
std::vector<Phase> reversed(const std::vector<Phase>& phases);

// Neighbours that are alike become one phase; phases without transfers go.
std::vector<Phase> folded(std::vector<Phase> phases);

}  // namespace twinpod::collective
