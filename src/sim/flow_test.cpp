#include "sim/flow.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sim/flow_test_cases.hpp"

namespace twinpod::sim {
namespace {

Program one_flow(std::vector<int> path, double bytes, double start_s = 0) {
  Program program;
  program.start_s = start_s;
  program.phases.push_back({.flows = {{std::move(path), bytes}}});
  return program;
}

Program one_phase(std::vector<Flow> flows, double repeats = 1) {
  Program program;
  program.phases.push_back({.flows = std::move(flows), .repeats = repeats});
  return program;
}

RunResult ran(const std::vector<FlowLink>& links, const std::vector<Program>& programs, RunOptions options = {}) {
  const Result<RunResult> result = run(links, programs, options);
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(RunResult{});
}

double end_of(const std::vector<FlowLink>& links, const Program& program) { return ran(links, {program}).end_s; }

std::vector<double> rates(const std::vector<FlowLink>& links, const std::vector<Flow>& flows) {
  return fair_rates(links, flows).value();
}

void expect_rates(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-12 * expected[i]) << "flow " << i;
}

// --- rates -----------------------------------------------------------------------------------------------------------

TEST(FlowRates, AFlowOverTwoLinksAndOneOnEachShareHalfAndHalf) {
  expect_rates(rates({{1, 0}, {1, 0}}, {{{0, 1}, 1}, {{0}, 1}, {{1}, 1}}), {0.5, 0.5, 0.5});
}

TEST(FlowRates, WhatALongFlowCannotUseGoesToTheShortOne) {
  // Link 0 gives 1/2 to each; link 1 (of 2) has 1.5 left for its own flow.
  expect_rates(rates({{1, 0}, {2, 0}}, {{{0, 1}, 1}, {{0}, 1}, {{1}, 1}}), {0.5, 0.5, 1.5});
}

TEST(FlowRates, ParkingLot) {
  // One flow enters at each of three links in a row and leaves at the end: the last link decides.
  expect_rates(rates({{3, 0}, {3, 0}, {3, 0}}, {{{0, 1, 2}, 1}, {{1, 2}, 1}, {{2}, 1}}), {1, 1, 1});
}

TEST(FlowRates, ThreeLevelsFillOneAfterTheOther) {
  // Bertsekas and Gallager's kind of example: link 0 of 1 with three flows, link 1 of 1 with two, link 2 of 2.
  expect_rates(rates({{1, 0}, {1, 0}, {2, 0}}, {{{0}, 1}, {{0}, 1}, {{0, 1}, 1}, {{1, 2}, 1}, {{2}, 1}}),
               {1. / 3, 1. / 3, 1. / 3, 2. / 3, 4. / 3});
}

TEST(FlowRates, ABundleCountsAsItsFlows) { expect_rates(rates({{8, 0}}, {{{0}, 1, 0, 3}, {{0}, 1}}), {2, 2}); }

TEST(FlowRates, AMaximumLeavesTheRestToOthers) {
  expect_rates(rates({{8, 0}}, {{{0}, 1, 0, 1, 1.0}, {{0}, 1}}), {1, 7});
}

TEST(FlowRates, CrossingALinkTwiceTakesTwiceTheRate) { expect_rates(rates({{3, 0}}, {{{0, 0}, 1}, {{0}, 1}}), {1, 1}); }

std::vector<Flow> random_flows(Rng& rng, int num_links) {
  std::vector<Flow> flows;
  for (int f = 1 + test::below(rng, 20); f > 0; --f) {
    Flow flow{{}, 1};
    for (int hops = 1 + test::below(rng, 4); hops > 0; --hops) flow.path.push_back(test::below(rng, num_links));
    flow.count = 1 + test::below(rng, 2);
    if (test::chance(rng, 0.1)) flow.max_bytes_per_s = 0.2e9;
    flows.push_back(flow);
  }
  return flows;
}

std::vector<double> loads(std::size_t num_links, const std::vector<Flow>& flows, const std::vector<double>& rate) {
  std::vector<double> load(num_links);
  for (std::size_t f = 0; f < flows.size(); ++f) {
    for (const int link : flows[f].path) load[static_cast<std::size_t>(link)] += rate[f] * flows[f].count;
  }
  return load;
}

TEST(FlowRates, NoLinkCarriesMoreThanItCan) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    const auto links = test::random_links(rng, 8);
    const auto flows = random_flows(rng, 8);
    const auto load = loads(links.size(), flows, rates(links, flows));
    for (std::size_t l = 0; l < links.size(); ++l) EXPECT_LE(load[l], links[l].bytes_per_s * (1 + 1e-12)) << seed;
  }
}

