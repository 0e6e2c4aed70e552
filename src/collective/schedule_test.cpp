#include "collective/schedule.hpp"

#include <gtest/gtest.h>

#include "collective/check.hpp"
#include "collective/phases.hpp"
#include "collective/test_cases.hpp"

namespace twinpod::collective {
namespace {

class EverySchedule : public testing::TestWithParam<Pair> {};
INSTANTIATE_TEST_SUITE_P(Collective, EverySchedule, testing::ValuesIn(pairs()), test_name);

TEST_P(EverySchedule, IsProvedForEveryNumberOfRanks) {
  const auto [verb, algorithm] = GetParam();
  for (int n = 1; n <= kProvedRanks; ++n) {
    for (const Shape& shape : shapes(verb, algorithm, n)) {
      const Result<Schedule> schedule = make_schedule(verb, algorithm, n, shape);
      ASSERT_TRUE(schedule) << described(GetParam(), n, shape) << ": " << schedule.error().message;
      const Result<void> proof = check(*schedule);
      ASSERT_TRUE(proof) << described(GetParam(), n, shape) << ": " << proof.error().message;
    }
  }
}

// The rounds of a phase list, one for each repetition, pairs sorted and added up.
std::vector<std::vector<Transfer>> rounds_of(const std::vector<Phase>& phases) {
  std::vector<std::vector<Transfer>> rounds;
  for (const Phase& phase : phases) {
    std::vector<Transfer> all = expand(phase);
    std::sort(all.begin(), all.end(),
              [](const Transfer& a, const Transfer& b) { return std::pair(a.from, a.to) < std::pair(b.from, b.to); });
    std::vector<Transfer> round;
    for (const Transfer& transfer : all) {
      const bool again = !round.empty() && round.back().from == transfer.from && round.back().to == transfer.to;
      if (again) {
        round.back().bytes += transfer.bytes;
      } else {
        round.push_back(transfer);
      }
    }
    rounds.insert(rounds.end(), static_cast<std::size_t>(phase.repeats), round);
  }
  return rounds;
}

TEST_P(EverySchedule, SaysTheSameAsItsPhases) {
  const auto [verb, algorithm] = GetParam();
  constexpr double kBytes = 1e6;
  for (int n = 1; n <= kProvedRanks; ++n) {
    for (const Shape& shape : shapes(verb, algorithm, n)) {
      const Schedule schedule = *make_schedule(verb, algorithm, n, shape);
      const std::vector<std::vector<Transfer>> spelled = rounds_of(phases_of(schedule, kBytes));
      const std::vector<std::vector<Transfer>> said = rounds_of(*phases(verb, algorithm, n, kBytes, shape));
      ASSERT_EQ(spelled.size(), said.size()) << described(GetParam(), n, shape);
      for (std::size_t r = 0; r < spelled.size(); ++r) {
        ASSERT_EQ(spelled[r].size(), said[r].size()) << described(GetParam(), n, shape) << ", round " << r;
        for (std::size_t i = 0; i < spelled[r].size(); ++i) {
          ASSERT_EQ(spelled[r][i].from, said[r][i].from) << described(GetParam(), n, shape) << ", round " << r;
          ASSERT_EQ(spelled[r][i].to, said[r][i].to) << described(GetParam(), n, shape) << ", round " << r;
          ASSERT_NEAR(spelled[r][i].bytes, said[r][i].bytes, 1e-3)
              << described(GetParam(), n, shape) << ", round " << r;
        }
      }
    }
  }
}

TEST_P(EverySchedule, MovesTheVolumeOfItsClosedForm) {
  const auto [verb, algorithm] = GetParam();
  constexpr double kBytes = 1e6;
  for (int n = 1; n <= kProvedRanks; ++n) {
    for (const Shape& shape : shapes(verb, algorithm, n)) {
      const std::vector<Phase> rounds = phases_of(*make_schedule(verb, algorithm, n, shape), kBytes);
      Volume moved;
      std::vector<double> sent(static_cast<std::size_t>(n) + 1, 0);
      for (const Phase& phase : rounds) {
        moved.rounds += phase.repeats;
        for (const Transfer& transfer : phase.transfers) sent[transfer.from] += transfer.bytes * phase.repeats;
      }
      sent.pop_back();  // the switch
      for (const double bytes : sent) moved.total_bytes += bytes;
      moved.sent_bytes = *std::max_element(sent.begin(), sent.end());
      const Volume closed = *volume(verb, algorithm, n, kBytes, shape);
      ASSERT_EQ(moved.rounds, closed.rounds) << described(GetParam(), n, shape);
      ASSERT_NEAR(moved.sent_bytes, closed.sent_bytes, 1e-3) << described(GetParam(), n, shape);
      ASSERT_NEAR(moved.total_bytes, closed.total_bytes, 1e-2) << described(GetParam(), n, shape);
    }
  }
}

TEST(AllToAllV, IsProvedWithUnevenCounts) {
  for (int n = 1; n <= 12; ++n) {
    std::vector<int> counts;
    for (int i = 0; i < n * n; ++i) counts.push_back(i * 7 % 5);
    const Result<Schedule> schedule = make_all_to_allv(n, counts);
    ASSERT_TRUE(schedule);
    const Result<void> proof = check(*schedule);
    ASSERT_TRUE(proof) << n << ": " << proof.error().message;
  }
}

TEST(AllToAllV, PhasesMoveEveryPairOnce) {
  const std::vector<Phase> made = *all_to_allv_phases(3, {9, 1, 2, 3, 9, 0, 4, 5, 9});
  ASSERT_EQ(made.size(), 2U);
  EXPECT_EQ(made[0].transfers, (std::vector<Transfer>{{0, 1, 1}, {2, 0, 4}}));
  EXPECT_EQ(made[1].transfers, (std::vector<Transfer>{{0, 2, 2}, {1, 0, 3}, {2, 1, 5}}));
}

TEST(AllToAllV, RefusesANegativeCountByItsPair) {
  EXPECT_EQ(make_all_to_allv(2, {1, 1, -3, 1}).error().message, "rank 1 sends -3 chunks to rank 0: expected 0 or more");
}

TEST(Schedule, OfARankIsAnOrderedListOfSendsAndReceives) {
  const Schedule ring = *make_schedule(Verb::all_gather, Algorithm::ring, 3, {});
  const std::vector<Action> actions = actions_of(ring, 1);
  ASSERT_EQ(actions.size(), 4U);
  EXPECT_EQ(actions[0].kind, ActionKind::receive);
  EXPECT_EQ(actions[0].peer, 0);
  EXPECT_EQ(actions[0].chunk, 0);
  EXPECT_EQ(actions[1].kind, ActionKind::send);
  EXPECT_EQ(actions[1].peer, 2);
  EXPECT_EQ(actions[1].chunk, 1);
  EXPECT_EQ(actions[3].round, 1);
}

TEST(Schedule, RefusesAPairThatIsNotThere) {
  const Error error = make_schedule(Verb::barrier, Algorithm::ring, 4, {}).error();
  EXPECT_EQ(error.message, "barrier has no algorithm ring");
  EXPECT_EQ(error.hint, "it has bruck");
}

TEST(Schedule, RefusesATorusOfAnotherSize) {
  const Error error = make_schedule(Verb::all_reduce, Algorithm::torus, 16, {.torus = {4, 5}}).error();
  EXPECT_EQ(error.message, "torus 4x5 does not have 16 ranks");
}

TEST(Schedule, RefusesARootThatIsNoRank) {
  const Error error = make_schedule(Verb::broadcast, Algorithm::tree, 4, {.root = 4}).error();
  EXPECT_EQ(error.message, "root 4 is no rank: there are 4 ranks");
}

TEST(Schedule, RefusesToSpellOutAMillionRanks) {
  EXPECT_EQ(make_schedule(Verb::all_reduce, Algorithm::ring, 1 << 20, {}).error().kind, ErrorKind::infeasible);
}

}  // namespace
}  // namespace twinpod::collective
