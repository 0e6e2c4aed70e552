#include "plan/layer_time.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "plan/test_job.hpp"
#include "program/volume.hpp"

namespace twinpod::plan {
namespace {

using model::LayerKind;

PassTime dense_layer(const spec::Job& job, bool windowed = false) {
  return layer_time(job, model::shard_of(job), LayerKind::dense, windowed);
}

PassTime expert_layer(const spec::Job& job) { return layer_time(job, model::shard_of(job), LayerKind::experts, false); }

double both(const PassTime& pass, Part part) { return pass.forward[part] + pass.backward[part]; }

// No host: what the device does is all there is.
spec::Job device_only(spec::Job job) {
  job.stack.launches = 0;
  job.stack.expert_sync = false;
  job.stack.physics.launch_expert_s = 0;
  return job;
}

TEST(SmoothMax, IsNoLessThanTheLargerAndLittleMore) {
  for (const double b : {0.0, 0.1, 0.5, 0.9, 1.0, 1.1, 2.0, 100.0}) {
    EXPECT_GE(smooth_max(1, b), std::max(1.0, b));
    EXPECT_LE(smooth_max(1, b), std::max(1.0, b) * std::pow(2, 1.0 / 6) * (1 + 1e-12));
    EXPECT_DOUBLE_EQ(smooth_max(1, b), smooth_max(b, 1));
  }
  EXPECT_EQ(smooth_max(0, 0), 0);
}

TEST(LayerTime, TheBackwardPassHasTwiceTheProducts) {
  const PassTime pass = dense_layer(device_only(gpt_job()));
  EXPECT_NEAR(pass.backward[Part::products], 2 * pass.forward[Part::products], 0.2 * pass.forward[Part::products]);
  EXPECT_NEAR(pass.weight_s, pass.backward[Part::products] / 2, 0.1 * pass.backward[Part::products]);
}

TEST(LayerTime, FullRecomputeAddsTheForwardPassOnceMore) {
  spec::Job job = device_only(gpt_job());
  job.layout.tp = 4;
  job.stack.physics.recompute_share = 1;
  const PassTime kept = dense_layer(job);
  job.layout.recompute = spec::Recompute::full;
  const PassTime again = dense_layer(job);
  EXPECT_DOUBLE_EQ(again.backward[Part::recompute], kept.forward.total());
  EXPECT_NEAR(again.backward.total(), kept.backward.total() + kept.forward.total(), 1e-12);
  EXPECT_DOUBLE_EQ(again.forward.total(), kept.forward.total());
  EXPECT_DOUBLE_EQ(again.executed_flop, kept.executed_flop * 4 / 3);
}

TEST(LayerTime, RecomputeLayersScaleIt) {
  spec::Job job = device_only(gpt_job());
  job.layout.recompute = spec::Recompute::full;
  const double all = dense_layer(job).backward[Part::recompute];
  job.layout.recompute_layers = 6;  // of 24
  EXPECT_NEAR(dense_layer(job).backward[Part::recompute], all / 4, 1e-12);
  job.layout.pp = 4;  // of the 6 layers of a stage
  EXPECT_NEAR(dense_layer(job).backward[Part::recompute], all, 1e-12);
}

TEST(LayerTime, SelectiveRecomputeCostsLessThanFull) {
  for (const bool fused : {true, false}) {
    spec::Job job = device_only(gpt_job());
    job.stack.fused_attention = fused;
    job.layout.recompute = spec::Recompute::full;
    const double full = dense_layer(job).backward[Part::recompute];
    job.layout.recompute = spec::Recompute::selective;
    EXPECT_GT(dense_layer(job).backward[Part::recompute], 0);
    EXPECT_LT(dense_layer(job).backward[Part::recompute], 0.7 * full);
  }
}

TEST(LayerTime, OneTensorRankDoesNotTalk) { EXPECT_EQ(both(dense_layer(gpt_job()), Part::tensor), 0); }

TEST(LayerTime, TensorParallelismDividesTheProducts) {
  spec::Job job = device_only(gpt_job());
  job.model.hidden = 8192;
  job.model.ffn = 32768;
  job.model.attention = {.heads = 64, .kv_heads = 64, .head_dim = 128};
  const double whole = both(dense_layer(job), Part::products);
  job.layout.tp = 4;
  const double quarter = both(dense_layer(job), Part::products);
  EXPECT_GT(quarter, whole / 4);
  EXPECT_LT(quarter, 1.15 * whole / 4);
}

TEST(LayerTime, AParallelBlockHalvesTensorCommunication) {
  spec::Job job = gpt_job();
  job.layout.tp = 8;
  const PassTime serial = dense_layer(job);
  job.model.parallel_block = true;
  const PassTime parallel = dense_layer(job);
  EXPECT_DOUBLE_EQ(parallel.forward[Part::tensor], serial.forward[Part::tensor] / 2);
  EXPECT_DOUBLE_EQ(parallel.backward[Part::tensor], serial.backward[Part::tensor] / 2);
}

TEST(LayerTime, SequenceParallelismMovesTheSameVolumeForward) {
  spec::Job job = gpt_job();
  job.layout.tp = 8;
  job.layout.micro_batch = 8;
  const PassTime without = dense_layer(job);
  job.layout.sequence_parallel = true;
  const PassTime with = dense_layer(job);
  EXPECT_NEAR(with.forward[Part::tensor], without.forward[Part::tensor], 0.1 * without.forward[Part::tensor]);
  EXPECT_LT(both(with, Part::elements), both(without, Part::elements));
}

TEST(LayerTime, TensorCommunicationHidesByItsShare) {
  spec::Job job = gpt_job();
  job.layout.tp = 8;
  job.stack.physics.tp_hidden = 0.2;
  const double exposed = dense_layer(job).forward[Part::tensor];
  job.stack.physics.tp_hidden = 0.6;
  EXPECT_NEAR(dense_layer(job).forward[Part::tensor], exposed / 2, 1e-12);
  job.layout.async_tp = true;
  EXPECT_LT(dense_layer(job).forward[Part::tensor], exposed / 2);
}

TEST(LayerTime, TensorParallelismAcrossDomainsIsSlow) {
  spec::Job job = gpt_job();
  job.layout.tp = 8;
  const double inside = dense_layer(job).forward[Part::tensor];
  job.cluster.scale_up_domain = 4;
  EXPECT_GT(dense_layer(job).forward[Part::tensor], 1.5 * inside);
}

TEST(LayerTime, ContextParallelismDividesAttentionAndTalks) {
  spec::Job job = device_only(gpt_job());
  job.training.sequence = 32768;
  const PassTime whole = dense_layer(job);
  EXPECT_EQ(both(whole, Part::context), 0);
  job.layout.cp = 4;
  const PassTime quarter = dense_layer(job);
  EXPECT_NEAR(both(quarter, Part::attention), both(whole, Part::attention) / 4, 1e-9);
  EXPECT_GT(quarter.forward[Part::context], 0);
  EXPECT_DOUBLE_EQ(quarter.backward[Part::context], 2 * quarter.forward[Part::context]);
}

TEST(LayerTime, AWindowMakesAttentionCheap) {
  spec::Job job = device_only(gpt_job());
  job.training.sequence = 32768;
  job.model.attention.window = 1024;
  EXPECT_LT(both(dense_layer(job, true), Part::attention), both(dense_layer(job, false), Part::attention) / 10);
}

TEST(LayerTime, UnfusedAttentionIsSlower) {
  spec::Job job = device_only(gpt_job());
  const double fused = both(dense_layer(job), Part::attention);
  job.stack.fused_attention = false;
  EXPECT_GT(both(dense_layer(job), Part::attention), 1.5 * fused);
}

// BigScience measured heads of 150 (2 divides them, 8 does not) far slower than heads of 128.
TEST(LayerTime, AHeadWidthThatEightDoesNotDivideIsSlow) {
  spec::Job job = device_only(gpt_job());
  job.stack.fused_attention = false;
  job.model.attention.head_dim = 152;
  const double aligned = both(dense_layer(job), Part::attention);
  job.model.attention.head_dim = 150;
  EXPECT_GT(both(dense_layer(job), Part::attention), 1.5 * aligned);
}

TEST(LayerTime, Fp8HalvesProductsButCasts) {
  spec::Job job = device_only(gpt_job());
  job.model.hidden = 8192;
  job.model.ffn = 32768;
  job.cluster.device.peak_flop_per_s = {67e12, 494e12, 989e12, 989e12, 1979e12, 0};
  const PassTime half = dense_layer(job);
  job.training.precision = spec::Precision::fp8;
  const PassTime narrow = dense_layer(job);
  EXPECT_LT(both(narrow, Part::products), 0.75 * both(half, Part::products));
  EXPECT_GT(both(narrow, Part::elements), both(half, Part::elements));
  job.training.rowwise_scaling = true;
  EXPECT_GT(both(dense_layer(job), Part::products), both(narrow, Part::products));
}

TEST(LayerTime, AnIdleHostCostsNothing) {
  const PassTime pass = dense_layer(device_only(gpt_job()));
  EXPECT_EQ(both(pass, Part::launch), 0);
}

TEST(LayerTime, ASlowHostIsAFloor) {
  spec::Job job = gpt_job();
  job.stack.launches = 20;
  job.stack.physics.launch_s = 1e-3;  // far more than the layer computes
  const PassTime pass = dense_layer(job);
  EXPECT_GE(pass.forward.total(), 20e-3);
  EXPECT_LT(pass.forward.total(), 20.5e-3);
  EXPECT_GT(pass.backward.total(), pass.forward.total());
}

TEST(LayerTime, ABusyDeviceHidesTheHost) {
  spec::Job job = gpt_job();
  job.layout.micro_batch = 64;
  const PassTime pass = dense_layer(job);
  EXPECT_LT(both(pass, Part::launch), 0.001 * (pass.forward.total() + pass.backward.total()));
}

TEST(LayerTime, TensorRanksWaitForTheirSlowestHost) {
  spec::Job job = gpt_job();
  job.stack.physics.launch_s = 1e-3;
  const double alone = dense_layer(job).forward.total();
  job.layout.tp = 8;
  EXPECT_GT(dense_layer(job).forward.total(), alone + 0.5 * job.stack.physics.launch_tp_s);
}

TEST(LayerTime, ZeRO3ExposesSomethingAndNeverLessThanNothing) {
  spec::Job job = gpt_job();
  EXPECT_EQ(both(dense_layer(job), Part::shard), 0);
  job.layout.zero = 3;
  for (const int size : {1, 2, 4, 8, 16, 64}) {
    job.layout.micro_batch = size;
    const PassTime pass = dense_layer(job);
    EXPECT_GE(pass.forward[Part::shard], 0) << size;
    EXPECT_GE(pass.backward[Part::shard], 0) << size;
  }
}

TEST(LayerTime, ZeRO3HidesBehindComputation) {
  spec::Job job = device_only(gpt_job());
  job.layout.zero = 3;
  job.stack.physics.zero3_overlap = 0.01;
  const double small = both(dense_layer(job), Part::shard);
  job.layout.micro_batch = 32;
  EXPECT_LT(both(dense_layer(job), Part::shard), small / 5);
}

TEST(LayerTime, ZeRO3OnOneRankGathersNothing) {
  spec::Job job = gpt_job(1);
  job.layout.zero = 3;
  EXPECT_EQ(both(dense_layer(job), Part::shard), 0);
}

TEST(LayerTime, KeepingGatheredParametersGathersOnceForAllMicroBatches) {
  spec::Job job = device_only(gpt_job());
  job.layout.zero = 3;
  const PassTime twice = dense_layer(job);
  job.stack.reshard_after_forward = false;
  const PassTime once = dense_layer(job);
  EXPECT_LT(once.backward[Part::shard], twice.backward[Part::shard]);
  EXPECT_NEAR(once.forward[Part::shard] * spec::micro_batches(job), twice.forward[Part::shard], 1e-12);
}

TEST(LayerTime, ParkingActivationsShowsWhereTheHostIsSlow) {
  spec::Job job = device_only(gpt_job());
  job.layout.offload_activations = true;
  job.cluster.device.host_bytes_per_s = 1e15;
  EXPECT_EQ(both(dense_layer(job), Part::parking), 0);
  job.cluster.device.host_bytes_per_s = 1e9;
  EXPECT_GT(both(dense_layer(job), Part::parking), 0);
}

TEST(LayerTime, ExpertsOfOneRankNeedNoExchange) { EXPECT_EQ(both(expert_layer(mixture_job()), Part::expert), 0); }

TEST(LayerTime, SpreadExpertsExchangeTokens) {
  spec::Job job = mixture_job();
  job.layout.ep = 8;
  const PassTime inside = expert_layer(job);
  EXPECT_GT(inside.forward[Part::expert], 0);
  EXPECT_EQ(dense_layer(job).forward[Part::expert], 0);
  job.layout.ep = 16;
  EXPECT_GT(expert_layer(job).forward[Part::expert], 1.5 * inside.forward[Part::expert]);
}

TEST(LayerTime, ATwoLevelExchangeSendsATokenToANodeOnce) {
  spec::Job job = mixture_job();
  job.layout.ep = 16;
  job.model.experts.per_token = 8;
  const double plain = expert_layer(job).forward[Part::expert];
  job.stack.two_level_dispatch = true;
  EXPECT_LT(expert_layer(job).forward[Part::expert], plain / 2);
}

// Two experts of width 4,096 for a token are the work of one MLP of width 8,192.
TEST(LayerTime, ATokenPaysForTheExpertsThatItVisits) {
  spec::Job job = device_only(mixture_job());
  job.layout.micro_batch = 8;
  job.stack.physics.grouped_efficiency = 1;
  const PassTime dense = dense_layer(job);
  const PassTime experts = expert_layer(job);
  EXPECT_NEAR(experts.executed_flop, dense.executed_flop, 0.001 * dense.executed_flop);
  EXPECT_NEAR(both(experts, Part::products), both(dense, Part::products), 0.1 * both(dense, Part::products));
  job.model.experts.per_token = 4;
  EXPECT_GT(both(expert_layer(job), Part::products), 1.4 * both(experts, Part::products));
}

TEST(LayerTime, GroupedProductsAreLessEfficient) {
  spec::Job job = device_only(mixture_job());
  job.stack.physics.grouped_efficiency = 1;
  const double alike = both(expert_layer(job), Part::products);
  job.stack.physics.grouped_efficiency = 0.5;
  EXPECT_GT(both(expert_layer(job), Part::products), 1.2 * alike);
}

TEST(LayerTime, AHostThatReadsTokenCountsStallsTheDevice) {
  spec::Job job = device_only(mixture_job());
  job.stack.physics.launch_expert_s = 1e-3;
  job.stack.expert_sync = true;
  EXPECT_NEAR(expert_layer(job).forward[Part::launch], 1e-3, 1e-4);
}

TEST(HeadTime, IsThreeProductsOfTheVocabulary) {
  spec::Job job = gpt_job();
  const PassTime pass = head_time(job, model::shard_of(job));
  EXPECT_DOUBLE_EQ(pass.executed_flop, 3.0 * 2 * 2048 * 51200 * 2048);
  EXPECT_GT(pass.backward[Part::head], pass.forward[Part::head]);
  EXPECT_DOUBLE_EQ(both(pass, Part::head), pass.forward.total() + pass.backward.total());
}

TEST(HeadTime, TensorParallelismDividesIt) {
  spec::Job job = gpt_job();
  job.layout.micro_batch = 8;
  const double whole = both(head_time(job, model::shard_of(job)), Part::head);
  job.layout.tp = 4;
  EXPECT_NEAR(both(head_time(job, model::shard_of(job)), Part::head), whole / 4, 0.1 * whole / 4);
}

TEST(HeadTime, PredictionModulesUseItAgain) {
  spec::Job job = gpt_job();
  job.layout.micro_batch = 8;
  const double once = both(head_time(job, model::shard_of(job)), Part::head);
  job.model.mtp_layers = 1;
  // And a product joins two hidden vectors to one before the module.
  const double twice = both(head_time(job, model::shard_of(job)), Part::head);
  EXPECT_GT(twice, 2 * once);
  EXPECT_LT(twice, 2.5 * once);
}

TEST(EmbeddingTime, TalksOnlyWithTensorRanks) {
  spec::Job job = gpt_job();
  EXPECT_EQ(embedding_time(job, model::shard_of(job)).forward[Part::tensor], 0);
  job.layout.tp = 2;
  EXPECT_GT(embedding_time(job, model::shard_of(job)).forward[Part::tensor], 0);
}

}  // namespace
}  // namespace twinpod::plan
