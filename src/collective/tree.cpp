// All-reduce over binary trees, in p pieces that follow each other: up to the root, added up on the way, and down
// again, both at the same time.
//   one tree:  (2D + p - 1) (α + B/p β), D = ⌈log2 n⌉ levels; a rank inside the tree sends up to 3 B
//   two trees: half of the buffer each, and who is inside one is a leaf of the other: at most 2 B for any rank
// Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan" (2009); NCCL since
// 2.4 (Jeaugey, "Massively Scale Your Deep Learning Training with NCCL 2.4", 2019).
//
// The tree: a rank whose lowest set bit is 2^k hangs below the rank with that bit cleared and the next one set, or,
// when that rank does not exist, below the one with the bit cleared; rank 0 is the root. All odd ranks are leaves. The
// second tree is the first one mirrored (even n) or shifted by one (odd n), so that its leaves are the even ranks.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "collective/algorithms.hpp"

namespace twinpod::collective {
namespace {

struct Tree {
  std::vector<int> parent;              // -1: the root
  std::vector<std::vector<int>> level;  // ranks by their distance from the root
  int depth() const { return static_cast<int>(level.size()) - 1; }
};

int parent_in_first(int ranks, int rank) {
  if (rank == 0) return -1;
  const int bit = rank & -rank;
  const int up = (rank ^ bit) | (bit << 1);
  return up < ranks ? up : rank ^ bit;
}

int renumbered(int ranks, int rank, int tree) {
  if (tree == 0) return rank;
  return ranks % 2 == 0 ? ranks - 1 - rank : (rank + 1) % ranks;
}

Tree tree_of(int ranks, int tree) {
  Tree made{std::vector<int>(static_cast<std::size_t>(ranks), -1), {}};
  std::vector<std::vector<int>> children(static_cast<std::size_t>(ranks));
  for (int rank = 1; rank < ranks; ++rank) {
    const int child = renumbered(ranks, rank, tree);
    const int parent = renumbered(ranks, parent_in_first(ranks, rank), tree);
    made.parent[child] = parent;
    children[parent].push_back(child);
  }
  for (std::vector<int> level{renumbered(ranks, 0, tree)}; !level.empty();) {
    std::vector<int> below;
    for (const int rank : level) below.insert(below.end(), children[rank].begin(), children[rank].end());
    made.level.push_back(std::exchange(level, below));
  }
  return made;
}

// Piece c of p leaves level l upwards in round D - l + c, and reaches level l downwards in round D + l - 1 + c.
// f(round, level, piece, upwards)
template <typename F>
void for_each_hop(const Tree& tree, int pieces, F&& f) {
  for (int level = 1; level <= tree.depth(); ++level) {
    for (int piece = 0; piece < pieces; ++piece) {
      f(tree.depth() - level + piece, level, piece, true);
      f(tree.depth() + level - 1 + piece, level, piece, false);
    }
  }
}

int num_rounds(const Tree& tree, int pieces) { return tree.depth() == 0 ? 0 : 2 * tree.depth() + pieces - 1; }

struct Hop {
  int tree = 0;
  int level = 0;
  bool upwards = true;
  bool operator==(const Hop&) const = default;
};

}  // namespace

Rounds tree_all_reduce(int ranks, int pieces, int trees) {
  std::vector<Rounds> all;
  for (int t = 0; t < trees; ++t) {
    const Tree tree = tree_of(ranks, t);
    Rounds& rounds = all.emplace_back(static_cast<std::size_t>(num_rounds(tree, pieces)));
    for_each_hop(tree, pieces, [&](int round, int level, int piece, bool upwards) {
      for (const int rank : tree.level[level]) {
        const int parent = tree.parent[rank];
        add_steps(rounds[round], upwards ? rank : parent, upwards ? parent : rank, {t * pieces + piece}, upwards);
      }
    });
  }
  return side_by_side(all);
}

std::vector<Phase> tree_all_reduce_phases(int ranks, double bytes, int pieces, int trees) {
  std::vector<Tree> made;
  std::vector<std::vector<Hop>> hops;
  for (int t = 0; t < trees; ++t) {
    made.push_back(tree_of(ranks, t));
    hops.resize(std::max(hops.size(), static_cast<std::size_t>(num_rounds(made[t], pieces))));
    for_each_hop(made[t], pieces, [&](int round, int level, int, bool upwards) {
      hops[round].push_back({t, level, upwards});
    });
  }
  std::vector<Phase> phases;
  for (std::size_t round = 0; round < hops.size(); ++round) {
    if (round > 0 && hops[round] == hops[round - 1]) {
      phases.back().repeats += 1;
      continue;
    }
    Phase& phase = phases.emplace_back(Phase{.ranks = ranks});
    for (const Hop& hop : hops[round]) {
      for (const int rank : made[hop.tree].level[hop.level]) {
        const int parent = made[hop.tree].parent[rank];
        const auto [from, to] = hop.upwards ? std::pair{rank, parent} : std::pair{parent, rank};
        phase.transfers.push_back({from, to, bytes / trees / pieces});
      }
    }
  }
  return phases;
}

Volume tree_all_reduce_volume(int ranks, double bytes, int pieces, int trees) {
  Volume volume{.total_bytes = 2 * (ranks - 1) * bytes};
  std::vector<double> sends(static_cast<std::size_t>(ranks), 0);
  for (int t = 0; t < trees; ++t) {
    const Tree tree = tree_of(ranks, t);
    volume.rounds = std::max<double>(volume.rounds, num_rounds(tree, pieces));
    for (int rank = 0; rank < ranks; ++rank) {
      if (tree.parent[rank] < 0) continue;
      sends[rank] += 1;               // up
      sends[tree.parent[rank]] += 1;  // down
    }
  }
  volume.sent_bytes = bytes / trees * *std::max_element(sends.begin(), sends.end());
  return volume;
}

}  // namespace twinpod::collective
