#include "plan/metrics.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/arithmetic.hpp"

namespace twinpod::plan {
namespace {

spec::Job small_job(int devices = 8) {
  spec::Job job;
  job.model.layers = 24;
  job.model.hidden = 2048;
  job.model.ffn = 8192;
  job.model.vocab = 51200;
  job.model.max_sequence = 2048;
  job.model.attention = {.heads = 16, .kv_heads = 16, .head_dim = 128};
  job.cluster.device.peak_flop_per_s = {19.5e12, 156e12, 312e12, 312e12, 0, 0};
  job.cluster.device.memory_bytes = 80e9;
  job.cluster.device.memory_bytes_per_s = 2e12;
  job.cluster.device.compute_units = 108;
  job.cluster.device.power_w = 400;
  job.cluster.device.usd_per_hour = 2;
  job.cluster.devices = devices;
  job.cluster.scale_up_bytes_per_s = 300e9;
  job.cluster.scale_out_bytes_per_s = 25e9;
  job.training.sequence = 2048;
  job.training.global_batch = 8.0 * devices;
  job.training.tokens = 100e9;
  job.stack.physics = spec::default_physics();
  return job;
}

Metrics metrics_of(const spec::Job& job) { return metrics(job, step_time(job)); }

TEST(Metrics, TokensPerSecondAreTokensOfAStepOverItsTime) {
  const Metrics m = metrics_of(small_job());
  EXPECT_DOUBLE_EQ(m.tokens_per_s * m.step_time_s, 64 * 2048);
  EXPECT_DOUBLE_EQ(m.tokens_per_s_per_device * 8, m.tokens_per_s);
}

TEST(Metrics, MfuCountsModelFlopsOnly) {
  const spec::Job job = small_job();
  const Metrics m = metrics_of(job);
  EXPECT_DOUBLE_EQ(m.mfu, model::training_flop(job.model, 2048) * m.tokens_per_s / 8 / 312e12);
  EXPECT_GT(m.mfu, 0.1);
  EXPECT_LT(m.mfu, 1);
}

TEST(Metrics, RecomputeRaisesHfuOverMfu) {
  spec::Job job = small_job();
  job.layout.recompute = spec::Recompute::full;
  const Metrics m = metrics_of(job);
  EXPECT_GT(m.hfu, 1.25 * m.mfu);
  EXPECT_LT(m.hfu, 1.45 * m.mfu);
}

TEST(Metrics, OneDeviceScalesByItself) { EXPECT_NEAR(metrics_of(small_job(1)).scale_factor, 1, 1e-9); }

TEST(Metrics, TheScaleFactorFallsWithDevices) {
  const double few = metrics_of(small_job(8)).scale_factor;
  const double many = metrics_of(small_job(1024)).scale_factor;
  EXPECT_LT(few, 1);
  EXPECT_LT(many, few);
}

TEST(Metrics, ComputationRateIsTheModelFlopsOfAllDevices) {
  const Metrics m = metrics_of(small_job(64));
  EXPECT_NEAR(m.computation_rate_flop_per_s, 64 * m.model_flop_per_s, 1e-6 * m.computation_rate_flop_per_s);
}

TEST(Metrics, TheSingleDeviceGetsAWholeMicroBatch) {
  spec::Job job = small_job(64);
  job.layout.tp = 8;
  job.layout.pp = 8;
  job.training.global_batch = 16;  // a quarter of a sequence for each device
  EXPECT_DOUBLE_EQ(single_device_job(job).training.global_batch, 1);
}

TEST(Metrics, TheBubbleIsItsShareOfTheStep) {
  spec::Job job = small_job(8);
  EXPECT_DOUBLE_EQ(metrics_of(job).bubble_share, 0);
  job.layout.pp = 8;
  EXPECT_GT(metrics_of(job).bubble_share, 0.05);
}

TEST(Metrics, UtilisationIsBelowOneAndAboveMfu) {
  const Metrics m = metrics_of(small_job(64));
  EXPECT_LT(m.cluster_utilisation, 1);
  EXPECT_GT(m.cluster_utilisation, m.mfu);
}

TEST(Metrics, CostAndEnergyFollowFromDeviceHours) {
  const Metrics m = metrics_of(small_job(64));
  EXPECT_DOUBLE_EQ(*m.time_to_train_s, 100e9 / m.tokens_per_s);
  EXPECT_DOUBLE_EQ(*m.device_hours, 64 * *m.time_to_train_s / 3600);
  EXPECT_DOUBLE_EQ(*m.cost_usd, 2 * *m.device_hours);
  EXPECT_NEAR(*m.energy_kwh, 0.4 * *m.device_hours, 1e-6 * *m.energy_kwh);
}

TEST(Metrics, ANodesPowerCountsItsHostToo) {
  spec::Job job = small_job(64);
  job.cluster.node_power_w = 6500;
  EXPECT_DOUBLE_EQ(watts_per_device(job.cluster), 812.5);
}

TEST(Metrics, WithoutPriceOrTokensThereIsNoCost) {
  spec::Job job = small_job();
  job.cluster.device.usd_per_hour = 0;
  EXPECT_FALSE(metrics_of(job).cost_usd.has_value());
  job.training.tokens = 0;
  EXPECT_FALSE(metrics_of(job).time_to_train_s.has_value());
}

TEST(Metrics, ATargetLossSetsTheTokens) {
  spec::Job job = small_job();
  job.training.tokens = 0;
  job.training.target_loss = 2.6;
  const Metrics m = metrics_of(job);
  ASSERT_TRUE(m.accuracy.has_value());
  ASSERT_TRUE(m.accuracy->tokens.has_value());
  EXPECT_DOUBLE_EQ(m.training_tokens, *m.accuracy->tokens);
}

TEST(Metrics, EveryLineHasAFormula) {
  spec::Job job = small_job();
  job.training.target_loss = 2.6;
  const std::vector<MetricLine> lines = described(metrics_of(job), job);
  EXPECT_EQ(lines.size(), 16U);
  for (const MetricLine& line : lines) EXPECT_FALSE(line.formula.empty()) << line.key;
}

TEST(Metrics, AnUnreachableLossIsSaid) {
  spec::Job job = small_job();
  job.training.target_loss = 1.5;
  const std::vector<MetricLine> lines = described(metrics_of(job), job);
  EXPECT_EQ(lines.back().value.rfind("this model cannot reach it: its floor is 2.", 0), 0U) << lines.back().value;
}

}  // namespace
}  // namespace twinpod::plan
