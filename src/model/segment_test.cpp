#include "model/segment.hpp"

#include <gtest/gtest.h>

#include <string>

#include "model/arithmetic.hpp"
#include "spec/catalog.hpp"

namespace twinpod::model {
namespace {

spec::Model known(const std::string& name) {
  static const spec::Catalog kCatalog(TWINPOD_CATALOG_DIR);
  const Result<spec::Model> model = kCatalog.model(name);
  EXPECT_TRUE(model) << name;
  return model ? *model : spec::Model{};
}

double product_flop(const LayerWork& work) {
  return work.attention_gemms.flop() + work.mlp_gemms.flop() + work.expert_gemms.flop();
}

// FLOPs of one micro-batch's forward pass on all ranks of a tensor-parallel group.
double group_flop(const spec::Model& model, const Shard& shard) {
  double total = 0;
  for (int layer = 0; layer < model.layers; ++layer) {
    const LayerKind kind = is_expert_layer(model, layer) ? LayerKind::experts : LayerKind::dense;
    const LayerWork work = layer_work(model, shard, kind, is_windowed_layer(model, layer));
    total += product_flop(work) + work.attention.causal_flop();
  }
  return (total + head_work(model, shard).logits.flop()) * shard.tp;
}

TEST(LayerWork, ListsTheProductsThatForwardFlopCounts) {
  for (const char* name :
       {"gpt3-175b", "llama3-8b", "gemma2-9b", "mistral-7b", "mixtral-8x7b", "dbrx", "deepseek-v2"}) {
    const spec::Model model = known(name);
    Shard shard;
    shard.micro_batch = 2;
    shard.sequence = 4096;
    const double expected = forward_flop(model, 4096).total * shard.tokens();
    EXPECT_NEAR(group_flop(model, shard) / expected, 1, 1e-9) << name;
  }
}

TEST(LayerWork, TensorParallelismSharesItOutWithoutRest) {
  for (const char* name : {"gpt3-175b", "llama3-70b", "mixtral-8x7b"}) {
    const spec::Model model = known(name);
    for (const int tp : {1, 2, 4, 8}) {
      Shard shard;
      shard.tp = shard.etp = tp;
      shard.sequence = 2048;
      const double expected = forward_flop(model, 2048).total * shard.tokens();
      EXPECT_NEAR(group_flop(model, shard) / expected, 1, 1e-9) << name << " tp " << tp;
    }
  }
}

TEST(LayerWork, KeyAndValueHeadsFewerThanRanksAreCopied) {
  const spec::Model model = known("llama3-70b");  // 8 of them
  Shard shard;
  shard.sequence = 1024;
  shard.tp = 8;
  const double at_eight = layer_work(model, shard, LayerKind::dense, false).attention_gemms.flop();
  shard.tp = 16;
  const double at_sixteen = layer_work(model, shard, LayerKind::dense, false).attention_gemms.flop();
  EXPECT_GT(at_sixteen, at_eight / 2);
  const double copied = 2.0 * 1024 * 8192 * 128;  // of each of the two
  EXPECT_DOUBLE_EQ(at_sixteen - at_eight / 2, copied);
}

TEST(LayerWork, ContextParallelismSplitsTokensAndKeepsAllKeys) {
  const spec::Model model = known("llama3-8b");
  Shard shard;
  shard.sequence = 8192;
  const LayerWork whole = layer_work(model, shard, LayerKind::dense, false);
  shard.cp = 4;
  const LayerWork part = layer_work(model, shard, LayerKind::dense, false);
  EXPECT_DOUBLE_EQ(product_flop(part), product_flop(whole) / 4);
  EXPECT_DOUBLE_EQ(part.attention.causal_flop(), whole.attention.causal_flop() / 4);
  EXPECT_DOUBLE_EQ(part.attention.keys, 8192);
}

TEST(LayerWork, ExpertParallelismMovesTokensAndKeepsTheWork) {
  const spec::Model model = known("mixtral-8x7b");
  Shard shard;
  shard.sequence = 4096;
  const double alone = layer_work(model, shard, LayerKind::experts, false).expert_gemms.flop();
  shard.ep = 8;
  EXPECT_DOUBLE_EQ(layer_work(model, shard, LayerKind::experts, false).expert_gemms.flop(), alone);
}

TEST(LayerWork, CapacityPadsTheExperts) {
  spec::Model model = known("mixtral-8x7b");
  Shard shard;
  shard.sequence = 4096;
  const double dropless = layer_work(model, shard, LayerKind::experts, false).expert_gemms.flop();
  model.experts.capacity_factor = 1.25;
  EXPECT_DOUBLE_EQ(layer_work(model, shard, LayerKind::experts, false).expert_gemms.flop(), 1.25 * dropless);
}

TEST(LayerWork, AWindowShortensTheContext) {
  const spec::Model model = known("gemma2-9b");
  Shard shard;
  shard.sequence = 8192;
  const LayerWork global = layer_work(model, shard, LayerKind::dense, false);
  const LayerWork local = layer_work(model, shard, LayerKind::dense, true);
  EXPECT_LT(local.attention.causal_flop(), global.attention.causal_flop());
  EXPECT_DOUBLE_EQ(product_flop(local), product_flop(global));
}

TEST(Shard, ComesFromTheLayout) {
  spec::Job job;
  job.layout.tp = 4;
  job.layout.cp = 2;
  job.layout.micro_batch = 3;
  job.training.sequence = 4096;
  const Shard shard = shard_of(job);
  EXPECT_EQ(shard.etp, 4);
  EXPECT_EQ(shard.tokens(), 3 * 4096 / 2);
  job.layout.etp = 1;
  EXPECT_EQ(shard_of(job).etp, 1);
}

}  // namespace
}  // namespace twinpod::model