TEST(FlowRates, EveryFlowIsHeldByAFullLinkWhereNoneIsFasterOrByItsMaximum) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    const auto links = test::random_links(rng, 8);
    const auto flows = random_flows(rng, 8);
    const auto rate = rates(links, flows);
    const auto load = loads(links.size(), flows, rate);
    std::vector<double> fastest(links.size());
    for (std::size_t f = 0; f < flows.size(); ++f) {
      for (const int l : flows[f].path) {
        fastest[static_cast<std::size_t>(l)] = std::max(fastest[static_cast<std::size_t>(l)], rate[f]);
      }
    }
    for (std::size_t f = 0; f < flows.size(); ++f) {
      const bool held = std::any_of(flows[f].path.begin(), flows[f].path.end(), [&](int link) {
        const auto l = static_cast<std::size_t>(link);
        return load[l] >= links[l].bytes_per_s * (1 - 1e-12) && rate[f] >= fastest[l] * (1 - 1e-12);
      });
      EXPECT_TRUE(held || rate[f] >= flows[f].max_bytes_per_s * (1 - 1e-12)) << seed << " flow " << f;
    }
  }
}

// --- times -----------------------------------------------------------------------------------------------------------

TEST(Flow, BytesOverRate) { EXPECT_DOUBLE_EQ(end_of({{10, 0}}, one_flow({0}, 50)), 5); }

TEST(Flow, LatencyOfEachHopAndTheDelayComeFirst) {
  Program program = one_phase({{{0, 1}, 50, 0.25}});
  EXPECT_DOUBLE_EQ(end_of({{10, 1}, {20, 0.5}}, program), 0.25 + 1.5 + 5);
}

TEST(Flow, ZeroBytesTakeTheLatency) { EXPECT_DOUBLE_EQ(end_of({{10, 1}}, one_flow({0}, 0)), 1); }

TEST(Flow, ZeroBytesCrossALinkWithoutCapacity) { EXPECT_DOUBLE_EQ(end_of({{0, 1}}, one_flow({0}, 0)), 1); }

TEST(Flow, APathWithoutLinksTakesNoTime) { EXPECT_DOUBLE_EQ(end_of({}, one_flow({}, 100)), 0); }

TEST(Flow, ALinkOfUnlimitedCapacityOnlyAddsItsLatency) {
  EXPECT_DOUBLE_EQ(end_of({{std::numeric_limits<double>::infinity(), 2}}, one_flow({0}, 100)), 2);
}

TEST(Flow, WhoIsLeftGoesFasterWhenAnotherEnds) {
  // 10 bytes/s for two: at 2 s the first (10 bytes) is done, the second has 20 left at the full rate.
  const RunResult result = ran({{10, 0}}, {one_flow({0}, 10), one_flow({0}, 30)});
  EXPECT_DOUBLE_EQ(result.programs[0].end_s, 2);
  EXPECT_DOUBLE_EQ(result.programs[1].end_s, 4);
}

TEST(Flow, WhoIsThereGoesSlowerWhenAnotherStarts) {
  // Alone until 1 s (10 of 30 bytes), then half: the other's 10 bytes until 3 s, then 10 left.
  const RunResult result = ran({{10, 0}}, {one_flow({0}, 30), one_flow({0}, 10, 1)});
  EXPECT_DOUBLE_EQ(result.programs[1].end_s, 3);
  EXPECT_DOUBLE_EQ(result.programs[0].end_s, 4);
}

TEST(Flow, TheNextPhaseStartsWhenTheSlowestFlowHasEnded) {
  Program program = one_phase({{{0}, 10}, {{1}, 30}});
  program.phases.push_back({.flows = {{{0}, 10}}});
  const RunResult result = ran({{10, 0}, {10, 0}}, {program});
  EXPECT_EQ(result.programs[0].phase_end_s, (std::vector<double>{3, 4}));
}

