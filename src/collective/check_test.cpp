#include "collective/check.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "collective/test_cases.hpp"

namespace twinpod::collective {
namespace {

Schedule ring(int n) { return *make_schedule(Verb::all_reduce, Algorithm::ring, n, {}); }

std::string refusal(const Schedule& schedule) {
  const Result<void> proof = check(schedule);
  return proof ? "" : proof.error().message;
}

TEST(Check, SaysWhatIsMissingAtTheEnd) {
  Schedule broken = ring(4);
  broken.rounds.back().steps.pop_back();  // the last copy to rank 0
  EXPECT_EQ(refusal(broken), "rank 0 ends without the contribution of rank 1 in chunk 1 of its output");
}

TEST(Check, SaysWhoseContributionIsAddedTwice) {
  Schedule broken = ring(3);
  broken.rounds.insert(broken.rounds.begin() + 1, broken.rounds[0]);
  EXPECT_EQ(refusal(broken),
            "round 1: rank 1, chunk 2 of its input: rank 0 adds the contribution of rank 0 a second time");
}

TEST(Check, RefusesToReadWhatIsNotThere) {
  Schedule broken = *make_schedule(Verb::broadcast, Algorithm::ring, 3, {});
  std::swap(broken.rounds[0], broken.rounds[1]);
  EXPECT_EQ(refusal(broken),
            "round 0: rank 1 reads chunk 0 of its input for rank 2, but nothing has been written there");
}

TEST(Check, RefusesToAddToWhatIsNotThere) {
  Schedule broken = *make_schedule(Verb::all_gather, Algorithm::ring, 3, {});
  broken.rounds[0].steps[0].reduce = true;
  EXPECT_EQ(refusal(broken),
            "round 0: rank 1, chunk 0 of its output: rank 0 adds to it, but nothing has been written there");
}

TEST(Check, RefusesAChunkOutsideOfTheBuffer) {
  Schedule broken = ring(3);
  broken.rounds[1].steps[2].target_chunk = 3;
  EXPECT_EQ(refusal(broken), "round 1: rank 0 writes 1 chunks from chunk 3 on in its input, which has 3");
}

TEST(Check, RefusesARankThatIsNotThere) {
  Schedule broken = ring(3);
  broken.rounds[0].steps[0].to = 3;
  EXPECT_EQ(refusal(broken), "round 0: a step from rank 0 to rank 3, but ranks go from 0 to 2");
}

TEST(Check, RefusesARoundThatReadsWhatItWrites) {
  Schedule exchange{.verb = Verb::all_reduce, .ranks = 2};
  exchange.rounds = {Round{{{.from = 0, .to = 1, .reduce = true}, {.from = 1, .to = 0, .reduce = true}}}};
  EXPECT_EQ(refusal(exchange), "round 0: rank 0 reads and writes chunk 0 of its input in the same round");
}

TEST(Check, RefusesARoundThatWritesTwice) {
  Schedule broken{.verb = Verb::broadcast, .ranks = 2};
  broken.rounds = {Round{{{.from = 0, .to = 1}, {.from = 0, .to = 1}}}};
  EXPECT_EQ(refusal(broken), "round 0: rank 1 writes twice chunk 0 of its input in the same round");
}

TEST(Check, RefusesAChunkThatDoesNotBelong) {
  Schedule broken = *make_schedule(Verb::reduce, Algorithm::direct, 2, {});
  broken.chunks = 2;
  Step& step = broken.rounds[0].steps[0];
  broken.rounds[0].steps.push_back(step);
  broken.rounds[0].steps.back().source_chunk = broken.rounds[0].steps.back().target_chunk = 1;
  ASSERT_EQ(refusal(broken), "");
  broken.rounds.push_back(Round{{{.from = 0, .to = 0, .source_chunk = 1, .target_chunk = 0, .reduce = true}}});
  EXPECT_EQ(refusal(broken), "rank 0 ends with chunk 1 of rank 0 in chunk 0 of its output, where it does not belong");
}

TEST(Check, NamesTheLineOfAFile) {
  Schedule broken = ring(2);
  broken.rounds[0].steps[0].target_chunk = 9;
  broken.rounds[0].steps[0].line = 17;
  EXPECT_EQ(check(broken).error().line, 17);
}

class EveryBrokenSchedule : public testing::TestWithParam<Pair> {};
INSTANTIATE_TEST_SUITE_P(Collective, EveryBrokenSchedule, testing::ValuesIn(pairs()), test_name);

// A broadcast by scatter and gather brings the root what it has, and a barrier may say things twice: there a step can
// be too many.
bool has_spare_steps(const Pair& pair) {
  return pair.verb == Verb::barrier || (pair.verb == Verb::broadcast && pair.algorithm == Algorithm::halving_doubling);
}

Shape odd_shape(Algorithm algorithm) {
  return algorithm == Algorithm::torus ? Shape{.torus = {3, 2}} : Shape{.ranks_per_node = 4, .pieces = 2};
}

TEST_P(EveryBrokenSchedule, IsCaughtWhenAStepIsDropped) {
  const auto [verb, algorithm] = GetParam();
  if (has_spare_steps(GetParam())) return;
  const Schedule whole = *make_schedule(verb, algorithm, 6, odd_shape(algorithm));
  for (std::size_t r = 0; r < whole.rounds.size(); ++r) {
    for (std::size_t s = 0; s < whole.rounds[r].steps.size(); ++s) {
      Schedule broken = whole;
      broken.rounds[r].steps.erase(broken.rounds[r].steps.begin() + static_cast<std::ptrdiff_t>(s));
      EXPECT_FALSE(check(broken)) << "round " << r << ", step " << s;
    }
  }
}

TEST_P(EveryBrokenSchedule, IsCaughtWhenAStepIsDoneTwiceInARound) {
  const auto [verb, algorithm] = GetParam();
  if (verb == Verb::barrier) return;
  const Schedule whole = *make_schedule(verb, algorithm, 6, odd_shape(algorithm));
  for (std::size_t r = 0; r < whole.rounds.size(); ++r) {
    for (std::size_t s = 0; s < whole.rounds[r].steps.size(); ++s) {
      Schedule broken = whole;
      broken.rounds[r].steps.push_back(whole.rounds[r].steps[s]);
      EXPECT_FALSE(check(broken)) << "round " << r << ", step " << s;
    }
  }
}

TEST_P(EveryBrokenSchedule, IsCaughtWhenAStepReadsTheChunkBeside) {
  const auto [verb, algorithm] = GetParam();
  const Schedule whole = *make_schedule(verb, algorithm, 6, odd_shape(algorithm));
  if (has_spare_steps(GetParam()) || whole.chunks == 1) return;
  for (std::size_t r = 0; r < whole.rounds.size(); ++r) {
    for (std::size_t s = 0; s < whole.rounds[r].steps.size(); ++s) {
      Schedule broken = whole;
      broken.rounds[r].steps[s].source_chunk += 1;
      EXPECT_FALSE(check(broken)) << "round " << r << ", step " << s;
    }
  }
}

TEST_P(EveryBrokenSchedule, IsCaughtWhenItsFirstAndLastRoundsAreSwapped) {
  const auto [verb, algorithm] = GetParam();
  Schedule broken = *make_schedule(verb, algorithm, 6, odd_shape(algorithm));
  const bool any_order =
      broken.rounds.size() < 2 || verb == Verb::barrier || (verb == Verb::all_to_all && algorithm == Algorithm::direct);
  if (any_order) return;
  std::swap(broken.rounds.front(), broken.rounds.back());
  EXPECT_FALSE(check(broken));
}

TEST(Check, CatchesABarrierThatEndsTooEarly) {
  Schedule broken = *make_schedule(Verb::barrier, Algorithm::bruck, 5, {});
  broken.rounds.pop_back();
  EXPECT_EQ(refusal(broken), "rank 0 ends without the contribution of rank 1 in chunk 0 of its output");
}

}  // namespace
}  // namespace twinpod::collective
