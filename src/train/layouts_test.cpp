// Any layout trains the same model.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "train/test_job.hpp"

namespace twinpod::train {
namespace {

struct Case {
  int dp = 1;
  int tp = 1;
  int pp = 1;
  bool sp = false;
  int zero = 0;
  spec::Schedule schedule = spec::Schedule::one_f_one_b;
  spec::Recompute recompute = spec::Recompute::none;
  int micro_batch = 1;
  bool llama = false;
  bool overlap = false;
};

spec::Job job_of(const Case& one) {
  spec::Job job = small_job(one.llama);
  job.cluster.devices = one.dp * one.tp * one.pp;
  job.layout.tp = one.tp;
  job.layout.pp = one.pp;
  job.layout.sequence_parallel = one.sp;
  job.layout.zero = one.zero;
  job.layout.schedule = one.schedule;
  job.layout.virtual_stages = one.schedule == spec::Schedule::interleaved ? 2 : 1;
  job.layout.recompute = one.recompute;
  job.layout.micro_batch = one.micro_batch;
  job.layout.overlap = one.overlap;
  return job;
}

std::string text_of(const Case& one) {
  return fmt::format("dp {} tp {} pp {} sp {} zero {} schedule {} recompute {} micro-batch {} {}{}", one.dp, one.tp,
                     one.pp, one.sp, one.zero, static_cast<int>(one.schedule), static_cast<int>(one.recompute),
                     one.micro_batch, one.llama ? "llama" : "gpt", one.overlap ? " overlap" : "");
}

constexpr int kSteps = 50;

const Trained& alone(bool llama) {
  static const Trained gpt = train_small<float>(job_of({}), kSteps);
  static const Trained other = train_small<float>(job_of({.llama = true}), kSteps);
  return llama ? other : gpt;
}

void expect_same(const Case& one) {
  SCOPED_TRACE(text_of(one));
  const Trained& expected = alone(one.llama);
  const Trained trained = train_small<float>(job_of(one), kSteps);
  ASSERT_EQ(trained.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    ASSERT_NEAR(trained.losses[i], expected.losses[i], 1e-5 * expected.losses[i]) << "step " << i;
  }
  EXPECT_TRUE(trained.same_peak) << trained.peak_bytes << " bytes, predicted " << trained.predicted_bytes;
}

TEST(Layouts, OneProcessLearns) {
  for (const bool llama : {false, true}) {
    const Trained& trained = alone(llama);
    ASSERT_EQ(trained.losses.size(), static_cast<std::size_t>(kSteps));
    EXPECT_NEAR(trained.losses.front(), std::log(61), 0.1);
    EXPECT_LT(trained.losses.back(), 3);
    EXPECT_TRUE(trained.same_peak) << trained.peak_bytes << " bytes, predicted " << trained.predicted_bytes;
  }
}

TEST(Layouts, DataParallel) {
  expect_same({.dp = 2});
  expect_same({.dp = 4, .overlap = true});
  expect_same({.dp = 8});
}

TEST(Layouts, TensorParallel) {
  expect_same({.tp = 2});
  expect_same({.tp = 4});
  expect_same({.tp = 2, .llama = true});
}

TEST(Layouts, SequenceParallel) {
  expect_same({.tp = 2, .sp = true});
  expect_same({.tp = 4, .sp = true});
  expect_same({.dp = 2, .tp = 2, .sp = true, .zero = 1});
  expect_same({.dp = 2, .tp = 2, .sp = true, .zero = 3});
  expect_same({.tp = 2, .pp = 2, .sp = true, .llama = true});
}

TEST(Layouts, Pipeline) {
  for (const spec::Schedule schedule :
       {spec::Schedule::gpipe, spec::Schedule::one_f_one_b, spec::Schedule::interleaved}) {
    expect_same({.pp = 2, .schedule = schedule});
    expect_same({.dp = 2, .pp = 2, .schedule = schedule, .llama = true});
  }
  expect_same({.pp = 4});
  expect_same({.pp = 4, .schedule = spec::Schedule::gpipe});
}

TEST(Layouts, Zero) {
  for (const int zero : {1, 2, 3}) {
    expect_same({.dp = 2, .zero = zero});
    expect_same({.dp = 2, .tp = 2, .zero = zero, .llama = true});
    expect_same({.dp = 4, .zero = zero, .overlap = true});
  }
  expect_same({.dp = 2, .pp = 2, .zero = 1});
}

TEST(Layouts, Recompute) {
  for (const spec::Recompute recompute : {spec::Recompute::selective, spec::Recompute::full}) {
    expect_same({.recompute = recompute});
    expect_same({.tp = 2, .sp = true, .recompute = recompute});
    expect_same({.pp = 2, .recompute = recompute, .llama = true});
    expect_same({.dp = 2, .zero = 3, .recompute = recompute});
  }
}

TEST(Layouts, MicroBatches) {
  expect_same({.micro_batch = 2});
  expect_same({.micro_batch = 8});
  expect_same({.dp = 2, .micro_batch = 4});
  expect_same({.pp = 2, .micro_batch = 2});
}

TEST(Layouts, Products) {
  expect_same({.dp = 2, .tp = 2, .pp = 2});
  expect_same({.dp = 2, .tp = 2, .pp = 2, .sp = true, .zero = 1, .llama = true});
  expect_same({.dp = 2, .tp = 2, .pp = 2, .sp = true, .zero = 1, .recompute = spec::Recompute::full});
  expect_same({.dp = 2, .tp = 2, .pp = 2, .schedule = spec::Schedule::interleaved});
}

}  // namespace
}  // namespace twinpod::train