TEST(Flow, RepetitionsFollowEachOther) { EXPECT_DOUBLE_EQ(end_of({{10, 0.5}}, one_phase({{{0}, 5}}, 1000)), 1000); }

TEST(Flow, APhaseThatRepeatsZeroTimesIsPassedOver) {
  Program program = one_phase({{{0}, 10}}, 0);
  program.phases.push_back({.flows = {{{0}, 10}}});
  EXPECT_EQ(ran({{10, 0}}, {program}).programs[0].phase_end_s, (std::vector<double>{0, 1}));
}

TEST(Flow, AProgramWaitsForOthers) {
  Program last = one_flow({2}, 10);
  last.after = {0, 1};
  const RunResult result = ran({{10, 0}, {10, 0}, {10, 0}}, {one_flow({0}, 10), one_flow({1}, 40), last});
  EXPECT_DOUBLE_EQ(result.programs[2].start_s, 4);
  EXPECT_DOUBLE_EQ(result.programs[2].end_s, 5);
}

TEST(Flow, ASendBesideARingSlowsItForAsLongAsItLasts) {
  // A ring step takes 1 s alone, 2 s beside the send. The send moves 35 bytes from 10 s on at 5 bytes/s: 7 s, that is 3
  // steps and a half; the fourth step has 5 of its 10 bytes left then, and takes 1.5 s.
  const RunResult result = ran({{10, 0}}, {one_phase({{{0}, 10}}, 1000), one_flow({0}, 35, 10)});
  EXPECT_DOUBLE_EQ(result.programs[1].end_s, 17);
  EXPECT_DOUBLE_EQ(result.programs[0].end_s, 1003.5);
}

TEST(Flow, SkippingIsCheapWhenASendComesInBetween) {
  EXPECT_LT(ran({{10, 0}}, {one_phase({{{0}, 10}}, 1e6), one_flow({0}, 35, 10)}).events, 40U);
}

TEST(Flow, TwoRingsInStepAreSkippedTogether) {
  // Not alike (different bytes), but both take 3 + 1 s: the rates are 5 and 5 until the smaller is done.
  const RunResult result =
      ran({{10, 0}, {10, 0}}, {one_phase({{{0}, 10}, {{1}, 15}}, 1e6), one_phase({{{0}, 20}, {{1}, 15}}, 1e6)});
  EXPECT_DOUBLE_EQ(result.programs[0].end_s, result.programs[1].end_s);
  EXPECT_DOUBLE_EQ(result.end_s, 3e6);
  EXPECT_LT(result.events, 40U);
}

TEST(Flow, AWaiterFromElsewhereStartsInTime) {
  // Program 2 shares the ring's link, but waits for a program on a link of its own.
  Program waiter = one_flow({0}, 10);
  waiter.after = {1};
  const RunResult result = ran({{10, 0}, {10, 0}}, {one_phase({{{0}, 10}}, 100), one_flow({1}, 95), waiter});
  EXPECT_DOUBLE_EQ(result.programs[2].start_s, 9.5);
  EXPECT_DOUBLE_EQ(result.programs[2].end_s, 11.5);
  EXPECT_DOUBLE_EQ(result.programs[0].end_s, 101);
}

TEST(Flow, AWaiterFromElsewhereStartsInTimeWhenARepetitionEndsThen) {
  Program waiter = one_flow({0}, 10);
  waiter.after = {1};
  const RunResult result = ran({{10, 0}, {10, 0}}, {one_phase({{{0}, 10}}, 100), one_flow({1}, 20), waiter});
  EXPECT_DOUBLE_EQ(result.programs[2].end_s, 4);
}

TEST(Flow, DrawnFlowsAreLikeListedOnes) {
  Program drawn;
  PhaseFlows phase;
  phase.num_drawn = 3;
  phase.draw = [](std::size_t index, Flow& flow) {
    flow.path.push_back(static_cast<int>(index) % 2);
    flow.bytes = 10;
  };
  drawn.phases.push_back(phase);
  EXPECT_DOUBLE_EQ(end_of({{10, 0}, {10, 0}}, drawn), 2);
}

