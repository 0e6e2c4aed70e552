// What is done in plain passes in the place of fused kernels trains the same; so does dropout in any layout.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "spec/names.hpp"
#include "train/test_job.hpp"

namespace twinpod::train {
namespace {

constexpr int kSteps = 30;

const TestLayout kLayouts[] = {
    {.micro_batch = 2},
    {.dp = 2, .micro_batch = 2},
    {.tp = 2, .micro_batch = 2},
    {.tp = 2, .sp = true, .recompute = spec::Recompute::selective, .micro_batch = 2},
    {.pp = 2, .micro_batch = 1},
    {.recompute = spec::Recompute::selective, .micro_batch = 2},
    {.recompute = spec::Recompute::full, .micro_batch = 4},
    {.dp = 2, .zero = 3, .recompute = spec::Recompute::full, .micro_batch = 2},
    {.dp = 2, .tp = 2, .pp = 2, .sp = true, .zero = 1, .micro_batch = 1},
};

spec::Job job_of(bool llama, const TestLayout& one = kLayouts[0]) { return with_layout(small_job(llama), one); }

void expect_same(const Trained& trained, const Trained& expected) {
  ASSERT_EQ(trained.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i)
    ASSERT_NEAR(trained.losses[i], expected.losses[i], 1e-5 * expected.losses[i]) << "step " << i;
  EXPECT_TRUE(trained.same_peak) << trained.peak_bytes << " bytes, predicted " << trained.predicted_bytes;
}

TEST(Fusions, EachSwitchedOffTrainsTheSame) {
  for (const bool llama : {false, true}) {
    const Trained expected = train_small<float>(job_of(llama), kSteps);
    for (const auto& [name, fusion] : spec::kFusionNames) {
      SCOPED_TRACE(fmt::format("{} without {}", llama ? "llama" : "gpt", name));
      spec::Job job = job_of(llama);
      job.training.recipe.unfused = {fusion};
      expect_same(train_small<float>(job, kSteps), expected);
    }
  }
}

TEST(Fusions, AllSwitchedOffTrainTheSameInAnyLayout) {
  for (const bool llama : {false, true}) {
    const Trained expected = train_small<float>(job_of(llama), kSteps);
    for (const TestLayout& one : kLayouts) {
      SCOPED_TRACE(fmt::format("{}, {}", llama ? "llama" : "gpt", text_of(one)));
      spec::Job job = job_of(llama, one);
      job.training.recipe.unfused = {spec::Fusion::all};
      expect_same(train_small<float>(job, kSteps), expected);
    }
  }
}

TEST(Fusions, WhatPlainPassesKeepIsPredicted) {
  const auto peak = [](std::vector<spec::Fusion> unfused) {
    spec::Job job = job_of(false);
    job.training.recipe.unfused = std::move(unfused);
    return train_small<float>(job, 1).peak_bytes;
  };
  const std::int64_t fused = peak({});
  // 2 samples of 16 tokens, 4 heads, 4 layers: the scores of each and those at work, less the sums of their rows.
  const std::int64_t scores = 2 * 16 * 16 * 4 * 4;
  EXPECT_EQ(peak({spec::Fusion::attention}) - fused, 5 * scores - 4 * (2 * 16 * 4 * 4));
  EXPECT_EQ(peak({spec::Fusion::cross_entropy}) - fused, 2 * (2 * 16 * 61 * 4));
  EXPECT_EQ(peak({spec::Fusion::bias_gelu}), fused);
}

TEST(Fusions, InBf16TrainNearlyTheSame) {
  spec::Job job = job_of(false);
  job.training.precision = spec::Precision::bf16;
  const Trained expected = train_small<Bf16>(job, kSteps);
  job.training.recipe.unfused = {spec::Fusion::all};
  const Trained trained = train_small<Bf16>(job, kSteps);
  for (std::size_t i = 0; i < expected.losses.size(); ++i)
    ASSERT_NEAR(trained.losses[i], expected.losses[i], 0.02 * expected.losses[i]) << "step " << i;
  EXPECT_TRUE(trained.same_peak);
}

// ---- dropout ----

spec::Job with_dropout(spec::Job job) {
  job.training.recipe.dropout = 0.1;
  job.training.recipe.attention_dropout = 0.1;
  return job;
}

TEST(DropoutOfSteps, DropsTheSameInAnyLayout) {
  for (const bool llama : {false, true}) {
    const Trained expected = train_small<float>(with_dropout(job_of(llama)), kSteps);
    EXPECT_LT(expected.losses.back(), expected.losses.front());
    for (const TestLayout& one : kLayouts) {
      SCOPED_TRACE(fmt::format("{}, {}", llama ? "llama" : "gpt", text_of(one)));
      expect_same(train_small<float>(with_dropout(job_of(llama, one)), kSteps), expected);
    }
  }
}

TEST(DropoutOfSteps, IsTheSameInPlainPasses) {
  for (const bool llama : {false, true}) {
    const Trained expected = train_small<float>(with_dropout(job_of(llama)), kSteps);
    spec::Job job = with_dropout(job_of(llama));
    job.training.recipe.unfused = {spec::Fusion::all};
    expect_same(train_small<float>(job, kSteps), expected);
  }
}

TEST(DropoutOfSteps, NeedsNoMemory) {
  const Trained plain = train_small<float>(job_of(false), 2);
  EXPECT_EQ(train_small<float>(with_dropout(job_of(false)), 2).peak_bytes, plain.peak_bytes);
}

// Losses of the same batch and parameters: of evaluation, of step 1 twice, and of step 2.
std::vector<double> losses_of_one_batch(spec::Job job) {
  std::vector<double> losses;
  job.stack.memory.runtime_bytes = static_cast<double>(runtime_bytes<float>(job));
  const Result<program::Program> program = program::generate(job);
  if (!program) return losses;
  const auto body = [&](comm::Communicator& world) -> Result<std::string> {
    kernel::set_threads(1);
    Rank<float> rank(job, *program, world);
    if (Result<void> ready = set_up(rank, 7); !ready) return tl::unexpected(ready.error());
    fill_batch(rank, 0);
    const Result<double> evaluated = evaluate(rank);
    if (!evaluated) return tl::unexpected(evaluated.error());
    losses.push_back(*evaluated);
    for (const int step : {1, 1, 2}) {
      StepSettings settings;
      settings.adamw = {.rate = 0, .step = step};
      const Result<StepResult> done = run_step(rank, settings);
      if (!done) return tl::unexpected(done.error());
      losses.push_back(done->loss);
    }
    return std::string();
  };
  const Result<std::string> done = comm::run_threads(1, {.timeout_s = 20}, body);
  EXPECT_TRUE(done);
  return losses;
}

TEST(DropoutOfSteps, IsOffInEvaluationAndDiffersFromStepToStep) {
  const FirstWays equal_bit_by_bit;
  const std::vector<double> plain = losses_of_one_batch(job_of(false));
  const std::vector<double> drops = losses_of_one_batch(with_dropout(job_of(false)));
  ASSERT_EQ(drops.size(), 4U);
  EXPECT_EQ(drops[0], plain[0]);
  EXPECT_EQ(plain[1], plain[3]);
  EXPECT_NE(drops[1], plain[1]);
  EXPECT_EQ(drops[1], drops[2]);
  EXPECT_NE(drops[1], drops[3]);
}

}  // namespace
}  // namespace twinpod::train
