#include "collective/phases.hpp"

#include <gtest/gtest.h>

#include "collective/build.hpp"

namespace twinpod::collective {
namespace {

TEST(Phases, ARingOfAMillionRanksIsOnePhase) {
  const std::vector<Phase> made = *phases(Verb::all_reduce, Algorithm::ring, 1 << 20, 1e9, {});
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0].repeats, 2.0 * ((1 << 20) - 1));
  EXPECT_EQ(num_transfers(made[0]), 1 << 20);
}

TEST(Phases, ATorusOfAMillionRanksIsAFewPhases) {
  const Shape shape{.torus = {128, 128, 64}, .split_axes = true};
  EXPECT_LT(phases(Verb::all_reduce, Algorithm::torus, 1 << 20, 1e9, shape)->size(), 20U);
}

TEST(Phases, AnAllToAllOfThousandsIsOneShiftForEachDistance) {
  const std::vector<Phase> made = *phases(Verb::all_to_all, Algorithm::direct, 4096, 4096, {});
  ASSERT_EQ(made.size(), 4095U);
  EXPECT_EQ(made[7].shifts, (std::vector<Shift>{{1, 4096, 8, 1}}));
  EXPECT_TRUE(made[7].transfers.empty());
}

TEST(Phases, BothHalvesOfAnAllReduceGoTheSameWayRound) {
  const std::vector<Phase> made = *phases(Verb::all_reduce, Algorithm::bidirectional_ring, 9, 9, {});
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0].repeats, 8);
}

TEST(Phases, RailsCrossNodesBetweenRanksOfTheSamePlace) {
  const std::vector<Phase> made = *phases(Verb::all_reduce, Algorithm::rail, 64, 1e6, {.ranks_per_node = 8});
  ASSERT_EQ(made.size(), 1U);
  for (const Transfer& transfer : expand(made[0])) {
    const bool crosses = transfer.from / 8 != transfer.to / 8;
    EXPECT_TRUE(!crosses || transfer.from % 8 == transfer.to % 8) << transfer.from << " to " << transfer.to;
  }
}

TEST(Phases, AShiftSendsAlongOneDigit) {
  const Phase phase{.shifts = {{2, 3, 1, 5}}, .ranks = 6};  // rank = a + 2 b
  EXPECT_EQ(expand(phase), (std::vector<Transfer>{{0, 2, 5}, {1, 3, 5}, {2, 4, 5}, {3, 5, 5}, {4, 0, 5}, {5, 1, 5}}));
}

TEST(Phases, AShiftWithAWindowSendsFromThereOnly) {
  const Phase phase{.shifts = {{1, 4, 1, 5, 3, 2}}, .ranks = 4};
  EXPECT_EQ(expand(phase), (std::vector<Transfer>{{0, 1, 5}, {3, 0, 5}}));
}

TEST(Phases, BackwardsEveryTransferGoesFromItsReceiver) {
  const std::vector<Phase> there{{.shifts = {{1, 4, 1, 5, 3, 2}}, .ranks = 4}};
  EXPECT_EQ(expand(reversed(there)[0]), (std::vector<Transfer>{{0, 3, 5}, {1, 0, 5}}));
}

TEST(Phases, SideBySideEndsWithTheLongest) {
  const Phase one{.transfers = {{0, 1, 1}}, .repeats = 3, .ranks = 3};
  const Phase other{.transfers = {{1, 2, 1}}, .repeats = 5, .ranks = 3};
  const std::vector<Phase> both = side_by_side({{one}, {other}});
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].repeats, 3);
  EXPECT_EQ(both[0].transfers.size(), 2U);
  EXPECT_EQ(both[1].repeats, 2);
}

TEST(Phases, RefuseASmallerLastNodeAmongManyThousands) {
  const Error error =
      phases(Verb::all_reduce, Algorithm::hierarchical, (1 << 20) + 1, 1e9, {.ranks_per_node = 8}).error();
  EXPECT_EQ(error.kind, ErrorKind::infeasible);
  EXPECT_EQ(error.hint, "1048576 ranks, all nodes full");
}

TEST(Phases, RefuseNegativeBytes) {
  EXPECT_EQ(phases(Verb::all_reduce, Algorithm::ring, 2, -1, {}).error().kind, ErrorKind::input);
}

TEST(BusFactor, IsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(Verb::all_reduce, 8), 1.75);
  EXPECT_DOUBLE_EQ(bus_factor(Verb::all_gather, 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_factor(Verb::broadcast, 8), 1);
}

}  // namespace
}  // namespace twinpod::collective
