#include <gtest/gtest.h>

#include "spec/read.hpp"
#include "spec/test_catalog.hpp"

namespace twinpod::spec {
namespace {

Result<Job> read(const std::string& text) {
  const TestCatalog files;
  return read_job_text(text, "job.yaml", files.catalog());
}

Job accepted(const std::string& text) {
  const Result<Job> job = read("model: tiny\ncluster: pod\n" + text);
  EXPECT_TRUE(job.has_value()) << to_string(job.error());
  return job.value_or(Job{});
}

// The text starts in line 3.
Error refused(const std::string& text) {
  const Result<Job> job = read("model: tiny\ncluster: pod\n" + text);
  EXPECT_FALSE(job.has_value()) << text;
  return job ? Error{} : job.error();
}

TEST(ReadJob, NamesAreEnough) {
  const Job job = accepted("");
  EXPECT_EQ(job.model.entry, "tiny");
  EXPECT_EQ(job.cluster.devices, 64);
  EXPECT_EQ(job.stack.name, "nemo-2025");
  EXPECT_EQ(job.stack.physics.gemm_efficiency_bf16, 0.8) << "resolved for the cluster's device";
  EXPECT_EQ(job.training.sequence, 128) << "the model's";
  EXPECT_EQ(job.training.precision, Precision::bf16);
  EXPECT_EQ(job.name, "Tiny on 64 x Dev 80");
}

TEST(ReadJob, EveryKeyOfTheLayoutIsRead) {
  const Layout l =
      accepted(
          "layout: {dp: 2, tp: 2, pp: 4, virtual_stages: 2, cp: 2, ep: 2, etp: 1, sequence_parallel: true, "
          "zero: 1, shard_group: 2, micro_batch: 3, recompute: full, recompute_layers: 1, schedule: gpipe, "
          "offload_optimizer: true, offload_activations: true, uneven_ends: true, async_tp: true, overlap: false}")
          .layout;
  EXPECT_EQ(l.dp, 2);
  EXPECT_EQ(l.tp, 2);
  EXPECT_EQ(l.pp, 4);
  EXPECT_EQ(l.virtual_stages, 2);
  EXPECT_EQ(l.cp, 2);
  EXPECT_EQ(l.ep, 2);
  EXPECT_EQ(l.etp, 1);
  EXPECT_EQ(l.zero, 1);
  EXPECT_EQ(l.shard_group, 2);
  EXPECT_EQ(l.micro_batch, 3);
  EXPECT_EQ(l.recompute, Recompute::full);
  EXPECT_EQ(l.recompute_layers, 1);
  EXPECT_EQ(l.schedule, Schedule::gpipe);
  EXPECT_TRUE(l.sequence_parallel && l.offload_optimizer && l.offload_activations && l.uneven_ends && l.async_tp);
  EXPECT_EQ(l.overlap, false);
  EXPECT_FALSE(accepted("layout: {tp: 2}").layout.overlap.has_value()) << "as the stack does";
}

TEST(ReadJob, EveryKeyOfTheTrainingIsRead) {
  const Training t = accepted(
                         "training: {global_batch: 96, sequence: 64, precision: fp16, rowwise_scaling: true, "
                         "pure_low_precision: true, optimizer: adafactor, gradient_bytes: 2, tokens: 300 B, "
                         "target_loss: 2.5, bytes_per_token: 4}")
                         .training;
  EXPECT_EQ(t.global_batch, 96);
  EXPECT_EQ(t.sequence, 64);
  EXPECT_EQ(t.precision, Precision::fp16);
  EXPECT_TRUE(t.rowwise_scaling && t.pure_low_precision);
  EXPECT_EQ(t.optimizer, Optimizer::adafactor);
  EXPECT_EQ(t.gradient_bytes, 2);
  EXPECT_EQ(t.tokens, 300e9);
  EXPECT_EQ(t.target_loss, 2.5);
  EXPECT_EQ(t.bytes_per_token, 4);
}

TEST(ReadJob, DropoutAndFusionsThatAreOffAreRead) {
  const Recipe recipe =
      accepted("training: {dropout: 10%, attention_dropout: 0.2, unfused: [attention, optimizer]}").training.recipe;
  EXPECT_DOUBLE_EQ(recipe.dropout, 0.1);
  EXPECT_DOUBLE_EQ(recipe.attention_dropout, 0.2);
  EXPECT_FALSE(fuses(recipe, Fusion::attention));
  EXPECT_FALSE(fuses(recipe, Fusion::optimizer));
  EXPECT_TRUE(fuses(recipe, Fusion::bias_gelu));
  const Recipe none = accepted("training: {unfused: [all]}").training.recipe;
  EXPECT_FALSE(fuses(none, Fusion::bias_gelu));
  EXPECT_FALSE(fuses(none, Fusion::rotary));
  EXPECT_NE(refused("training: {unfused: [atention]}").message.find("bias_gelu, residual_norm, cross_entropy"),
            std::string::npos);
  EXPECT_NE(refused("training: {dropout: 1}").message, "");
  EXPECT_FALSE(none.whole_gradients);
  EXPECT_TRUE(accepted("training: {whole_gradients: true}").training.recipe.whole_gradients);
}

TEST(ReadJob, CheckpointsGoToAFolderOrToTiers) {
  const Checkpoint folder = accepted("checkpoint: {every: 200, store: runs/a}").checkpoint;
  EXPECT_EQ(folder.every, 200);
  ASSERT_EQ(folder.store.size(), 1U);
  EXPECT_EQ(folder.store[0].kind, TierKind::shared);
  EXPECT_EQ(folder.store[0].path, "runs/a");
  EXPECT_EQ(folder.on_error, OnError::go_on);
  const Checkpoint tiers = accepted(
                               "checkpoint: {every: 20, on_error: stop, store: [{tier: memory, keep: 1}, {tier: peer}, "
                               "{tier: local, path: /d}, {tier: object, path: s3, every: 5, keep: 3}]}")
                               .checkpoint;
  ASSERT_EQ(tiers.store.size(), 4U);
  EXPECT_EQ(tiers.store[0].keep, 1);
  EXPECT_EQ(tiers.store[2].path, "/d");
  EXPECT_EQ(tiers.store[3].kind, TierKind::object);
  EXPECT_EQ(tiers.store[3].every, 5);
  EXPECT_EQ(tiers.store[3].keep, 3);
  EXPECT_EQ(tiers.on_error, OnError::stop);
  for (const char* text : {"store: []", "store: [a]", "store: {tier: local}", "store: [{tier: tape, path: a}]",
                           "every: -1", "store: [{tier: local, path: a, every: 0}]", "evry: 2"}) {
    refused(std::string("checkpoint: {") + text + "}");
  }
}

TEST(ReadJob, DefaultBatchIsTheMultipleNearestToFourMillionTokens) {
  // 4e6 / 128 = 31250 sequences; 64 ranks of 1 share 31232 (488 each), which is nearer than 31296.
  EXPECT_EQ(accepted("").training.global_batch, 31232);
  EXPECT_EQ(accepted("layout: {tp: 8, micro_batch: 3}").training.global_batch, 31248);
  EXPECT_EQ(accepted("training: {sequence: 100000000}").training.global_batch, 64) << "at least one micro-batch each";
}

TEST(ReadJob, DefaultBatchOfAnInterleavedScheduleIsWholeRounds) {
  // 32 ranks of 1, rounds of 2 micro-batches: a multiple of 64 next to 31250.
  EXPECT_EQ(accepted("layout: {pp: 2, virtual_stages: 2}").training.global_batch, 31232);
  EXPECT_EQ(accepted("layout: {pp: 16, virtual_stages: 2, tp: 4}").training.global_batch, 31248);
}

TEST(ReadJob, BatchInTokensIsRoundedToWhatTheRanksCanShare) {
  EXPECT_EQ(accepted("training: {global_batch_tokens: 16 k}").training.global_batch, 128);
  EXPECT_NE(refused("training: {global_batch_tokens: 1 M, global_batch: 8}").message.find("both"), std::string::npos);
}

TEST(ReadJob, InterleavingFollowsFromVirtualStages) {
  EXPECT_EQ(accepted("layout: {pp: 2, virtual_stages: 2}").layout.schedule, Schedule::interleaved);
  EXPECT_EQ(accepted("layout: {pp: 2}").layout.schedule, Schedule::one_f_one_b);
}

TEST(ReadJob, StackMayRecomputeByDefault) {
  EXPECT_EQ(accepted("stack: other").layout.recompute, Recompute::selective);
  EXPECT_EQ(accepted("stack: other\nlayout: {recompute: none}").layout.recompute, Recompute::none);
}

TEST(ReadJob, PrecisionFollowsFromTheDevice) {
  EXPECT_EQ(accepted("").training.precision, Precision::bf16);
  const Result<Job> old = read("model: tiny\ncluster: {device: old, devices: 1}\n");
  EXPECT_EQ(old->training.precision, Precision::fp16);
  const Error error = refused("training:\n  precision: fp8\n");
  EXPECT_EQ(to_string(error), "job.yaml:4:14: Dev 80 does not compute in fp8\n  it computes in fp32 fp16 bf16");
}

TEST(ReadJob, TableOfLearnedPositionsGrowsWithTheSequence) {
  EXPECT_EQ(accepted("training: {sequence: 512}").model.max_sequence, 512);
  EXPECT_EQ(accepted("training: {sequence: 64}").model.max_sequence, 128);
}

TEST(ReadJob, StackCanBeChangedInPlace) {
  const Job job = accepted(
      "stack: {base: nemo-2025, fused_attention: false, fixed: {wave_weight: 3}, "
      "parameters: {pace: 1.1}}");
  EXPECT_FALSE(job.stack.fused_attention);
  EXPECT_EQ(job.stack.physics.wave_weight, 3);
  EXPECT_EQ(job.stack.physics.pace, 1.1);
  EXPECT_EQ(job.stack.physics.tp_hidden, 0.5) << "of the base's trait";
}

TEST(ReadJob, StackCanBeAFile) {
  const TestCatalog files;
  files.write("mine.yaml", "base: nemo-2025\nname: Mine\nparameters: {pace: 1.2}\n");
  const Result<Job> job =
      read_job_text("model: tiny\ncluster: pod\nstack: mine.yaml\n", files.folder() + "/job.yaml", files.catalog());
  ASSERT_TRUE(job.has_value()) << to_string(job.error());
  EXPECT_EQ(job->stack.name, "mine");
  EXPECT_EQ(job->stack.physics.pace, 1.2);
}

TEST(ReadJob, MoreDevicesThanTheClusterHasAreRefused) {
  EXPECT_EQ(accepted("devices: 32").cluster.devices, 32);
  EXPECT_EQ(to_string(refused("devices: 65")),
            "job.yaml:3:10: the job uses 65 devices, but Pod has 64\n  write at most 64, or a larger cluster");
}

TEST(ReadJob, MissingPartsAreNamed) {
  EXPECT_EQ(read("cluster: pod\n").error().message, "the job has no `model`, which it needs");
  EXPECT_EQ(read("model: tiny\n").error().message, "the job has no `cluster`, which it needs");
  EXPECT_EQ(read("").error().line, 1);
  EXPECT_EQ(read("just text").error().message, "the job is `just text`; expected a mapping");
}

TEST(ReadJob, MistakesAreRefusedWhereTheyStand) {
  for (const char* text : {"layuot: {tp: 8}",
                           "layout: {tp: 0}",
                           "layout: {tp: 65537}",
                           "layout: {zero: 4}",
                           "layout: {zero: -1}",
                           "layout: {micro_batch: 0}",
                           "layout: {recompute: some}",
                           "layout: {schedule: 1F1B}",
                           "layout: 8",
                           "layout: {recompute_layers: 2}",
                           "layout: {sequence_parallel: 1}",
                           "training: {optimizer: adamw}",
                           "training: {global_batch: 0}",
                           "training: {global_batch: 1.5}",
                           "training: {tokens: -1}",
                           "training: {tokens: .inf}",
                           "training: {sequence: 0}",
                           "training: []",
                           "stack: megatorn-core",
                           "stack: []",
                           "devices: many",
                           "name: [a]",
                           "stack: {fused_attention: true}",
                           "stack: {base: other, traits: fast}"}) {
    const Error error = refused(text);
    EXPECT_EQ(error.file, "job.yaml") << text;
    EXPECT_EQ(error.line, 3) << text;
    EXPECT_GE(error.column, 1) << text;
    EXPECT_EQ(error.kind, ErrorKind::input) << text;
  }
}

TEST(ReadJob, ModelWithoutALengthNeedsOneInTheTraining) {
  const std::string model = "model: {layers: 1, hidden: 8, ffn: 8, vocab: 8, attention: {heads: 1}}\ncluster: pod\n";
  EXPECT_NE(read(model).error().message.find("`sequence`"), std::string::npos);
  EXPECT_EQ(read(model + "training: {sequence: 16}").value().training.sequence, 16);
}

TEST(ReadJob, WidestLayoutDoesNotOverflow) {
  const Job job = accepted("layout: {tp: 65536, pp: 65536, cp: 65536}");
  EXPECT_EQ(data_parallel(job), 0);
  EXPECT_GE(job.training.global_batch, 1);
}

}  // namespace
}  // namespace twinpod::spec
