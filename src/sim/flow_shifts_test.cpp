#include "sim/flow_shifts.hpp"

#include <gtest/gtest.h>

#include "core/rng.hpp"

namespace twinpod::sim {
namespace {

// Leaves of odd sizes with one fat link up and one down; each rank with a link of its own up and down.
struct Leaves {
  std::vector<int> leaf_of_rank;
  int leaves = 0;
  std::vector<FlowLink> links;  // up and down of each leaf, then up and down of each rank
};

Leaves random_leaves(Rng& rng) {
  Leaves made;
  made.leaves = 1 + static_cast<int>(rng.below(4));
  for (int leaf = 0; leaf < made.leaves; ++leaf) {
    for (std::uint64_t rank = 1 + rng.below(4); rank > 0; --rank) made.leaf_of_rank.push_back(leaf);
  }
  for (int i = 0; i < 2 * made.leaves; ++i) made.links.push_back({rng.uniform(1e9, 4e9), 1e-6});
  made.links.resize(made.links.size() + 2 * made.leaf_of_rank.size(), {1.5e9, 2e-6});
  return made;
}

Program listed(const Leaves& leaves, double bytes) {
  Program program;
  const int ranks = static_cast<int>(leaves.leaf_of_rank.size());
  for (int shift = 1; shift < ranks; ++shift) {
    PhaseFlows phase;
    for (int i = 0; i < ranks; ++i) {
      const int to = (i + shift) % ranks;
      const int a = leaves.leaf_of_rank[static_cast<std::size_t>(i)];
      const int b = leaves.leaf_of_rank[static_cast<std::size_t>(to)];
      Flow flow{{2 * leaves.leaves + i}, bytes};
      if (a != b) flow.path.insert(flow.path.end(), {a, leaves.leaves + b});
      flow.path.push_back(2 * leaves.leaves + ranks + to);
      phase.flows.push_back(flow);
    }
    program.phases.push_back(phase);
  }
  return program;
}

ShiftBlocks blocks_of(const Leaves& leaves) {
  ShiftBlocks blocks;
  blocks.block_of_rank = leaves.leaf_of_rank;
  blocks.path = [&leaves](int from, int to, std::vector<int>& path) {
    if (from != to) path = {from, leaves.leaves + to};
  };
  blocks.max_bytes_per_s = 1.5e9;
  blocks.delay_s = 4e-6;
  return blocks;
}

TEST(FlowShifts, BlocksEqualListedTransfers) {
  Rng rng(4);
  for (int i = 0; i < 100; ++i) {
    const Leaves leaves = random_leaves(rng);
    const auto all = run(leaves.links, {listed(leaves, 1e6)}, {.fold = false, .skip_repeats = true});
    const auto bundled = run(leaves.links, {shift_program(blocks_of(leaves), 1e6)});
    ASSERT_TRUE(all && bundled);
    EXPECT_NEAR(bundled->end_s, all->end_s, 1e-9 * all->end_s) << i;
  }
}

TEST(FlowShifts, ABlockThatComesAgainIsStillItself) {
  // Ranks dealt out to two leaves in turn.
  Rng rng(5);
  Leaves leaves = random_leaves(rng);
  leaves.leaves = 2;
  leaves.leaf_of_rank = {0, 1, 0, 1, 0};
  leaves.links.assign(14, {1.5e9, 2e-6});
  for (std::size_t l = 0; l < 4; ++l) leaves.links[l] = {2e9, 1e-6};
  const auto all = run(leaves.links, {listed(leaves, 1e6)}, {.fold = false, .skip_repeats = true});
  const auto bundled = run(leaves.links, {shift_program(blocks_of(leaves), 1e6)});
  EXPECT_NEAR(bundled->end_s, all->end_s, 1e-9 * all->end_s);
}

TEST(FlowShifts, OneRankHasNothingToSend) {
  ShiftBlocks blocks;
  blocks.block_of_rank = {0};
  EXPECT_TRUE(shift_program(blocks, 1e6).phases.empty());
}

}  // namespace
}  // namespace twinpod::sim
