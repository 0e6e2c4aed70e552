#include "program/order.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "program/schedule.hpp"

namespace twinpod::program {
namespace {

constexpr SlotWeights kUnits{1, 1, 1};

double bubble_fraction(const Order& order, const SlotWeights& weights = kUnits) {
  const Result<Slots> slots = run_slots(order, weights);
  EXPECT_TRUE(slots) << slots.error().message;
  return slots->bubble(0) / slots->makespan;
}

spec::Layout layout_of(spec::Schedule schedule, int stages, int chunks = 1) {
  spec::Layout layout;
  layout.schedule = schedule;
  layout.pp = stages;
  layout.virtual_stages = chunks;
  return layout;
}

// Narayanan 2021: (p - 1) / (m + p - 1) of the step, for GPipe and 1F1B alike.
TEST(Order, GpipeAndOneForwardOneBackwardHaveTheirKnownBubble) {
  for (const int p : {1, 2, 4, 7}) {
    for (const int m : {1, 3, 8, 20}) {
      const double known = (p - 1.0) / (m + p - 1.0);
      EXPECT_DOUBLE_EQ(bubble_fraction(gpipe(p, m)), known) << p << ' ' << m;
      EXPECT_DOUBLE_EQ(bubble_fraction(one_f_one_b(p, m)), known) << p << ' ' << m;
    }
  }
}

// The bubble in slots divides by the chunks: (p - 1)(F + B + W) / v of a stage's time, and chunks are v times shorter.
TEST(Order, InterleavingDividesTheBubbleByTheChunks) {
  for (const int p : {2, 4, 8}) {
    for (const int v : {2, 3, 4}) {
      for (const int rounds : {1, 2, 5}) {
        const int m = p * rounds;
        const Result<Slots> slots = run_slots(interleaved(p, v, m), kUnits);
        ASSERT_TRUE(slots);
        EXPECT_DOUBLE_EQ(slots->makespan, 3.0 * m * v + 3.0 * (p - 1)) << p << ' ' << v << ' ' << m;
      }
    }
  }
}

// Qi 2023: (p - 1)(F + B - W), a third of 1F1B's when the three take equally long.
TEST(Order, ZbH1LeavesAThirdOfTheBubble) {
  for (const int p : {2, 4, 8}) {
    for (const SlotWeights& w : {kUnits, SlotWeights{1, 1.2, 0.9}, SlotWeights{2, 2, 1}}) {
      const int m = 3 * p;
      const Result<Slots> slots = run_slots(zb_h1(p, m), w);
      ASSERT_TRUE(slots);
      const double known =
          bubble_s(layout_of(spec::Schedule::zb_1p, p), {w.forward, w.backward_input, w.backward_weight});
      EXPECT_NEAR(slots->bubble(0), known, 1e-9) << p;
    }
    EXPECT_DOUBLE_EQ(run_slots(zb_h1(p, 3 * p), kUnits)->bubble(0) * 3,
                     run_slots(one_f_one_b(p, 3 * p), kUnits)->bubble(0));
  }
}

// Qi 2023 and 2024: no stage idles between its first and its last action; the stages only start one after the other.
TEST(Order, ZbH2AndZbVNeverIdleInside) {
  for (const int p : {2, 4, 8}) {
    for (const int m : {2 * p, 3 * p + 1}) {
      for (const Order& order : {zb_h2(p, m), zb_v(p, m)}) {
        const Result<Slots> slots = run_slots(order, kUnits);
        ASSERT_TRUE(slots);
        for (int s = 0; s < p; ++s) EXPECT_DOUBLE_EQ(slots->inner_bubble(s), 0) << p << ' ' << m << ' ' << s;
        EXPECT_DOUBLE_EQ(slots->bubble(0), p - 1);
      }
    }
  }
}

// DeepSeek-V3's report: (p/2 - 1)(F&B + B - 3W), with B the whole backward pass and F&B as long as the two.
TEST(Order, DualPipeHasTheBubbleOfItsPaper) {
  for (const int p : {2, 4, 8, 16}) {
    const Result<Slots> slots = run_slots(dualpipe(p, 2 * p + 4), kUnits);
    ASSERT_TRUE(slots);
    for (int s = 0; s < p; s += p - 1) {
      const double pair = 3;
      const double backward = 2;
      EXPECT_DOUBLE_EQ(slots->bubble(s), (p / 2.0 - 1) * (pair + backward - 3 * 1)) << p;
    }
    EXPECT_DOUBLE_EQ(slots->bubble(0), bubble_s(layout_of(spec::Schedule::dualpipe, p), {1, 1, 1}));
  }
}

// The same formula with 2 p chunks on p stages.
TEST(Order, DualPipeVHasTheBubbleOfTwiceTheStages) {
  for (const int p : {2, 4, 8}) {
    const Result<Slots> slots = run_slots(dualpipe_v(p, 2 * p + 3), kUnits);
    ASSERT_TRUE(slots);
    EXPECT_DOUBLE_EQ(slots->bubble(0), (p - 1) * 2.0) << p;
    EXPECT_DOUBLE_EQ(slots->bubble(0) / 2, bubble_s(layout_of(spec::Schedule::dualpipe_v, p), {1, 1, 1}))
        << p;  // a chunk is half a stage
  }
}

TEST(Order, HoldsAsManyMicroBatchesAsTheClosedFormSays) {
  const int p = 8;
  const int m = 32;
  const auto expect = [&](const Order& order, spec::Schedule schedule, int chunks) {
    for (int s = 0; s < p; ++s) {
      const double held = static_cast<double>(most_in_flight(order, s)) / order.chunks;
      const double known = micro_batches_in_flight(layout_of(schedule, p, chunks), m, s);
      // DualPipe's two chunks are whole stages of two copies of the model; the closed form counts both as one load.
      const double copies = order.placement == Placement::mirror ? 2 : 1;
      EXPECT_DOUBLE_EQ(held * copies, known) << spec::name_of(schedule) << " stage " << s;
    }
  };
  expect(gpipe(p, m), spec::Schedule::gpipe, 1);
  expect(one_f_one_b(p, m), spec::Schedule::one_f_one_b, 1);
  expect(interleaved(p, 4, m), spec::Schedule::interleaved, 4);
  expect(zb_h1(p, m), spec::Schedule::zb_1p, 1);
  expect(zb_v(p, m), spec::Schedule::zb_v, 1);
  expect(dualpipe(p, m), spec::Schedule::dualpipe, 1);
  expect(dualpipe_v(p, m), spec::Schedule::dualpipe_v, 1);
  // ZB-H2 stays one below the 2 p that its paper allows it.
  for (int s = 0; s < p; ++s) EXPECT_EQ(most_in_flight(zb_h2(p, m), s), 2 * p - 1);
}

TEST(Order, OfFewMicroBatchesStillEnds) {
  for (const int p : {2, 3, 5}) {
    for (int m = 1; m <= 2 * p; ++m) {
      for (const Order& order : {gpipe(p, m), one_f_one_b(p, m), zb_h1(p, m), zb_h2(p, m), zb_v(p, m)}) {
        const Result<Slots> slots = run_slots(order, kUnits);
        ASSERT_TRUE(slots) << p << ' ' << m << ' ' << slots.error().message;
        for (int s = 0; s < p; ++s) EXPECT_DOUBLE_EQ(slots->busy(s), 3.0 * m * order.chunks);
      }
    }
  }
}

TEST(Order, ThatWaitsInACircleIsRefused) {
  Order order = one_f_one_b(2, 2);
  std::swap(order.stages[0][0], order.stages[0][2]);  // a backward pass before anything was sent
  const Result<Slots> slots = run_slots(order, kUnits);
  ASSERT_FALSE(slots);
  EXPECT_NE(slots.error().message.find("deadlock: stage 0"), std::string::npos) << slots.error().message;
}

spec::Job csv_job(int stages, int micro_batches, int chunks = 1) {
  spec::Job job;
  job.cluster.devices = stages;
  job.layout = layout_of(spec::Schedule::custom, stages, chunks);
  job.training.global_batch = micro_batches;
  return job;
}

std::string csv_of(const Order& order) {
  std::string text = "stage,order,phase,micro_batch,chunk\n";
  for (int s = 0; s < order.num_stages(); ++s) {
    int at = 0;
    for (const Action& a : order.stages[static_cast<std::size_t>(s)]) {
      const char* phase = a.phase == Phase::forward ? "F" : a.phase == Phase::backward_weight ? "W" : "B";
      text += std::to_string(s) + "," + std::to_string(at++) + "," + phase + "," + std::to_string(a.micro_batch) + "," +
              std::to_string(a.chunk) + "\n";
    }
  }
  return text;
}

TEST(OrderFile, GivesBackTheOrderThatWasWritten) {
  for (const Order& order : {one_f_one_b(4, 6), interleaved(2, 2, 4), zb_h1(3, 7)}) {
    const spec::Job job = csv_job(order.num_stages(), order.micro_batches, order.chunks);
    const Result<Order> read = read_order(csv_of(order), "mine.csv", job);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->stages, order.stages);
  }
}

void expect_refused(const std::string& text, int line, const std::string& part) {
  const Result<Order> read = read_order(text, "mine.csv", csv_job(2, 2));
  ASSERT_FALSE(read) << text;
  EXPECT_EQ(read.error().kind, ErrorKind::input);
  EXPECT_EQ(read.error().file, "mine.csv");
  EXPECT_EQ(read.error().line, line) << read.error().message;
  EXPECT_NE(read.error().message.find(part), std::string::npos) << read.error().message;
}

TEST(OrderFile, RefusesWhatIsNoWholeStepWithItsLine) {
  const std::string good = csv_of(one_f_one_b(2, 2));
  const auto without = [&](const std::string& row) { return std::string(good).erase(good.find(row), row.size()); };
  const auto with = [&](const std::string& row, const std::string& other) {
    return std::string(good).replace(good.find(row), row.size(), other);
  };
  expect_refused("", 1, "head line");
  expect_refused("stage,phase\n", 1, "head line");
  expect_refused(with("0,0,F,0,0", "0,0,F,0"), 2, "4 values");
  expect_refused(with("0,0,F,0,0", "0,0,X,0,0"), 2, "phase is `X`");
  expect_refused(with("0,0,F,0,0", "7,0,F,0,0"), 2, "stage is `7`");
  expect_refused(with("0,0,F,0,0", "0,0,F,2,0"), 2, "micro_batch is `2`");
  expect_refused(with("0,0,F,0,0", "0,0,F,1x,0"), 2, "micro_batch is `1x`");
  expect_refused(without("1,2,F,1,0\n"), 8, "F of stage 1, micro-batch 1, chunk 0 is missing");
  expect_refused(with("1,2,F,1,0", "1,2,F,0,0"), 8, "stands in line 6 too");
  expect_refused(with("0,0,F,0,0", "0,9,F,0,0"), 4, "comes before its F");
}

TEST(OrderFile, RefusesADeadlock) {
  // Stage 0 wants the gradient of micro-batch 0 before it sends micro-batch 1; stage 1 begins with micro-batch 1.
  const std::string text =
      "stage,order,phase,micro_batch,chunk\n0,0,F,0,0\n0,1,B,0,0\n0,2,F,1,0\n0,3,B,1,0\n"
      "1,0,F,1,0\n1,1,B,1,0\n1,2,F,0,0\n1,3,B,0,0\n";
  expect_refused(text, 0, "deadlock: stage 0");
}

}  // namespace
}  // namespace twinpod::program
