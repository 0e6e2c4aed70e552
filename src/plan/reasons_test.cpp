#include "plan/reasons.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "layout/check.hpp"
#include "plan/search.hpp"
#include "plan/test_job.hpp"

namespace twinpod::plan {
namespace {

// A pipeline in chunks with something to turn on every side.
spec::Job interleaved_job() {
  spec::Job job = gpt_job();
  job.layout.tp = 4;
  job.layout.pp = 4;
  job.layout.virtual_stages = 3;
  job.layout.schedule = spec::Schedule::interleaved;
  job.layout.sequence_parallel = true;
  job.layout.zero = 1;
  job.layout.micro_batch = 2;
  return job;
}

spec::Job with_layout(const spec::Job& job, const spec::Layout& layout) {
  spec::Job other = job;
  other.layout = layout;
  return other;
}

const Neighbour* find(const std::vector<Neighbour>& list, const std::string& change) {
  const auto at = std::find_if(list.begin(), list.end(), [&](const Neighbour& n) { return n.change == change; });
  return at == list.end() ? nullptr : &*at;
}

TEST(Neighbours, EveryKnobIsTurnedOneStepEitherWay) {
  const std::vector<Neighbour> list = neighbours(interleaved_job());
  for (const char* change : {"tp 2 instead of 4",
                             "tp 8 instead of 4",
                             "pp 2 instead of 4",
                             "pp 8 instead of 4",
                             "tp 2 × pp 8 instead of 4 × 4",
                             "tp 8 × pp 2 instead of 4 × 4",
                             "2 chunks instead of 3",
                             "6 chunks instead of 3",
                             "cp 2 instead of 1",
                             "micro-batch 1 instead of 2",
                             "micro-batch 4 instead of 2",
                             "ZeRO 0 instead of 1",
                             "ZeRO 2 instead of 1",
                             "recompute selective instead of none",
                             "recompute full instead of none",
                             "no sequence parallelism",
                             "optimizer on the host",
                             "activations on the host",
                             "8 parameter servers instead of all-reduce",
                             "schedule 1f1b instead of interleaved",
                             "schedule zb-1p instead of interleaved"}) {
    EXPECT_NE(find(list, change), nullptr) << change;
  }
}

TEST(Neighbours, WhatTheJobHasNotIsNotTurned) {
  spec::Job job = gpt_job(8);
  for (const Neighbour& n : neighbours(job)) {
    EXPECT_EQ(n.change.find("ep "), std::string::npos) << n.change;       // no experts
    EXPECT_EQ(n.change.find("schedule"), std::string::npos) << n.change;  // one stage
    EXPECT_EQ(n.change.find("sequence"), std::string::npos) << n.change;  // one tensor rank
  }
}

TEST(Neighbours, AreValidAndDifferFromTheBestAndFromEachOther) {
  Rng rng(5);
  for (int round = 0; round < 100; ++round) {
    const spec::Job job = random_job(rng);
    std::vector<Candidate> known = {{canonical(job)}};
    for (const Neighbour& n : neighbours(job)) {
      EXPECT_TRUE(layout::check(with_layout(job, n.layout)).has_value()) << n.change;
      for (const Candidate& other : known) EXPECT_FALSE(is_same_layout(other, {n.layout})) << n.change;
      known.push_back({n.layout});
    }
  }
}

TEST(Neighbours, TimesAreThoseOfTheClosedForm) {
  const spec::Job job = interleaved_job();
  const double best_s = step_time(job).total_s;
  for (const Neighbour& n : neighbours(job)) {
    if (n.verdict == Verdict::does_not_fit) continue;
    EXPECT_DOUBLE_EQ(n.step_time_s, step_time(with_layout(job, n.layout)).total_s) << n.change;
    EXPECT_DOUBLE_EQ(n.difference_s, n.step_time_s - best_s) << n.change;
  }
}

TEST(Neighbours, ThePartThatGrewMostIsTheReason) {
  spec::Job job = interleaved_job();
  job.training.global_batch = 64;  // eight micro-batches: the bubble is large
  const std::vector<Neighbour> list = neighbours(job);
  const Neighbour* plain = find(list, "schedule 1f1b instead of interleaved");
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(plain->verdict, Verdict::slower);
  EXPECT_EQ(plain->parts.grew.part, Part::bubble);
  EXPECT_GT(plain->parts.grew.seconds, 0);
  EXPECT_LT(plain->parts.shrank.seconds, 0);
}

TEST(Neighbours, ChunksFollowWhereTheyWouldNotDivide) {
  spec::Job job = interleaved_job();
  job.layout.virtual_stages = 6;  // one layer each; eight stages have three layers
  EXPECT_NE(find(neighbours(job), "pp 8 instead of 4, 3 chunks"), nullptr);
}

TEST(Neighbours, ChunksAreAnotherScheduleWhereThereAreNone) {
  spec::Job job = interleaved_job();
  job.layout.virtual_stages = 1;
  job.layout.schedule = spec::Schedule::zb_1p;
  EXPECT_NE(find(neighbours(job), "schedule interleaved instead of zb-1p, 2 chunks"), nullptr);
  job.layout.schedule = spec::Schedule::one_f_one_b;
  EXPECT_NE(find(neighbours(job), "2 chunks instead of 1"), nullptr);
}

TEST(Neighbours, ThatDoNotFitSayByHowMuchAndWhatElseMustChange) {
  spec::Job job = interleaved_job();
  const double needed = peak_memory(job).needed();
  job.cluster.device.memory_bytes = needed * 1.0001;
  const std::vector<Neighbour> list = neighbours(job);
  const Neighbour* larger = find(list, "micro-batch 4 instead of 2");
  ASSERT_NE(larger, nullptr);
  ASSERT_EQ(larger->verdict, Verdict::does_not_fit);
  ASSERT_TRUE(larger->shortage.has_value());
  EXPECT_GT(larger->shortage->over_bytes(), 0);
  EXPECT_EQ(larger->shortage->largest, "activations");
  EXPECT_FALSE(larger->remedy.empty());
  EXPECT_GT(larger->remedy_step_time_s, 0);
  EXPECT_EQ(larger->remedy.find("micro-batch"), std::string::npos) << larger->remedy;  // that would undo it
}

TEST(Neighbours, TheMarginIsMemoryThatIsNotThere) {
  spec::Job job = interleaved_job();
  job.cluster.device.memory_bytes = peak_memory(job).needed() * 2;
  const auto misfits = [&](double margin) {
    const std::vector<Neighbour> list = neighbours(job, margin);
    return std::count_if(list.begin(), list.end(),
                         [](const Neighbour& n) { return n.verdict == Verdict::does_not_fit; });
  };
  EXPECT_GT(misfits(0.49), misfits(0));
}

TEST(Neighbours, WhatTheStackCannotRunIsSaid) {
  spec::Job job = interleaved_job();
  job.stack.abilities.context_parallel = false;
  const std::vector<Neighbour> list = neighbours(job);
  EXPECT_EQ(find(list, "cp 2 instead of 1")->beyond, "context parallelism");
  EXPECT_EQ(find(list, "schedule zb-1p instead of interleaved")->beyond, "schedule zb-1p");
  EXPECT_EQ(find(list, "tp 8 instead of 4")->beyond, "");
}

// The search looks at all of them, so none that the stack can run may beat its winner.
TEST(Neighbours, NoneIsFasterThanTheWinnerOfASearch) {
  for (const spec::Job& open : {gpt_job(), mixture_job()}) {
    spec::Job job = open;
    const SearchResult found = search(space_of(open, {}, open.stack.abilities), {.keep = 1});
    ASSERT_FALSE(found.ranked.empty());
    job.layout = found.ranked.front().layout;
    for (const Neighbour& n : neighbours(job)) {
      EXPECT_TRUE(n.verdict != Verdict::faster || !n.beyond.empty()) << n.change;
    }
  }
}

TEST(PartChanges, AreTheLargestOnBothSides) {
  Parts from;
  Parts to;
  from[Part::bubble] = 3;
  to[Part::bubble] = 1;
  to[Part::tensor] = 0.5;
  to[Part::data] = 0.2;
  const PartChanges changes = part_changes(from, to);
  EXPECT_EQ(changes.grew.part, Part::tensor);
  EXPECT_DOUBLE_EQ(changes.grew.seconds, 0.5);
  EXPECT_EQ(changes.shrank.part, Part::bubble);
  EXPECT_DOUBLE_EQ(changes.shrank.seconds, -2);
}

TEST(Bottleneck, CostsAddUpToTheStep) {
  const spec::Job job = interleaved_job();
  const StepTime step = step_time(job);
  double sum = 0;
  for (const Cost& cost : bottleneck(job, step).costs) sum += cost.seconds;
  EXPECT_NEAR(sum, step.total_s, 1e-9 * step.total_s);
}

TEST(Bottleneck, IsTheLargestCostThatIsNotCompute) {
  spec::Job job = gpt_job();
  job.layout.pp = 16;
  job.training.global_batch = 8;  // two micro-batches for sixteen stages
  const Bottleneck found = bottleneck(job, step_time(job));
  EXPECT_EQ(found.largest.name, "bubble");
  EXPECT_GT(found.share, 0.5);
  EXPECT_EQ(found.advice.rfind("twice the batch would take ", 0), 0U) << found.advice;
}

TEST(Bottleneck, TheNetworkThatHelpsIsNamedFirst) {
  spec::Job job = gpt_job();
  job.layout.tp = 8;
  job.cluster.scale_up_bytes_per_s = 10e9;
  const Bottleneck found = bottleneck(job, step_time(job));
  EXPECT_EQ(found.largest.name, "tensor");
  EXPECT_EQ(found.advice.rfind("a scale-up network twice as fast (20.0 GB/s) would save ", 0), 0U) << found.advice;
}

TEST(Bottleneck, RecomputationIsWeighedAgainstMemory) {
  spec::Job job = gpt_job(1);
  job.training.global_batch = 8;
  job.layout.recompute = spec::Recompute::full;
  const Bottleneck found = bottleneck(job, step_time(job));
  EXPECT_EQ(found.largest.name, "recompute");
  EXPECT_EQ(found.advice.rfind("without recomputation a step would take ", 0), 0U) << found.advice;
}

}  // namespace
}  // namespace twinpod::plan
