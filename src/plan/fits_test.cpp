#include "plan/fits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "layout/check.hpp"
#include "model/arithmetic.hpp"
#include "plan/test_job.hpp"

namespace twinpod::plan {
namespace {

// GPT-3's dimensions on A100-like devices.
spec::Job large_job(int devices) {
  spec::Job job;
  job.model.layers = 96;
  job.model.hidden = 12288;
  job.model.ffn = 49152;
  job.model.vocab = 51200;
  job.model.max_sequence = 2048;
  job.model.attention = {.heads = 96, .kv_heads = 96, .head_dim = 128};
  job.cluster.device.name = "device";
  job.cluster.device.peak_flop_per_s = {19.5e12, 156e12, 312e12, 312e12, 0, 0};
  job.cluster.device.memory_bytes = 80e9;
  job.cluster.device.memory_bytes_per_s = 2e12;
  job.cluster.device.host_bytes_per_s = 31.5e9;
  job.cluster.device.compute_units = 108;
  job.cluster.devices = devices;
  job.cluster.scale_up_bytes_per_s = 300e9;
  job.cluster.scale_out_bytes_per_s = 25e9;
  job.training.sequence = 2048;
  job.training.global_batch = 1536;
  job.stack.name = "test";
  job.stack.physics = spec::default_physics();
  return job;
}

spec::Job with_layout(const spec::Job& job, const Fitting& fitting) {
  spec::Job changed = job;
  changed.layout = fitting.layout;
  changed.cluster.devices = fitting.devices;
  return changed;
}

TEST(Fits, WhatFitsIsNotShort) {
  spec::Job job = large_job(512);
  job.layout.tp = 8;
  job.layout.pp = 16;
  EXPECT_FALSE(shortage(job).has_value());
  EXPECT_TRUE(check_memory(job).has_value());
}

TEST(Fits, AShortageHasItsNumbers) {
  const std::optional<Shortage> found = shortage(large_job(512));
  ASSERT_TRUE(found.has_value());
  EXPECT_DOUBLE_EQ(found->capacity_bytes, 80e9);
  EXPECT_GT(found->needed_bytes, 175e9 * 16);
  EXPECT_EQ(found->largest, "optimizer");
  EXPECT_DOUBLE_EQ(found->over_bytes(), found->needed_bytes - 80e9);
}

TEST(Fits, TheNearestLayoutIsValidAndFits) {
  spec::Job job = large_job(512);
  job.layout.tp = 8;
  job.layout.pp = 2;
  const std::optional<Fitting> near = nearest_fitting(job);
  ASSERT_TRUE(near.has_value());
  const spec::Job changed = with_layout(job, *near);
  EXPECT_TRUE(layout::check(changed).has_value());
  EXPECT_FALSE(shortage(changed).has_value());
  EXPECT_EQ(near->devices, 512);
}

TEST(Fits, OneChangeIsPreferredToTwo) {
  spec::Job job = large_job(512);
  job.layout.tp = 8;
  job.layout.pp = 8;
  job.layout.micro_batch = 4;
  ASSERT_TRUE(shortage(job).has_value());
  const std::optional<Fitting> near = nearest_fitting(job);
  ASSERT_TRUE(near.has_value());
  EXPECT_EQ(near->changes.size(), 1U);
}

TEST(Fits, FarFromFittingManyThingsChange) {
  const std::optional<Fitting> near = nearest_fitting(large_job(512));
  ASSERT_TRUE(near.has_value());
  EXPECT_FALSE(shortage(with_layout(large_job(512), *near)).has_value());
}

TEST(Fits, TooFewDevicesNameTheFewestThatWouldDo) {
  const spec::Job job = large_job(2);
  EXPECT_FALSE(nearest_fitting(job).has_value());
  const std::optional<Fitting> small = smallest_fitting(job);
  ASSERT_TRUE(small.has_value());
  EXPECT_GT(small->devices, 2);
  EXPECT_LE(small->devices, 64);
  EXPECT_FALSE(shortage(with_layout(job, *small)).has_value());
}

TEST(Fits, TheRefusalNamesResourceNumbersAndWayOut) {
  spec::Job job = large_job(512);
  job.layout.tp = 8;
  job.layout.pp = 2;
  const Result<void> refused = check_memory(job);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::infeasible);
  EXPECT_NE(refused.error().message.find("but device has 80.0 GB"), std::string::npos) << refused.error().message;
  EXPECT_EQ(refused.error().hint.rfind("the nearest layout that fits: ", 0), 0U) << refused.error().hint;
}

TEST(Fits, OffloadedStateMustFitInTheHost) {
  spec::Job job = large_job(64);
  job.layout.tp = 8;
  job.layout.pp = 8;
  job.layout.recompute = spec::Recompute::full;
  job.layout.sequence_parallel = true;
  job.layout.offload_optimizer = true;
  job.cluster.host_memory_bytes = 2048e9;
  EXPECT_FALSE(shortage(job).has_value());
  job.cluster.host_memory_bytes = 128e9;
  const std::optional<Shortage> found = shortage(job);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->of_host);
}

TEST(Fits, NoNumberOfDevicesHoldsASequenceThatIsTooLong) {
  spec::Job job = large_job(8);
  job.training.sequence = 100'000'000;
  job.training.global_batch = 8;
  EXPECT_FALSE(smallest_fitting(job).has_value());
  const Result<void> refused = check_memory(job);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().hint.rfind("no number of these devices", 0), 0U);
}

// Servers share the whole model, however its experts and stages are spread.
TEST(HostBytes, OfServersAreTheStateOfTheWholeModel) {
  for (const int ep : {1, 8}) {
    for (const int pp : {1, 4}) {
      spec::Job job = mixture_job(64);
      job.layout.ep = ep;
      job.layout.pp = pp;
      job.layout.servers = 8;
      const double state = model::parameters(job.model).total * state_bytes_of_parameter(job);
      EXPECT_NEAR(host_bytes(job, peak_memory(job)) * 8 / state, 1, 0.05) << "ep " << ep << " pp " << pp;
    }
  }
}

}  // namespace
}  // namespace twinpod::plan