TEST(Flow, LinksMoveTheBytesOfTheirFlows) {
  const RunResult result = ran({{10, 0}, {10, 0}, {10, 0}}, {one_phase({{{0, 1}, 10}, {{1}, 5, 0, 4}}, 3)});
  EXPECT_EQ(result.link_bytes, (std::vector<double>{30, 90, 0}));
}

TEST(Flow, HottestLinksComeFirst) {
  const std::vector<FlowLink> links = {{10, 0}, {10, 0}, {10, 0}};
  const RunResult result = ran(links, {one_phase({{{0, 1}, 10}, {{1}, 10}})});
  const std::vector<LinkShare> hottest = hottest_links(links, result, 5);
  ASSERT_EQ(hottest.size(), 2U);
  EXPECT_EQ(hottest[0].link, 1);
  EXPECT_DOUBLE_EQ(hottest[0].busy_share, 1);
  EXPECT_DOUBLE_EQ(hottest[1].busy_share, 0.5);
}

// --- folding ---------------------------------------------------------------------------------------------------------

bool near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

void expect_same_times(const RunResult& a, const RunResult& b, std::uint64_t seed) {
  ASSERT_EQ(a.programs.size(), b.programs.size());
  for (std::size_t p = 0; p < a.programs.size(); ++p) {
    EXPECT_TRUE(near(a.programs[p].start_s, b.programs[p].start_s)) << "case " << seed << " program " << p;
    ASSERT_EQ(a.programs[p].phase_end_s.size(), b.programs[p].phase_end_s.size());
    for (std::size_t k = 0; k < a.programs[p].phase_end_s.size(); ++k) {
      EXPECT_TRUE(near(a.programs[p].phase_end_s[k], b.programs[p].phase_end_s[k]))
          << "case " << seed << " program " << p << " phase " << k << ": " << a.programs[p].phase_end_s[k] << ", "
          << b.programs[p].phase_end_s[k];
    }
  }
}

TEST(FlowFolding, FoldedEqualsUnfoldedOn500RandomCases) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const test::Case c = test::random_case(seed);
    expect_same_times(ran(c.links, c.programs), ran(c.links, c.programs, {.fold = false, .skip_repeats = false}), seed);
  }
}

TEST(FlowFolding, SkippedEqualsUnskippedOn500RandomCases) {
  for (std::uint64_t seed = 1000; seed < 1500; ++seed) {
    const test::Case c = test::random_case(seed);
    expect_same_times(ran(c.links, c.programs), ran(c.links, c.programs, {.fold = true, .skip_repeats = false}), seed);
  }
}

TEST(FlowFolding, RandomCasesDoFold) {
  std::size_t flows = 0;
  std::size_t kinds = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const test::Case c = test::random_case(seed);
    const RunResult result = ran(c.links, c.programs);
    flows += result.flows;
    kinds += result.flow_kinds;
  }
  EXPECT_LT(kinds, flows / 2);
}

TEST(FlowFolding, BytesAreConservedOnRandomCases) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const test::Case c = test::random_case(seed);
    double sent = 0;
    for (const Program& program : c.programs) {
      for (const PhaseFlows& phase : program.phases) {
        for (const Flow& flow : phase.flows) {
          sent += phase.repeats * flow.bytes * flow.count * static_cast<double>(flow.path.size());
        }
      }
    }
    double moved = 0;
    for (const double bytes : ran(c.links, c.programs).link_bytes) moved += bytes;
    EXPECT_NEAR(moved, sent, 1e-9 * sent) << seed;
  }
}

TEST(FlowFolding, NoLinkIsBusyMoreThanAllTheTime) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const test::Case c = test::random_case(seed);
    for (const LinkShare& share : hottest_links(c.links, ran(c.links, c.programs), 1)) {
      EXPECT_LE(share.busy_share, 1 + 1e-9) << seed;
    }
  }
}

Program ring(int first, int ranks) {
  Program program;
  program.phases.push_back({.flows = {}, .repeats = 2.0 * (ranks - 1)});
  for (int i = 0; i < ranks; ++i) program.phases[0].flows.push_back({{first + i}, 1e6});
  return program;
}

TEST(FlowFolding, ARingIsOneKind) {
  EXPECT_EQ(ran(std::vector<FlowLink>(64, {1e9, 1e-6}), {ring(0, 64)}).flow_kinds, 1U);
}

