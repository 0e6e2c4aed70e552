#include "plan/assessment.hpp"

#include <gtest/gtest.h>

namespace twinpod::plan {
namespace {

spec::Job small_job() {
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
  job.cluster.devices = 64;
  job.cluster.scale_up_bytes_per_s = 300e9;
  job.cluster.scale_out_bytes_per_s = 25e9;
  job.training.sequence = 2048;
  job.training.global_batch = 1024;
  job.stack.physics = spec::default_physics();
  return job;
}

TEST(Assessment, HoldsEveryStage) {
  spec::Job job = small_job();
  job.layout.pp = 4;
  const Assessment a = assess(job, {});
  ASSERT_EQ(a.stages.size(), 4U);
  EXPECT_EQ(a.stages[3].stage, 3);
  EXPECT_NEAR(a.step.parts.total(), a.step.total_s, 1e-12);
}

TEST(Assessment, APlainJobHasNoWarnings) { EXPECT_TRUE(assess(small_job(), {}).warnings.empty()); }

TEST(Assessment, UnevenStagesAreSaid) {
  spec::Job job = small_job();
  job.model.layers = 22;
  job.layout.pp = 4;
  EXPECT_EQ(assess(job, {}).warnings.at(0),
            "22 layers over 4 stages: some hold 6, others 5, and the fullest sets the pace");
}

TEST(Assessment, TensorParallelismBeyondTheNodeIsSaid) {
  spec::Job job = small_job();
  job.layout.tp = 16;
  EXPECT_EQ(assess(job, {}).warnings.at(0), "tp 16 reaches beyond the 8 devices that the scale-up network joins");
}

TEST(Assessment, FewMicroBatchesAreSaid) {
  spec::Job job = small_job();
  job.layout.pp = 8;
  job.training.global_batch = 64;
  EXPECT_EQ(assess(job, {}).warnings.at(0),
            "8 micro-batches for 8 stages: a larger global_batch would shrink the bubble");
}

TEST(Assessment, ANearlyFullDeviceIsSaid) {
  spec::Job job = small_job();
  job.cluster.device.memory_bytes = peak_memory(job).total() / 0.98;
  EXPECT_EQ(assess(job, {}).warnings.at(0),
            "memory is 98 % full: what the estimate errs by may be more than what is left");
}

TEST(Assessment, ALongSequenceIsSaid) {
  spec::Job job = small_job();
  job.training.sequence = 4096;
  EXPECT_EQ(assess(job, {}).warnings.at(0), "sequence 4096 is longer than the 2048 tokens that the model is made for");
}

}  // namespace
}  // namespace twinpod::plan
