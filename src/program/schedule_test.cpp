#include "program/schedule.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "core/rng.hpp"
#include "program/order.hpp"

namespace twinpod::program {
namespace {

using spec::Schedule;

spec::Layout layout_of(int stages, Schedule schedule, int chunks = 1) {
  spec::Layout layout;
  layout.pp = stages;
  layout.schedule = schedule;
  layout.virtual_stages = chunks;
  return layout;
}

TEST(LayersOfStages, AreAllOfThemForEverySmallSize) {
  for (int layers = 1; layers <= 40; ++layers) {
    for (int p = 1; p <= layers; ++p) {
      for (const bool uneven : {false, true}) {
        spec::Layout layout = layout_of(p, Schedule::one_f_one_b);
        layout.uneven_ends = uneven && (layers + 2) / p >= 2;
        const std::vector<int> stages = layers_of_stages(layers, layout);
        EXPECT_EQ(std::accumulate(stages.begin(), stages.end(), 0), layers) << layers << " over " << p;
        int first = 0;
        for (int stage = 0; stage < p; ++stage) {
          const StageLayers own = layers_of_stage(layers, layout, stage);
          EXPECT_EQ(own.first, first);
          EXPECT_GE(own.count, 0);
          first += own.count;
        }
      }
    }
  }
}

TEST(LayersOfStages, WhatDoesNotDivideGoesToTheFirst) {
  EXPECT_EQ(layers_of_stages(10, layout_of(4, Schedule::one_f_one_b)), (std::vector<int>{3, 3, 2, 2}));
}

TEST(LayersOfStages, UnevenEndsHoldOneLayerLess) {
  spec::Layout layout = layout_of(8, Schedule::interleaved, 8);
  layout.uneven_ends = true;
  EXPECT_EQ(layers_of_stages(126, layout), (std::vector<int>{15, 16, 16, 16, 16, 16, 16, 15}));
}

TEST(InFlight, GpipeHoldsTheWholeBatch) {
  for (int stage = 0; stage < 4; ++stage)
    EXPECT_EQ(micro_batches_in_flight(layout_of(4, Schedule::gpipe), 32, stage), 32);
}

TEST(InFlight, OneForwardOneBackwardHoldsThePipelineBehindIt) {
  const spec::Layout layout = layout_of(4, Schedule::one_f_one_b);
  for (int stage = 0; stage < 4; ++stage) EXPECT_EQ(micro_batches_in_flight(layout, 32, stage), 4 - stage);
  EXPECT_EQ(micro_batches_in_flight(layout, 2, 0), 2);  // no more than there are
}

// Korthikanti 2022, section 5: interleaving multiplies by 1 + (p-1)/(p m), m chunks.
TEST(InFlight, InterleavingHoldsMoreByKorthikantisFactor) {
  for (const int p : {2, 8, 35}) {
    for (const int v : {2, 3, 8}) {
      const double held = micro_batches_in_flight(layout_of(p, Schedule::interleaved, v), 1000, 0);
      EXPECT_DOUBLE_EQ(held, p * (1 + (p - 1.0) / (p * v))) << p << ' ' << v;
    }
  }
}

// A rank of stage i runs 2 (p - i - 1) + (v - 1) p chunks forward before its first backward (Narayanan 2021), and then
// one.
TEST(InFlight, InterleavingCountsTheWarmUpChunksOfEachStage) {
  const int p = 8;
  const int v = 3;
  for (int stage = 0; stage < p; ++stage) {
    const double chunks = 2 * (p - stage - 1) + (v - 1) * p + 1;
    EXPECT_DOUBLE_EQ(micro_batches_in_flight(layout_of(p, Schedule::interleaved, v), 1000, stage), chunks / v);
  }
}

TEST(InFlight, ChunksMakeAnInterleavedScheduleOfOneForwardOneBackward) {
  EXPECT_EQ(micro_batches_in_flight(layout_of(4, Schedule::one_f_one_b, 2), 64, 1),
            micro_batches_in_flight(layout_of(4, Schedule::interleaved, 2), 64, 1));
}

TEST(InFlight, ZeroBubbleHoldsItsLimitOnEveryStage) {
  for (int stage = 0; stage < 8; ++stage) {
    EXPECT_EQ(micro_batches_in_flight(layout_of(8, Schedule::zb_1p), 64, stage), 8);
    EXPECT_EQ(micro_batches_in_flight(layout_of(8, Schedule::zb_2p), 64, stage), 16);
    EXPECT_EQ(micro_batches_in_flight(layout_of(8, Schedule::zb_v), 64, stage), 8);
  }
}

TEST(Stages, LayersThatDoNotDivideMayGoToTheLastStages) {
  spec::Layout layout;
  layout.pp = 4;
  EXPECT_EQ(layers_of_stages(10, layout), (std::vector<int>{3, 3, 2, 2}));
  layout.remainder_last = true;
  EXPECT_EQ(layers_of_stages(10, layout), (std::vector<int>{2, 2, 3, 3}));
  EXPECT_EQ(layers_of_stage(10, layout, 3).first, 7);
}

TEST(InFlight, DualPipeHoldsOneMoreThanItsStages) {
  EXPECT_EQ(micro_batches_in_flight(layout_of(16, Schedule::dualpipe), 120, 0), 17);
}

TEST(InFlight, OfOneStageIsOneMicroBatchUnlessTheWholeBatchWaits) {
  for (const Schedule s : {Schedule::one_f_one_b, Schedule::interleaved, Schedule::zb_1p, Schedule::zb_v}) {
    EXPECT_EQ(micro_batches_in_flight(layout_of(1, s), 16, 0), 1);
  }
}

constexpr MicroBatchTime kTime{1.0, 1.2, 0.9};
constexpr double kBatches = 32;

double of_alike(const spec::Layout& layout, const MicroBatchTime& time) {
  return bubble_s(layout, kBatches, {{time, layout.pp}});
}

TEST(Bubble, OfGpipeAndOneForwardOneBackwardIsAllOtherStages) {
  EXPECT_DOUBLE_EQ(of_alike(layout_of(8, Schedule::gpipe), kTime), 7 * kTime.total());
  EXPECT_NEAR(of_alike(layout_of(8, Schedule::one_f_one_b), kTime), 7 * kTime.total(), 1e-12);
}

TEST(Bubble, InterleavingDividesItByTheChunks) {
  EXPECT_DOUBLE_EQ(of_alike(layout_of(8, Schedule::interleaved, 4), kTime), 7 * kTime.total() / 4);
}

TEST(Bubble, ZeroBubbleFillsItWithWeightGradients) {
  EXPECT_NEAR(of_alike(layout_of(8, Schedule::zb_1p), kTime), 7 * (1.0 + 1.2 - 0.9), 1e-12);
  EXPECT_NEAR(of_alike(layout_of(8, Schedule::zb_2p), kTime), 7 * (1.0 + 1.2 - 2 * 0.9), 1e-12);
  EXPECT_DOUBLE_EQ(of_alike(layout_of(8, Schedule::zb_2p), {1, 1, 1}), 0);
  EXPECT_DOUBLE_EQ(of_alike(layout_of(8, Schedule::zb_v), {1, 1, 2}), 0);  // never negative
}

TEST(Bubble, OfDualPipeIsOfHalfTheStages) {
  EXPECT_NEAR(of_alike(layout_of(16, Schedule::dualpipe), kTime), 7 * (1.0 + 2 * 1.2 - 0.9), 1e-12);
}

TEST(Bubble, OfOneStageIsNothing) {
  for (const Schedule s : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved, Schedule::zb_1p,
                           Schedule::zb_2p, Schedule::zb_v, Schedule::dualpipe}) {
    EXPECT_DOUBLE_EQ(of_alike(layout_of(1, s), kTime), 0);
  }
}

// A last stage with more to do than the others waits for each of them once.
TEST(Bubble, OfASlowLastStageIsTheOthersAsTheyAre) {
  const MicroBatchTime head{1.5, 1.7, 1.4};
  for (const Schedule s : {Schedule::gpipe, Schedule::one_f_one_b})
    EXPECT_NEAR(bubble_s(layout_of(8, s), kBatches, {{kTime, 7}, {head, 1}}), 7 * kTime.total(), 1e-9);
  EXPECT_NEAR(bubble_s(layout_of(8, Schedule::interleaved, 4), kBatches, {{kTime, 7}, {head, 1}}),
              7 * kTime.total() / 4, 1e-9);
  EXPECT_NEAR(bubble_s(layout_of(8, Schedule::zb_2p), kBatches, {{{2, 2, 1}, 7}, {{3, 3, 2}, 1}}), 7 * (4 - 2 * 2.0),
              1e-9);
}

// A slow first stage has passes of its own to do while it waits for the others, each longer than theirs.
TEST(Bubble, OfASlowFirstStageIsShorterThanTheOthers) {
  const spec::Layout layout = layout_of(8, Schedule::one_f_one_b);
  const double others = 7 * 3.0;
  EXPECT_NEAR(bubble_s(layout, kBatches, {{{1.1, 1.1, 1.1}, 1}, {{1, 1, 1}, 7}}), 2 * others - 7 * 3.3, 1e-9);
  EXPECT_NEAR(bubble_s(layout, kBatches, {{{3, 3, 3}, 1}, {{1, 1, 1}, 7}}), 0, 1e-9);  // never out of work
}

struct Uneven {
  std::vector<StageRun> runs;
  std::vector<SlotWeights> weights;
  double slowest = 0;
};

// Runs of one to three stages, up to half as long again as others; W 0: passes are not split.
Uneven random_stages(Rng& rng, int stages, bool split) {
  Uneven uneven;
  while (static_cast<int>(uneven.weights.size()) < stages) {
    const int most = stages - static_cast<int>(uneven.weights.size());
    const int count = std::min(most, 1 + static_cast<int>(rng.below(3)));
    const auto length = [&](double least) { return least * (1 + 0.5 * rng.uniform()); };
    const MicroBatchTime time{length(1), length(1.1), split ? length(0.9) : 0};
    uneven.runs.push_back({time, count});
    uneven.slowest = std::max(uneven.slowest, time.total());
    for (int i = 0; i < count; ++i) uneven.weights.push_back({time.forward, time.backward_input, time.backward_weight});
  }
  return uneven;
}

TEST(Bubble, OfGpipeAndOneForwardOneBackwardIsThatOfTheirOrderForAnyStages) {
  Rng rng(7);
  for (int i = 0; i < 600; ++i) {
    const int p = 1 + static_cast<int>(rng.below(12));
    const int m = 1 + static_cast<int>(rng.below(30));
    const Uneven uneven = random_stages(rng, p, false);
    for (const Schedule s : {Schedule::gpipe, Schedule::one_f_one_b}) {
      const Order order = s == Schedule::gpipe ? gpipe(p, m) : one_f_one_b(p, m);
      const double step = run_slots_by_stage(order, uneven.weights)->makespan;
      const double bubble = bubble_s(layout_of(p, s), m, uneven.runs);
      EXPECT_NEAR((m * uneven.slowest + bubble) / step, 1, 1e-9) << i << ' ' << p << ' ' << m;
    }
  }
}

// From a stage's first action to its last: no stage waits for the others at the end.
double longest_span(const Slots& slots) {
  double longest = 0;
  for (int s = 0; s < static_cast<int>(slots.stages.size()); ++s)
    longest = std::max(longest, slots.busy(s) + slots.inner_bubble(s));
  return longest;
}

TEST(Bubble, OfZeroBubbleSchedulesIsNearThatOfTheirOrderAndNeverLonger) {
  Rng rng(8);
  double sum = 0;
  for (int i = 0; i < 300; ++i) {
    const int p = 1 + static_cast<int>(rng.below(12));
    const int m = 2 * p + static_cast<int>(rng.below(30));
    const Uneven uneven = random_stages(rng, p, true);
    for (const Schedule s : {Schedule::zb_1p, Schedule::zb_2p}) {
      const Order order = s == Schedule::zb_1p ? zb_h1(p, m) : zb_h2(p, m);
      const double step = longest_span(*run_slots_by_stage(order, uneven.weights));
      const double closed = m * uneven.slowest + bubble_s(layout_of(p, s), m, uneven.runs);
      EXPECT_LT(closed / step, 1 + 1e-9) << i << ' ' << p << ' ' << m;
      EXPECT_GT(closed / step, 0.97) << i << ' ' << p << ' ' << m;
      sum += closed / step;
    }
  }
  EXPECT_GT(sum / 600, 0.998);
}

}  // namespace
}  // namespace twinpod::program