TEST(FlowFolding, ASlowLinkMakesOneKindMore) {
  std::vector<FlowLink> links(64, {1e9, 1e-6});
  links[10].bytes_per_s = 0.5e9;
  EXPECT_EQ(ran(links, {ring(0, 64)}).flow_kinds, 2U);
}

TEST(FlowFolding, GroupsThatContendAlikeAreOneKind) {
  // Rings over 16 links, each link in two of them, and each ring meets two others.
  std::vector<Program> programs;
  for (int g = 0; g < 8; ++g) {
    programs.push_back(ring(2 * g, 4));
    for (Flow& flow : programs.back().phases[0].flows) flow.path[0] %= 16;
  }
  const RunResult result = ran(std::vector<FlowLink>(16, {1e9, 0}), programs);
  EXPECT_EQ(result.flow_kinds, 1U);
  EXPECT_DOUBLE_EQ(result.end_s, 6 * 2e-3);
}

TEST(FlowFolding, WhoWaitsIsNotLikeWhoIsWaitedFor) {
  Program second = one_flow({0}, 10);
  second.after = {0};
  const RunResult result = ran({{10, 0}}, {one_flow({0}, 10), second});
  EXPECT_DOUBLE_EQ(result.programs[0].end_s, 1);
  EXPECT_DOUBLE_EQ(result.programs[1].end_s, 2);
}

// --- refusals --------------------------------------------------------------------------------------------------------

Error refused(const std::vector<FlowLink>& links, const std::vector<Program>& programs) {
  const Result<RunResult> result = run(links, programs);
  EXPECT_FALSE(result);
  return result ? Error{} : result.error();
}

TEST(FlowRefusal, ALinkWithoutCapacityIsNamed) {
  const Error error = refused({{10, 0}, {0, 0}}, {one_flow({0, 1}, 10)});
  EXPECT_EQ(error.kind, ErrorKind::infeasible);
  EXPECT_EQ(error.message, "program 0, phase 0, flow 0 has 10 bytes to move over link 1, which moves 0 bytes/s");
}

TEST(FlowRefusal, ALinkThatDoesNotExist) {
  const Error error = refused({{10, 0}}, {one_flow({3}, 10)});
  EXPECT_EQ(error.kind, ErrorKind::input);
  EXPECT_EQ(error.message, "program 0, phase 0, flow 0 crosses link 3, but there are 1 links");
}

TEST(FlowRefusal, TheLinkIsCheckedWhenSeveralProgramsRun) {
  EXPECT_EQ(refused({{10, 0}}, {one_flow({0}, 10), one_flow({-1}, 10)}).message,
            "program 1, phase 0, flow 0 crosses link -1, but there are 1 links");
}

TEST(FlowRefusal, NegativeBytes) { EXPECT_EQ(refused({{10, 0}}, {one_flow({0}, -1)}).kind, ErrorKind::input); }

TEST(FlowRefusal, BytesThatAreNoNumber) {
  EXPECT_EQ(refused({{10, 0}}, {one_flow({0}, std::nan(""))}).kind, ErrorKind::input);
}

TEST(FlowRefusal, HalfARepetition) {
  EXPECT_EQ(refused({{10, 0}}, {one_phase({{{0}, 1}}, 1.5)}).message,
            "program 0, phase 0 repeats 1.5 times; expected a whole number");
}

TEST(FlowRefusal, HalfAFlow) {
  EXPECT_EQ(refused({{10, 0}}, {one_phase({{{0}, 1, 0, 0.5}})}).message,
            "program 0, phase 0, flow 0 stands for 0.5 flows; expected a whole number, 1 or more");
}

TEST(FlowRefusal, ProgramsThatWaitForEachOther) {
  Program a = one_flow({0}, 1);
  Program b = one_flow({0}, 1);
  a.after = {1};
  b.after = {0};
  EXPECT_EQ(refused({{10, 0}}, {a, b}).message, "program 0 waits for itself, directly or through others");
}

TEST(FlowRefusal, AProgramThatDoesNotExist) {
  Program a = one_flow({0}, 1);
  a.after = {4};
  EXPECT_EQ(refused({{10, 0}}, {a}).message, "program 0 waits for program 4, but there are 1");
}

}  // namespace
}  // namespace twinpod::sim
