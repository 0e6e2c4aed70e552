#include "layout/check.hpp"

#include <gtest/gtest.h>

#include <string>

namespace twinpod::layout {
namespace {

// A model of 24 layers and 32 heads on 128 devices, which is valid as it stands.
spec::Job small_job() {
  spec::Job job;
  job.model.layers = 24;
  job.model.hidden = 4096;
  job.model.ffn = 16384;
  job.model.attention.heads = 32;
  job.model.attention.kv_heads = 8;
  job.model.attention.head_dim = 128;
  job.cluster.devices = 128;
  job.training.sequence = 4096;
  job.training.global_batch = 1024;
  return job;
}

std::string refusal(const spec::Job& job) {
  const Result<void> result = check(job);
  if (result) return "";
  EXPECT_EQ(result.error().kind, ErrorKind::infeasible);
  return result.error().message + "; " + result.error().hint;
}

TEST(LayoutCheck, AValidJobPasses) { EXPECT_EQ(refusal(small_job()), ""); }

TEST(LayoutCheck, WrittenDpMustMultiplyOut) {
  spec::Job job = small_job();
  job.layout.dp = 4;
  job.layout.tp = 8;
  job.layout.pp = 3;
  EXPECT_EQ(refusal(job),
            "layout: dp 4 × tp 8 × pp 3 = 96 ranks, but the cluster has 128; try pp 4 or dp 5 with 8 idle");
}

TEST(LayoutCheck, WrittenDpThatMultipliesOutPasses) {
  spec::Job job = small_job();
  job.layout.dp = 4;
  job.layout.tp = 8;
  job.layout.pp = 4;
  EXPECT_EQ(refusal(job), "");
}

TEST(LayoutCheck, OneCopyMustFitOnTheDevices) {
  spec::Job job = small_job();
  job.layout.tp = 8;
  job.layout.pp = 24;
  EXPECT_EQ(
      refusal(job),
      "layout: tp 8 × pp 24 = 192 ranks for one copy of the model, but the cluster has 128; try pp 16 or 192 devices");
}

TEST(LayoutCheck, CopiesMustDivideTheDevices) {
  spec::Job job = small_job();
  job.layout.tp = 8;
  job.layout.pp = 3;
  EXPECT_EQ(refusal(job),
            "layout: tp 8 × pp 3 = 24 ranks for one copy of the model, which do not divide 128 devices; "
            "try pp 2 or devices 120 with 8 idle");
}

TEST(LayoutCheck, TpMustDivideTheHeads) {
  spec::Job job = small_job();
  job.cluster.devices = 120;
  job.layout.tp = 6;
  EXPECT_EQ(refusal(job), "layout: tp 6 does not divide 32 heads with 8 key/value heads; try tp 4");
}

TEST(LayoutCheck, KeyValueHeadsAreCopiedWhenThereAreFewerThanRanks) {
  spec::Job job = small_job();
  job.layout.tp = 16;
  EXPECT_EQ(refusal(job), "");
}

TEST(LayoutCheck, KeyValueHeadsThatNeitherDivideNorAreDividedAreRefused) {
  spec::Job job = small_job();
  job.model.attention.kv_heads = 6;
  job.layout.tp = 8;
  EXPECT_EQ(refusal(job), "layout: tp 8 does not divide 32 heads with 6 key/value heads; try tp 2");
}

TEST(LayoutCheck, TpMustDivideTheWidths) {
  spec::Job job = small_job();
  job.model.ffn = 11004;
  job.layout.tp = 8;
  EXPECT_EQ(refusal(job), "layout: tp 8 does not divide hidden 4096 and ffn 11004; try tp 4");
}

TEST(LayoutCheck, EachStageHoldsALayer) {
  spec::Job job = small_job();
  job.layout.pp = 32;
  EXPECT_EQ(refusal(job), "layout: pp 32 needs at least 32 layers, but the model has 24; try pp 8");
}

TEST(LayoutCheck, LayersNeedNotDivideWithoutInterleaving) {
  spec::Job job = small_job();
  job.layout.pp = 16;
  EXPECT_EQ(refusal(job), "");
}

TEST(LayoutCheck, InterleavedChunksHoldEqualLayers) {
  spec::Job job = small_job();
  job.layout.pp = 8;
  job.layout.virtual_stages = 2;
  EXPECT_EQ(refusal(job),
            "layout: pp 8 × 2 chunks of a stage = 16 chunks do not divide 24 layers; try virtual_stages 1");
}

TEST(LayoutCheck, UnevenEndsCountAsLayers) {
  spec::Job job = small_job();
  job.model.layers = 30;
  job.layout.pp = 8;
  job.layout.virtual_stages = 2;
  job.layout.uneven_ends = true;
  EXPECT_EQ(refusal(job), "");
}

TEST(LayoutCheck, VirtualStagesNeedAPipeline) {
  spec::Job job = small_job();
  job.layout.virtual_stages = 2;
  EXPECT_EQ(refusal(job), "layout: 2 virtual_stages need a pipeline, but pp is 1; try virtual_stages 1 or pp 2");
}

TEST(LayoutCheck, InterleavedScheduleNeedsVirtualStages) {
  spec::Job job = small_job();
  job.layout.pp = 4;
  job.layout.schedule = spec::Schedule::interleaved;
  EXPECT_EQ(refusal(job),
            "layout: schedule interleaved needs at least 2 virtual_stages, but there is 1; "
            "try virtual_stages 2 or schedule 1f1b");
}

TEST(LayoutCheck, OtherSchedulesTakeNoVirtualStages) {
  spec::Job job = small_job();
  job.layout.pp = 4;
  job.layout.virtual_stages = 2;
  job.layout.schedule = spec::Schedule::zb_1p;
  EXPECT_EQ(refusal(job),
            "layout: schedule zb-1p sets its own chunks, but virtual_stages is 2; "
            "try virtual_stages 1 or schedule interleaved");
}

TEST(LayoutCheck, InterleavingNeedsWholeRoundsOfMicroBatches) {
  spec::Job job = small_job();
  job.layout.pp = 4;
  job.layout.virtual_stages = 2;
  job.training.global_batch = 32 * 6;
  EXPECT_EQ(refusal(job),
            "layout: 6 micro-batches with interleaving, which runs them in rounds of pp 4 (Megatron demands "
            "it); try global_batch 256 or virtual_stages 1");
}

TEST(LayoutCheck, ZbVFoldsTwoChunks) {
  spec::Job job = small_job();
  job.layout.pp = 8;
  job.layout.schedule = spec::Schedule::zb_v;
  EXPECT_EQ(refusal(job), "layout: pp 8 × 2 chunks of a stage = 16 chunks do not divide 24 layers; try pp 4");
}

TEST(LayoutCheck, DualPipeNeedsEvenStages) {
  spec::Job job = small_job();
  job.cluster.devices = 120;
  job.layout.pp = 3;
  job.layout.schedule = spec::Schedule::dualpipe;
  job.training.global_batch = 40 * 8;
  EXPECT_EQ(refusal(job), "layout: schedule dualpipe needs an even pp, but it is 3; try pp 4 or schedule 1f1b");
}

TEST(LayoutCheck, DualPipeNeedsMicroBatchesForBothDirections) {
  spec::Job job = small_job();
  job.layout.pp = 8;
  job.layout.schedule = spec::Schedule::dualpipe;
  job.training.global_batch = 16 * 10;
  EXPECT_EQ(refusal(job),
            "layout: schedule dualpipe needs an even number of micro-batches, at least 2 × pp = 16, but "
            "there are 10; try global_batch 256 or schedule 1f1b");
}

TEST(LayoutCheck, TheBatchIsAMultipleOfAllRanksShares) {
  spec::Job job = small_job();
  job.layout.micro_batch = 3;
  EXPECT_EQ(refusal(job),
            "layout: global_batch 1024 is no multiple of dp 128 × micro_batch 3 = 384 sequences; "
            "try global_batch 1152 or micro_batch 2");
}

TEST(LayoutCheck, ABatchSmallerThanOneShareIsRefused) {
  spec::Job job = small_job();
  job.training.global_batch = 64;
  EXPECT_EQ(refusal(job),
            "layout: global_batch 64 is no multiple of dp 128 × micro_batch 1 = 128 sequences; "
            "try global_batch 128");
}

TEST(LayoutCheck, ContextRanksTakeTwoChunksEach) {
  spec::Job job = small_job();
  job.layout.cp = 4;
  job.training.sequence = 4092;
  EXPECT_EQ(refusal(job), "layout: sequence 4092 is no multiple of 2 × cp 4; try sequence 4096");
}

TEST(LayoutCheck, SequenceParallelRanksShareTheTokens) {
  spec::Job job = small_job();
  job.layout.tp = 8;
  job.layout.sequence_parallel = true;
  job.training.sequence = 2044;
  EXPECT_EQ(refusal(job),
            "layout: sequence 2044 over cp 1 leaves 2044 tokens, which tp 8 does not divide "
            "(sequence_parallel splits them); try sequence 2048 or sequence_parallel false");
}

TEST(LayoutCheck, ADenseModelHasNoExpertsToSpread) {
  spec::Job job = small_job();
  job.layout.ep = 8;
  EXPECT_EQ(refusal(job), "layout: ep 8 spreads experts, but the model has none; try ep 1");
}

TEST(LayoutCheck, EpMustDivideTheExperts) {
  spec::Job job = small_job();
  job.model.experts.count = 8;
  job.model.experts.ffn = 4096;
  job.layout.ep = 6;
  EXPECT_EQ(refusal(job), "layout: ep 6 does not divide 8 experts; try ep 4");
}

TEST(LayoutCheck, EpMustDivideTheRanksOfAStage) {
  spec::Job job = small_job();
  job.model.experts.count = 64;
  job.model.experts.ffn = 4096;
  job.layout.pp = 8;
  job.layout.ep = 32;
  EXPECT_EQ(refusal(job),
            "layout: ep 32 × etp 1 = 32 ranks do not divide the dp 16 × cp 1 × tp 1 = 16 ranks of a stage; "
            "try ep 16");
}

TEST(LayoutCheck, TheShardGroupMustDivideTheDataRanks) {
  spec::Job job = small_job();
  job.layout.zero = 3;
  job.layout.shard_group = 24;
  EXPECT_EQ(refusal(job), "layout: shard_group 24 does not divide dp 128 × cp 1 = 128 ranks; try shard_group 16");
}

TEST(LayoutCheck, AShardGroupNeedsZero) {
  spec::Job job = small_job();
  job.layout.shard_group = 8;
  EXPECT_EQ(refusal(job),
            "layout: shard_group 8 says over which ranks ZeRO shards, but zero is 0; "
            "try zero 1 or shard_group 0");
}

// 128 devices in 16 nodes of 8.
spec::Job job_with_servers(int servers) {
  spec::Job job = small_job();
  job.layout.servers = servers;
  return job;
}

TEST(LayoutCheck, EachNodeMayHoldAServer) {
  EXPECT_EQ(refusal(job_with_servers(16)), "");
  EXPECT_EQ(refusal(job_with_servers(17)),
            "layout: servers 17, but 128 devices stand in 16 nodes, and a node holds one at most; try servers 16");
}

TEST(LayoutCheck, ANodeThatIsPartlyUsedMayHoldAServer) {
  spec::Job job = job_with_servers(2);
  job.cluster.devices = 12;
  job.training.global_batch = 120;
  EXPECT_EQ(refusal(job), "");
}

TEST(LayoutCheck, ServersHoldTheOptimizerStateInsteadOfZero) {
  spec::Job job = job_with_servers(4);
  job.layout.zero = 1;
  EXPECT_EQ(refusal(job),
            "layout: servers 4 with zero 1, but the servers hold the optimizer state; try zero 0 or servers 0");
}

TEST(LayoutCheck, ServersHoldTheOptimizerStateInsteadOfTheDevicesHost) {
  spec::Job job = job_with_servers(4);
  job.layout.offload_optimizer = true;
  EXPECT_EQ(refusal(job),
            "layout: servers 4 with offload_optimizer, but the servers hold the optimizer state; "
            "try offload_optimizer false or servers 0");
}

TEST(LayoutCheck, ServersLeaveNothingToAShardGroup) {
  spec::Job job = job_with_servers(4);
  job.layout.shard_group = 8;
  EXPECT_EQ(
      refusal(job),
      "layout: servers 4 with shard_group 8, but the servers hold the optimizer state; try shard_group 0 or servers 0");
}

TEST(LayoutCheck, ServersNeedSeveralCopiesOfTheModel) {
  spec::Job job = job_with_servers(1);
  job.cluster.devices = 32;
  job.layout.tp = 8;
  job.layout.pp = 4;
  EXPECT_EQ(
      refusal(job),
      "layout: servers 1 with dp 1, but servers add up the gradients of several copies of the model; try servers 0");
}

TEST(LayoutCheck, ServersAreNotNegative) {
  EXPECT_EQ(refusal(job_with_servers(-1)), "layout: servers is -1, but must be at least 0; ");
}

TEST(LayoutCheck, ZeroThreeMayBeUsedInAPipeline) {
  spec::Job job = small_job();
  job.layout.pp = 4;
  job.layout.zero = 3;
  EXPECT_EQ(refusal(job), "");
}

TEST(LayoutCheck, RecomputedLayersMustExist) {
  spec::Job job = small_job();
  job.layout.pp = 4;
  job.layout.recompute = spec::Recompute::full;
  job.layout.recompute_layers = 7;
  EXPECT_EQ(refusal(job),
            "layout: recompute_layers 7, but a stage holds at most 6; "
            "try recompute_layers 0, which means all of them");
}

TEST(LayoutCheck, SizesBelowOneAreRefused) {
  spec::Job job = small_job();
  job.layout.tp = 0;
  EXPECT_EQ(refusal(job), "layout: tp is 0, but must be at least 1; ");
}

TEST(LayoutCheck, TheLargestNumbersTheReaderLetsInDoNotOverflow) {
  spec::Job job = small_job();
  job.layout.dp = 10'000'000;
  job.layout.tp = 65'536;
  job.layout.pp = 65'536;
  job.layout.cp = 65'536;
  EXPECT_NE(refusal(job), "");
}

TEST(Divisors, AreSortedAndComplete) {
  EXPECT_EQ(divisors(36), (std::vector<std::int64_t>{1, 2, 3, 4, 6, 9, 12, 18, 36}));
  EXPECT_EQ(divisors(1), (std::vector<std::int64_t>{1}));
}

TEST(Divisors, NearestPrefersTheSmaller) {
  EXPECT_EQ(nearest_divisor(96, 10), 8);
  EXPECT_EQ(nearest_divisor(96, 1000), 96);
}

TEST(LayoutCheck, OffloadingNeedsALinkToTheHost) {
  spec::Job job = small_job();
  job.layout.offload_activations = true;
  EXPECT_NE(refusal(job).find("no link"), std::string::npos);
  job.cluster.device.host_bytes_per_s = 31.5e9;
  EXPECT_EQ(refusal(job), "");
}

}  // namespace
}  // namespace twinpod::layout
