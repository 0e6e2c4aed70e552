// From a root to all. Ranks are counted from the root on: v = rank - root (mod n).
//   tree (binomial): ⌈log2 n⌉ (α + B β); the longest distances first. Thakur, Rabenseifner and Gropp (2005)
//   ring (a chain, p pieces): (n - 2 + p) (α + B/p β)
//   direct: α + (n-1) B β at the root
//   halving_doubling: scatter down the binomial tree, then gather by doubling: (⌈log2 n⌉ + k) α + 2 (n-1)/n B β for 2^k
//     ranks. Barnett, Gupta, Payne, Shuler, van de Geijn and Watts, "Interprocessor collective communication library
//     (InterCom)" (1994)
// Backwards all but the last reduce to the root, at the same cost and (n-1)/n … ⌈log2 n⌉ B γ for adding up.
#include <algorithm>
#include <cstddef>

#include "collective/algorithms.hpp"

namespace twinpod::collective {
namespace {

// Edges of the binomial tree, the longest first: f(round, v, w) for v to w; below w are w .. w + distance - 1.
template <typename F>
void for_each_edge(int ranks, F&& f) {
  int round = 0;
  for (int distance = 1 << ceil_log2(ranks) >> 1; distance > 0; distance /= 2, ++round) {
    for (int v = 0; v + distance < ranks; v += 2 * distance) f(round, v, v + distance, distance);
  }
}

}  // namespace

Rounds tree_broadcast(int ranks, int root) {
  Rounds rounds(static_cast<std::size_t>(ceil_log2(ranks)));
  for_each_edge(ranks, [&](int round, int v, int w, int) {
    add_steps(rounds[round], wrap(v + root, ranks), wrap(w + root, ranks), {0});
  });
  return rounds;
}

std::vector<Phase> tree_broadcast_phases(int ranks, double bytes, int root) {
  std::vector<Phase> phases(static_cast<std::size_t>(ceil_log2(ranks)), Phase{.ranks = ranks});
  for_each_edge(ranks, [&](int round, int v, int w, int) {
    phases[round].transfers.push_back({wrap(v + root, ranks), wrap(w + root, ranks), bytes});
  });
  return folded(std::move(phases));
}

Rounds chain_broadcast(int ranks, int root, int pieces) {
  if (ranks < 2) return {};
  Rounds rounds(static_cast<std::size_t>(ranks - 2 + pieces));
  for (int v = 0; v + 1 < ranks; ++v) {
    for (int piece = 0; piece < pieces; ++piece) {
      add_steps(rounds[v + piece], wrap(v + root, ranks), wrap(v + 1 + root, ranks), {piece});
    }
  }
  return rounds;
}

// In round t the ranks from t - p + 1 to t pass a piece on.
std::vector<Phase> chain_broadcast_phases(int ranks, double bytes, int root, int pieces) {
  std::vector<Phase> phases;
  for (int t = 0; ranks > 1 && t < ranks - 2 + pieces; ++t) {
    const int first = std::max(0, t - pieces + 1);
    const int count = std::min(t, ranks - 2) - first + 1;
    const Shift shift{1, ranks, 1, bytes / pieces, wrap(first + root, ranks), count};
    phases.push_back({.shifts = {shift}, .ranks = ranks});
  }
  return folded(std::move(phases));
}

Rounds direct_broadcast(int ranks, int root) {
  Rounds rounds(ranks > 1 ? 1 : 0);
  for (int v = 1; v < ranks; ++v) add_steps(rounds[0], root, wrap(v + root, ranks), {0});
  return rounds;
}

std::vector<Phase> direct_broadcast_phases(int ranks, double bytes, int root) {
  Phase phase{.ranks = ranks};
  for (int v = 1; v < ranks; ++v) phase.transfers.push_back({root, wrap(v + root, ranks), bytes});
  return folded({phase});
}

// Scatter: every rank sends the parts of all below its child. ⌈log2 n⌉ α + (n-1)/n B β at the root.
Rounds tree_scatter(int ranks, int root) {
  Rounds rounds(static_cast<std::size_t>(ceil_log2(ranks)));
  for_each_edge(ranks, [&](int round, int v, int w, int distance) {
    std::vector<int> parts;
    for (int below = w; below < std::min(ranks, w + distance); ++below) parts.push_back(wrap(below + root, ranks));
    std::sort(parts.begin(), parts.end());
    add_steps(rounds[round], wrap(v + root, ranks), wrap(w + root, ranks), parts);
  });
  return rounds;
}

std::vector<Phase> tree_scatter_phases(int ranks, double bytes, int root) {
  std::vector<Phase> phases(static_cast<std::size_t>(ceil_log2(ranks)), Phase{.ranks = ranks});
  for_each_edge(ranks, [&](int round, int v, int w, int distance) {
    const int parts = std::min(distance, ranks - w);
    phases[round].transfers.push_back({wrap(v + root, ranks), wrap(w + root, ranks), bytes / ranks * parts});
  });
  return folded(std::move(phases));
}

// Direct scatter: α + (n-1)/n B β at the root.
Rounds direct_scatter(int ranks, int root) {
  Rounds rounds(ranks > 1 ? 1 : 0);
  for (int v = 1; v < ranks; ++v) add_steps(rounds[0], root, wrap(v + root, ranks), {wrap(v + root, ranks)});
  return rounds;
}

Rounds scatter_gather_broadcast(int ranks, int root) {
  return one_after_another(tree_scatter(ranks, root), halving_doubling_all_gather(ranks));
}

std::vector<Phase> scatter_gather_broadcast_phases(int ranks, double bytes, int root) {
  return folded(
      one_after_another(tree_scatter_phases(ranks, bytes, root), halving_doubling_all_gather_phases(ranks, bytes)));
}

// A rank scatters to all below it: those up to its lowest set bit, counted from the root.
double scatter_gather_broadcast_sent(int ranks, double bytes, int root) {
  double most = 0;
  for (int v = 0; v < ranks; ++v) {
    const int below = v == 0 ? ranks - 1 : std::min(v & -v, ranks - v) - 1;
    most = std::max(most, below + halving_doubling_all_gather_sent_chunks(ranks, wrap(v + root, ranks)));
  }
  return bytes / ranks * most;
}

}  // namespace twinpod::collective
