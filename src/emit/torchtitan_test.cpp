#include <gtest/gtest.h>

#include "emit/flavors.hpp"
#include "emit/known_names.hpp"
#include "emit/test_jobs.hpp"
#include "model/arithmetic.hpp"

namespace twinpod::emit {
namespace {

using Settings = std::map<std::string, std::string>;

int number(const Settings& settings, const std::string& key) { return std::stoi(settings.at("config." + key)); }

class EachTorchtitanJob : public testing::TestWithParam<NamedJob> {};

INSTANTIATE_TEST_SUITE_P(Torchtitan, EachTorchtitanJob, testing::ValuesIn(torchtitan_jobs()), test_name);

TEST_P(EachTorchtitanJob, KeysAreKnown) {
  const std::string text = emitted(GetParam().text, "torchtitan");
  for (const auto& [key, value] : settings_of(text)) EXPECT_TRUE(is_known("torchtitan", key)) << key;
  for (const auto& [flag, value] : flags_of(text)) {
    EXPECT_TRUE(is_known("torchtitan", flag) || is_known("torchrun", flag)) << flag;
  }
}

TEST_P(EachTorchtitanJob, DegreesMultiplyToTheRanksThatAreStarted) {
  const std::string text = emitted(GetParam().text, "torchtitan");
  const Settings settings = settings_of(text);
  const auto flags = flags_of(text);
  const int degrees = number(settings, "parallelism.data_parallel_replicate_degree") *
                      number(settings, "parallelism.data_parallel_shard_degree") *
                      number(settings, "parallelism.tensor_parallel_degree") *
                      number(settings, "parallelism.context_parallel_degree") *
                      number(settings, "parallelism.pipeline_parallel_degree");
  EXPECT_EQ(degrees, number_of(flags, "--nproc_per_node") * number_of(flags, "--nnodes"));
  EXPECT_EQ(degrees, job_of(GetParam().text).cluster.devices);
}

TEST_P(EachTorchtitanJob, ExpertRanksComeFromTheShards) {
  const Settings settings = settings_of(emitted(GetParam().text, "torchtitan"));
  const int ranks = number(settings, "parallelism.data_parallel_shard_degree") *
                    number(settings, "parallelism.context_parallel_degree") *
                    number(settings, "parallelism.tensor_parallel_degree");
  EXPECT_EQ(ranks % number(settings, "parallelism.expert_parallel_degree"), 0);
}

// global = local × dp × accumulated, and a pipeline splits the local batch into all micro-batches of the step.
TEST_P(EachTorchtitanJob, BatchArithmeticHolds) {
  const spec::Job job = job_of(GetParam().text);
  const Settings settings = settings_of(emitted(GetParam().text, "torchtitan"));
  const int local = number(settings, "training.local_batch_size");
  const int global = number(settings, "training.global_batch_size");
  const int dp = number(settings, "parallelism.data_parallel_replicate_degree") *
                 number(settings, "parallelism.data_parallel_shard_degree");
  ASSERT_EQ(global % (local * dp), 0);
  const int accumulated = global / (local * dp);
  const bool pipeline = job.layout.pp > 1;
  const int micro = pipeline ? number(settings, "parallelism.pipeline_parallel_microbatch_size") : local;
  EXPECT_EQ(micro, job.layout.micro_batch);
  EXPECT_EQ(local % micro, 0);
  EXPECT_EQ(accumulated, pipeline ? 1 : global / (dp * job.layout.micro_batch));
  EXPECT_EQ(global, static_cast<int>(job.training.global_batch));
}

Settings settings_for(const std::string& name) {
  for (const NamedJob& job : torchtitan_jobs()) {
    if (job.name == name) return settings_of(emitted(job.text, "torchtitan"));
  }
  return {};
}

TEST(Torchtitan, FlavorsHaveTheShapesOfTheCatalog) {
  for (const Flavor& flavor : flavors()) {
    const Result<spec::Model> model = catalog().model(flavor.entry);
    ASSERT_TRUE(model) << flavor.entry;
    EXPECT_EQ(model->layers, flavor.layers) << flavor.entry;
    EXPECT_EQ(model->hidden, flavor.hidden) << flavor.entry;
    EXPECT_EQ(model->attention.heads, flavor.heads) << flavor.entry;
    EXPECT_EQ(model->attention.kv_heads, flavor.kv_heads) << flavor.entry;
    EXPECT_EQ(model->ffn, flavor.ffn) << flavor.entry;
    EXPECT_EQ(model->vocab, flavor.vocab) << flavor.entry;
    EXPECT_EQ(model->experts.count, flavor.experts) << flavor.entry;
    EXPECT_EQ(model->experts.ffn, flavor.expert_ffn) << flavor.entry;
  }
}

TEST(Torchtitan, Zero3DropsParametersAfterTheForwardPass) {
  EXPECT_EQ(settings_for("llama3-8b").at("config.parallelism.fsdp_reshard_after_forward"), "\"always\"");
  EXPECT_EQ(settings_for("llama3-70b").at("config.parallelism.fsdp_reshard_after_forward"), "\"never\"");
}

TEST(Torchtitan, ShardGroupsAreReplicated) {
  const Settings settings = settings_for("llama3-70b");
  EXPECT_EQ(number(settings, "parallelism.data_parallel_shard_degree"), 8);
  EXPECT_EQ(number(settings, "parallelism.data_parallel_replicate_degree"), 4);
}

TEST(Torchtitan, ChunksHoldTheLayersOfTheirShare) {
  const Settings settings = settings_for("llama3-405b");  // (126 + 2) / (8 · 2)
  EXPECT_EQ(number(settings, "parallelism.pipeline_parallel_layers_per_stage"), 8);
  EXPECT_EQ(number(settings, "parallelism.pipeline_parallel_first_stage_less_layers"), 1);
  EXPECT_EQ(settings.at("config.parallelism.pipeline_parallel_schedule"), "\"Interleaved1F1B\"");
}

TEST(Torchtitan, ZeroBubbleHasTwoChunksAndIsNotCompiled) {
  const Settings settings = settings_for("llama3.1-8b");
  EXPECT_EQ(settings.at("config.parallelism.pipeline_parallel_schedule"), "\"ZBVZeroBubble\"");
  EXPECT_EQ(number(settings, "parallelism.pipeline_parallel_layers_per_stage"), 4);
  EXPECT_EQ(settings.at("config.compile.enable"), "False");
}

TEST(Torchtitan, RecomputeIsAPolicy) {
  EXPECT_EQ(settings_for("qwen3-8b").at("config.activation_checkpoint"), "None");
  EXPECT_EQ(settings_for("llama3-8b").at("config.activation_checkpoint"), "SelectiveAC.Config()");
  EXPECT_EQ(settings_for("llama3-405b").at("config.activation_checkpoint"), "FullAC.Config()");
}

TEST(Torchtitan, Fp8OfExpertsHasItsConverter) {
  const std::string text = emitted(torchtitan_jobs()[3].text, "torchtitan");
  EXPECT_NE(text.find("Float8GroupedExpertsConverter.Config(model_compile_enabled=compiled)"), std::string::npos);
  EXPECT_NE(text.find("attn_backend=\"flex\""), std::string::npos);
}

TEST(Torchtitan, RowwiseScalingIsARecipe) {
  EXPECT_NE(emitted(torchtitan_jobs()[1].text, "torchtitan").find("recipe_name=\"rowwise\""), std::string::npos);
}

TEST(Torchtitan, AFlavorWithoutConfigurationStartsFromANeighbours) {
  const std::string text = emitted(torchtitan_jobs()[4].text, "torchtitan");
  EXPECT_NE(text.find("config_registry import qwen3_14b as base"), std::string::npos);
  EXPECT_NE(text.find("\"8B\""), std::string::npos);
}

// torchtitan's own configuration of 405B computes in FP8.
TEST(Torchtitan, A16BitModelIsBuiltAnewWhereTheBaseIsInFp8) {
  EXPECT_NE(emitted(torchtitan_jobs()[2].text, "torchtitan").find("model_registry(\n        \"405B\",\n    )"),
            std::string::npos);
}

TEST(Torchtitan, SaysThatPredictionModulesAreLeftOut) {
  EXPECT_NE(emitted(torchtitan_jobs()[3].text, "torchtitan").find("without the multi-token prediction"),
            std::string::npos);
}

}  // namespace
}  // namespace twinpod::emit
