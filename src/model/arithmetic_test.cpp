#include "model/arithmetic.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "spec/catalog.hpp"

namespace twinpod::model {
namespace {

const spec::Catalog& catalog() {
  static const spec::Catalog kCatalog(TWINPOD_CATALOG_DIR);
  return kCatalog;
}

spec::Model known(const std::string& name) {
  const Result<spec::Model> model = catalog().model(name);
  EXPECT_TRUE(model) << name << ": " << (model ? "" : model.error().message);
  return model ? *model : spec::Model{};
}

// A GPT of 12 h^2 + 13 h for each layer, without what stands around the layers.
spec::Model gpt(int layers, int hidden, int heads) {
  spec::Model model;
  model.layers = layers;
  model.hidden = hidden;
  model.ffn = 4 * hidden;
  model.vocab = 51200;
  model.attention.heads = model.attention.kv_heads = heads;
  model.attention.head_dim = hidden / heads;
  model.attention.bias = model.mlp_bias = true;
  model.tied_embeddings = true;
  return model;
}

TEST(Parameters, EqualWhatIsLoadedFromPublishedWeights) {
  const std::pair<const char*, double> counts[] = {
      {"gpt2", 124439808},          {"gpt2-xl", 1557611200},        {"llama2-7b", 6738415616},
      {"llama3-8b", 8030261248},    {"llama3-70b", 70553706496},    {"llama3-405b", 405853388800},
      {"mistral-7b", 7241732096},   {"mixtral-8x7b", 46702792704},  {"mixtral-8x22b", 140630071296},
      {"bloom-176b", 176247271424}, {"qwen2.5-7b", 7615616512},     {"deepseek-v3", 671026419200},
      {"gemma2-9b", 9241705984},    {"falcon-40b", 41303293952},    {"phi-2", 2779683840},
      {"gpt-j-6b", 6050882784},     {"gpt-neox-20b", 20554567680},  {"qwen3-30b-a3b", 30532122624},
      {"mpt-7b", 6649286656},       {"gpt-oss-120b", 116829156672}, {"qwen1.5-moe", 14315784192},
      {"dbrx", 131596523520},       {"deepseek-v2", 235741434880},  {"qwen2.5-0.5b", 494032768}};
  for (const auto& [name, count] : counts) EXPECT_EQ(parameters(known(name)).total, count) << name;
}

TEST(Parameters, OfEveryCatalogModelAreWithinHalfAPercentOfWhatItsMakersPrint) {
  // Printed with two or three digits only: 314B of 315.7B, 16B of 16.1B.
  const std::set<std::string> rounded = {"grok-1", "mcore-16b"};
  int checked = 0;
  for (const std::string& name : catalog().names(spec::Shelf::models)) {
    const spec::Model model = known(name);
    if (model.published_parameters <= 0) continue;
    const double limit = rounded.count(name) > 0 ? 0.01 : 0.005;
    EXPECT_NEAR(parameters(model).total / model.published_parameters, 1, limit) << name;
    ++checked;
  }
  EXPECT_GE(checked, 40);
}

TEST(Parameters, OfAGptLayerAreTwelveHiddenSquaredAndThirteenHidden) {
  const spec::Model model = gpt(1, 1024, 16);
  const ParameterCount count = parameters(model);
  EXPECT_EQ(count.attention + count.mlp + count.norms, 12.0 * 1024 * 1024 + 13.0 * 1024);
}

TEST(Parameters, NormsWithoutWeightsHaveNone) {
  spec::Model model = gpt(2, 1024, 16);
  model.norm_weight = false;
  EXPECT_EQ(parameters(model).norms, 0);
  EXPECT_EQ(parameters(model).final_norm, 0);
}

TEST(Parameters, SmallVectorsAreCounted) {
  spec::Model model = gpt(2, 1024, 16);
  const double plain = parameters(model).total;
  model.head_bias = true;
  EXPECT_EQ(parameters(model).total - plain, model.vocab);
  model.attention.sinks = true;
  EXPECT_EQ(parameters(model).total - plain, model.vocab + 2 * 16);
}

TEST(Parameters, RouterBiasAndSharedGateBelongToEachMixtureLayer) {
  spec::Model model = gpt(4, 1024, 16);
  model.experts.count = 8;
  model.experts.per_token = 2;
  model.experts.ffn = 512;
  model.experts.shared = 1;
  model.experts.first_dense_layers = 1;
  const double plain = parameters(model).total;
  model.experts.router_bias = true;
  EXPECT_EQ(parameters(model).total - plain, 3 * 8);
  model.experts.shared_gate = true;
  EXPECT_EQ(parameters(model).total - plain, 3 * (8 + 1024));
  EXPECT_EQ(parameters(model).router, 1024 * 8 + 8);
}

TEST(Parameters, OneTokenVisitsOnlyItsExperts) {
  const ParameterCount mixtral = parameters(known("mixtral-8x7b"));
  EXPECT_NEAR(mixtral.active, 12.88e9, 0.01e9);
  EXPECT_NEAR(parameters(known("deepseek-v3")).active, 37.55e9, 0.01e9);
  const ParameterCount dense = parameters(known("llama3-8b"));
  EXPECT_EQ(dense.active, dense.total);
}

TEST(ExpertLayers, AreCountedAsTheyAreAsked) {
  spec::Model model = gpt(13, 64, 4);
  model.experts.count = 4;
  for (const int every : {1, 2, 3}) {
    for (const int first : {0, 1, 3}) {
      model.experts.every = every;
      model.experts.first_dense_layers = first;
      int seen = 0;
      for (int layer = 0; layer <= model.layers; ++layer) {
        EXPECT_EQ(expert_layers_before(model, layer), seen) << every << ' ' << first << ' ' << layer;
        seen += is_expert_layer(model, layer) ? 1 : 0;
      }
      EXPECT_EQ(num_expert_layers(model), expert_layers_before(model, model.layers));
    }
  }
}

TEST(WindowedLayers, AreCountedAsTheyAreAsked) {
  spec::Model model = gpt(26, 64, 4);
  model.attention.window = 512;
  for (const int every : {0, 2, 6}) {
    model.attention.global_every = every;
    int seen = 0;
    for (int layer = 0; layer < model.layers; ++layer) seen += is_windowed_layer(model, layer) ? 1 : 0;
    EXPECT_EQ(num_windowed_layers(model), seen) << every;
  }
}

TEST(MeanContext, IsHalfTheSequenceOrLessInAWindow) {
  spec::Model model = gpt(2, 64, 4);
  model.attention.window = 1024;
  EXPECT_EQ(mean_context(model, 0, 4096), 2048);
  EXPECT_EQ(mean_context(model, 1, 1024), 512);
  EXPECT_EQ(mean_context(model, 1, 4096), 1024.0 * (4096 - 512) / 4096);
}

// Narayanan 2021, equation 3 over 4 (no recompute): 24 s h^2 for each layer and sequence, 4 s^2 h of attention over all
// keys (half of it causal), 2 s h V of logits.
TEST(ForwardFlop, OfAGptIsMegatronsFormulaWithCausalAttention) {
  const spec::Model model = gpt(96, 12288, 96);
  const double s = 2048;
  const double h = 12288;
  const ForwardFlop flop = forward_flop(model, s);
  EXPECT_DOUBLE_EQ(flop.products, 96 * 24 * h * h);
  EXPECT_DOUBLE_EQ(flop.attention, 96 * 4 * s * h / 2);
  EXPECT_DOUBLE_EQ(flop.head, 2 * h * 51200);
  EXPECT_DOUBLE_EQ(flop.total, flop.products + flop.attention + flop.head);
  EXPECT_DOUBLE_EQ(training_flop(model, s), 3 * flop.total);
}

TEST(ForwardFlop, OfProductsIsTwiceTheMatrixElementsThatATokenVisits) {
  for (const char* name : {"llama3-8b", "mixtral-8x7b", "qwen2.5-7b", "gemma2-9b", "deepseek-v2", "dbrx"}) {
    const spec::Model model = known(name);
    const ParameterCount count = parameters(model);
    const double tables = count.embedding + count.head;  // looked up, or counted as the head
    EXPECT_NEAR(forward_flop(model, 1024).products / (2 * (count.active - tables)), 1, 0.001) << name;
  }
}

}  // namespace
}  // namespace twinpod::model
