#include <gtest/gtest.h>

#include "emit/facts.hpp"
#include "emit/known_names.hpp"
#include "emit/mcore.hpp"
#include "emit/test_jobs.hpp"
#include "model/arithmetic.hpp"
#include "program/schedule.hpp"

namespace twinpod::emit {
namespace {

using Flags = std::map<std::string, std::string>;

// The layers that "([0]*3+[1]*58)" or "1" gives experts to.
std::vector<int> expert_layers(std::string text, int layers) {
  std::vector<int> all;
  const std::regex run("\\[([01])\\]\\*([0-9]+)");
  for (std::smatch match; std::regex_search(text, match, run); text = match.suffix()) {
    all.insert(all.end(), static_cast<std::size_t>(std::stoi(match[2])), std::stoi(match[1]));
  }
  return all.empty() ? std::vector<int>(static_cast<std::size_t>(layers), 1) : all;
}

void read_experts(const Flags& flags, spec::Model& model) {
  spec::Experts& e = model.experts;
  e.count = number_of(flags, "--num-experts");
  if (e.count == 0) return;
  const std::vector<int> layers = expert_layers(flags.at("--moe-layer-freq"), model.layers);
  EXPECT_EQ(static_cast<int>(layers.size()), model.layers);
  while (layers[static_cast<std::size_t>(e.first_dense_layers)] == 0) ++e.first_dense_layers;
  e.per_token = number_of(flags, "--moe-router-topk");
  e.ffn = number_of(flags, "--moe-ffn-hidden-size");
  e.shared_ffn = number_of(flags, "--moe-shared-expert-intermediate-size");
  e.router_bias = flags.contains("--moe-router-enable-expert-bias");
  e.shared_gate = flags.contains("--moe-shared-expert-gate");
}

spec::Model model_from(const Flags& flags) {
  spec::Model model;
  model.layers = number_of(flags, "--num-layers");
  model.hidden = number_of(flags, "--hidden-size");
  model.ffn = number_of(flags, "--ffn-hidden-size");
  model.vocab = number_of(flags, "--vocab-size");
  model.max_sequence = number_of(flags, "--max-position-embeddings");
  model.gated_mlp = flags.contains("--swiglu");
  model.mlp_bias = model.attention.bias = !flags.contains("--disable-bias-linear");
  model.norm = flags.at("--normalization") == "RMSNorm" ? spec::Norm::rms_norm : spec::Norm::layer_norm;
  model.positions =
      flags.at("--position-embedding-type") == "rope" ? spec::Positions::rotary : spec::Positions::learned;
  model.tied_embeddings = !flags.contains("--untie-embeddings-and-output-weights");
  model.mtp_layers = number_of(flags, "--mtp-num-layers");
  spec::Attention& a = model.attention;
  a.heads = number_of(flags, "--num-attention-heads");
  a.kv_heads = number_of(flags, "--num-query-groups", a.heads);
  a.head_dim = number_of(flags, "--kv-channels");
  a.qkv_bias = flags.contains("--add-qkv-bias");
  a.kv_rank = number_of(flags, "--kv-lora-rank");
  a.q_rank = number_of(flags, "--q-lora-rank");
  a.rope_head_dim = number_of(flags, "--qk-pos-emb-head-dim");
  a.v_head_dim = number_of(flags, "--v-head-dim");
  a.qk_norm = a.kv_rank == 0 && flags.contains("--qk-layernorm");
  read_experts(flags, model);
  return model;
}

class EachMcoreJob : public testing::TestWithParam<NamedJob> {};

INSTANTIATE_TEST_SUITE_P(Megatron, EachMcoreJob, testing::ValuesIn(mcore_jobs()), test_name);

TEST_P(EachMcoreJob, FlagsAreKnown) {
  for (const auto& [flag, value] : flags_of(emitted(GetParam().text, "megatron"))) {
    EXPECT_TRUE(is_known("megatron", flag) || is_known("torchrun", flag)) << flag;
  }
}

TEST_P(EachMcoreJob, AxesMultiplyToTheRanksThatAreStarted) {
  const Flags flags = flags_of(emitted(GetParam().text, "megatron"));
  const int started = number_of(flags, "--nproc_per_node") * number_of(flags, "--nnodes");
  const int model = number_of(flags, "--tensor-model-parallel-size") *
                    number_of(flags, "--pipeline-model-parallel-size") * number_of(flags, "--context-parallel-size");
  EXPECT_EQ(started, job_of(GetParam().text).cluster.devices);
  EXPECT_EQ(started % model, 0);
  EXPECT_EQ(started / model, spec::data_parallel(job_of(GetParam().text)));
}

TEST_P(EachMcoreJob, BatchIsWholeMicroBatchesOfEachCopy) {
  const spec::Job job = job_of(GetParam().text);
  const Flags flags = flags_of(emitted(GetParam().text, "megatron"));
  const int share = number_of(flags, "--micro-batch-size") * spec::data_parallel(job);
  EXPECT_EQ(number_of(flags, "--global-batch-size"), share * spec::micro_batches(job));
  EXPECT_EQ(number_of(flags, "--global-batch-size"), static_cast<int>(job.training.global_batch));
}

TEST_P(EachMcoreJob, ShapeHasTheModelsParameters) {
  const spec::Model model = job_of(GetParam().text).model;
  const spec::Model written = model_from(flags_of(emitted(GetParam().text, "megatron")));
  EXPECT_EQ(model::parameters(written).total, model::parameters(model).total);
  EXPECT_EQ(model::parameters(written).mtp, model::parameters(model).mtp);
  EXPECT_EQ(model::parameters(written).active, model::parameters(model).active);
}

Flags flags_for(const std::string& name) {
  for (const NamedJob& job : mcore_jobs()) {
    if (job.name == name) return flags_of(emitted(job.text, "megatron"));
  }
  return {};
}

TEST(Megatron, InterleavingIsInVirtualStages) {
  EXPECT_EQ(flags_for("llama3-70b").at("--num-virtual-stages-per-pipeline-rank"), "5");
}

TEST(Megatron, EndsThatHoldALayerLessAreAccountedFor) {
  const Flags flags = flags_for("llama3-405b");
  EXPECT_TRUE(flags.contains("--account-for-embedding-in-pipeline-split"));
  EXPECT_TRUE(flags.contains("--account-for-loss-in-pipeline-split"));
  EXPECT_FALSE(flags.contains("--pipeline-model-parallel-layout"));
}

TEST(Megatron, LayersThatDoNotDivideAreListed) {
  EXPECT_EQ(flags_for("deepseek-v3").at("--pipeline-model-parallel-layout"),
            "'Et*4|t*4|t*4|t*4|t*4|t*4|t*4|t*4|t*4|t*4|t*4|t*4|t*4|t*3|t*3|t*3mL'");
  EXPECT_EQ(flags_for("qwen2.5-72b").at("--pipeline-model-parallel-layout"), "'Et*27|t*27|t*26L'");
}

TEST(Megatron, ListedStagesHoldAllLayers) {
  spec::Job job = job_of(mcore_jobs().front().text);
  for (int layers = 7; layers < 40; ++layers) {
    for (const bool last : {false, true}) {
      job.model.layers = layers;
      job.layout.pp = 7;
      job.layout.remainder_last = last;
      int total = 0;
      for (const int stage : program::layers_of_stages(job.model.layers, job.layout)) total += stage;
      EXPECT_EQ(total, layers);
    }
  }
}

TEST(Megatron, FirstLayersOfDeepSeekAreDense) {
  EXPECT_EQ(flags_for("deepseek-v3").at("--moe-layer-freq"), "'([0]*3+[1]*58");  // the reader stops at a parenthesis
}

TEST(Megatron, Zero1IsTheDistributedOptimizer) {
  const Flags flags = flags_for("llama3-70b");
  EXPECT_TRUE(flags.contains("--use-distributed-optimizer"));
  EXPECT_FALSE(flags.contains("--use-megatron-fsdp"));
}

TEST(Megatron, Zero0HasNoDistributedOptimizer) {
  EXPECT_FALSE(flags_for("gpt3-175b").contains("--use-distributed-optimizer"));
}

TEST(Megatron, Zero3IsMegatronFsdpWithItsCheckpoints) {
  const Flags flags = flags_for("llama3-8b");
  EXPECT_EQ(flags.at("--data-parallel-sharding-strategy"), "optim_grads_params");
  EXPECT_EQ(flags.at("--ckpt-format"), "fsdp_dtensor");
  EXPECT_TRUE(flags.contains("--use-megatron-fsdp"));
}

TEST(Megatron, FsdpLeavesConnectionsAloneAndTensorParallelNeedsOne) {
  const std::vector<NamedJob> jobs = mcore_jobs();
  EXPECT_NE(emitted(jobs[5].text, "megatron").find("unset CUDA_DEVICE_MAX_CONNECTIONS"), std::string::npos);
  EXPECT_NE(emitted(jobs[1].text, "megatron").find("export CUDA_DEVICE_MAX_CONNECTIONS=1"), std::string::npos);
}

TEST(Megatron, ShardGroupsAreInstancesOfTheOptimizer) {
  EXPECT_EQ(flags_for("mixtral-8x7b").at("--num-distributed-optimizer-instances"), "2");
}

TEST(Megatron, RecomputedLayersAreABlock) {
  const Flags flags = flags_for("qwen3-30b-a3b");
  EXPECT_EQ(flags.at("--recompute-method"), "block");
  EXPECT_EQ(flags.at("--recompute-num-layers"), "12");
}

TEST(Megatron, OffloadedOptimizerTakesTheCodePathItNeeds) {
  const Flags flags = flags_for("qwen3-30b-a3b");
  EXPECT_TRUE(flags.contains("--optimizer-cpu-offload"));
  EXPECT_TRUE(flags.contains("--use-precision-aware-optimizer"));
}

TEST(Megatron, StepsFollowFromTokens) {
  const std::string text = emitted(mcore_jobs()[1].text, "megatron");  // 15e12 / (512 · 8192)
  EXPECT_NE(text.find("TRAIN_ITERS=${TRAIN_ITERS:-3576279}"), std::string::npos);
}

TEST(Megatron, Fp8OnBlackwellIsInBlocks) {
  const Flags flags =
      flags_of(emitted("model: llama3-8b\ncluster: dgx-b200\ndevices: 8\nlayout: {zero: 1}\ntraining: {global_batch: "
                       "64, precision: fp8}\n",
                       "megatron"));
  EXPECT_EQ(flags.at("--fp8-recipe"), "mxfp8");
  EXPECT_EQ(flags_for("deepseek-v3").at("--fp8-recipe"), "tensorwise");
}

TEST(Megatron, GradientsOfTwoBytesAreReducedSo) {
  const std::string job = "model: llama3-8b\ncluster: dgx-h100\ndevices: 8\nlayout: {zero: 1}\n";
  EXPECT_TRUE(flags_of(emitted(job + "training: {global_batch: 64, gradient_bytes: 2}\n", "megatron"))
                  .contains("--grad-reduce-in-bf16"));
  EXPECT_TRUE(flags_of(emitted(job + "training: {global_batch: 64, gradient_bytes: 4}\n", "megatron"))
                  .contains("--accumulate-allreduce-grads-in-fp32"));
}

TEST(Megatron, SlidingWindowsAndSinks) {
  const Flags flags = flags_of(emitted(
      "model: gpt-oss-20b\ncluster: dgx-h100\ndevices: 8\nlayout: {ep: 8, zero: 1}\ntraining: {global_batch: 64}\n",
      "megatron"));
  EXPECT_EQ(flags.at("--window-size"), "128,0");
  EXPECT_EQ(flags.at("--window-attn-skip-freq"), "2");
  EXPECT_EQ(flags.at("--softmax-type"), "learnable");
}

}  // namespace
}  // namespace twinpod::emit
