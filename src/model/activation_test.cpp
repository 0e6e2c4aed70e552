#include "model/activation.hpp"

#include <gtest/gtest.h>

#include "model/arithmetic.hpp"

namespace twinpod::model {
namespace {

using spec::Recompute;

// The models of Korthikanti et al. 2022, table 3: dropout, unfused attention, 16 bits.
struct Size {
  const char* name;
  int heads;
  int hidden;
  int micro_batch;
};
constexpr Size kSizes[] = {
    {"22B", 64, 6144, 4}, {"175B", 96, 12288, 1}, {"530B", 128, 20480, 1}, {"1T", 160, 25600, 1}};
constexpr double kSequence = 2048;

spec::Model gpt(const Size& size) {
  spec::Model model;
  model.hidden = size.hidden;
  model.ffn = 4 * size.hidden;
  model.attention.heads = model.attention.kv_heads = size.heads;
  model.attention.head_dim = size.hidden / size.heads;
  model.dropout = 0.1;
  model.vocab = 51200;
  return model;
}

Shard shard_for(const Size& size, int tp, bool sequence_parallel) {
  Shard shard;
  shard.tp = shard.etp = tp;
  shard.sequence_parallel = sequence_parallel;
  shard.micro_batch = size.micro_batch;
  shard.sequence = kSequence;
  return shard;
}

ActivationRules rules_for(Recompute recompute) {
  ActivationRules rules;
  rules.fused_attention = false;
  rules.recompute = recompute;
  return rules;
}

double bytes(const Size& size, int tp, bool sequence_parallel, Recompute recompute) {
  return layer_activation_bytes(gpt(size), shard_for(size, tp, sequence_parallel), LayerKind::dense,
                                rules_for(recompute));
}

double sbh(const Size& size) { return kSequence * size.micro_batch * size.hidden; }
double score_term(const Size& size) { return 5.0 * size.heads * kSequence / size.hidden; }  // 5 a s/h

TEST(Korthikanti, ALayerAloneStoresThirtyFourAndTheScores) {
  for (const Size& size : kSizes) {
    EXPECT_DOUBLE_EQ(bytes(size, 1, false, Recompute::none), sbh(size) * (34 + score_term(size))) << size.name;
  }
}

TEST(Korthikanti, TensorParallelismLeavesTen) {
  for (const Size& size : kSizes) {
    for (const int t : {2, 4, 8}) {
      EXPECT_DOUBLE_EQ(bytes(size, t, false, Recompute::none), sbh(size) * (10 + 24.0 / t + score_term(size) / t))
          << size.name;
    }
  }
}

TEST(Korthikanti, SequenceParallelismSplitsAllOfIt) {
  for (const Size& size : kSizes) {
    for (const int t : {2, 4, 8}) {
      EXPECT_DOUBLE_EQ(bytes(size, t, true, Recompute::none), sbh(size) / t * (34 + score_term(size))) << size.name;
    }
  }
}

TEST(Korthikanti, SelectiveRecomputeDropsTheScores) {
  for (const Size& size : kSizes) {
    EXPECT_DOUBLE_EQ(bytes(size, 8, true, Recompute::selective), 34 * sbh(size) / 8) << size.name;
    EXPECT_DOUBLE_EQ(bytes(size, 8, false, Recompute::selective), sbh(size) * (10 + 24.0 / 8)) << size.name;
  }
}

TEST(Korthikanti, FullRecomputeKeepsTheLayersInput) {
  for (const Size& size : kSizes) {
    EXPECT_DOUBLE_EQ(bytes(size, 8, false, Recompute::full), 2 * sbh(size)) << size.name;
    EXPECT_DOUBLE_EQ(bytes(size, 8, true, Recompute::full), 2 * sbh(size) / 8) << size.name;
  }
}

TEST(Korthikanti, SelectiveRecomputeSavesWhatThePaperPrints) {
  const auto saved = [](const Size& size) {
    return 1 - bytes(size, 1, false, Recompute::selective) / bytes(size, 1, false, Recompute::none);
  };
  EXPECT_NEAR(saved(kSizes[1]), 0.70, 0.005);  // GPT-3
  EXPECT_NEAR(saved(kSizes[2]), 0.65, 0.005);  // MT-NLG
}

// Section 6.1: "full" leaves about 10 % of the tensor-parallel baseline, both techniques together a fifth.
TEST(Korthikanti, SharesOfTheTensorParallelBaselineAreThoseOfThePaper) {
  for (const Size& size : kSizes) {
    const double baseline = bytes(size, 8, false, Recompute::none);
    EXPECT_LT(bytes(size, 8, true, Recompute::selective) / baseline, 0.205) << size.name;
    EXPECT_NEAR(bytes(size, 8, false, Recompute::full) / baseline, 0.09, 0.02) << size.name;
  }
}

TEST(LayerActivations, FusedAttentionStoresNoScores) {
  ActivationRules fused = rules_for(Recompute::none);
  fused.fused_attention = true;
  const Size& size = kSizes[1];
  const double with = layer_activation_bytes(gpt(size), shard_for(size, 8, true), LayerKind::dense, fused);
  const double rows = size.heads / 8.0 * kSequence;
  EXPECT_DOUBLE_EQ(with, 34 * sbh(size) / 8 + 4 * rows);
}

TEST(LayerActivations, WithoutDropoutThereAreNoMasks) {
  spec::Model model = gpt(kSizes[1]);
  model.dropout = 0;
  const Size& size = kSizes[1];
  const double with =
      layer_activation_bytes(model, shard_for(size, 1, false), LayerKind::dense, rules_for(Recompute::none));
  EXPECT_DOUBLE_EQ(with, sbh(size) * (32 + 2.0 * size.heads * kSequence / size.hidden));
}

TEST(LayerActivations, EightBitInputsSaveAByteForEachInputOfAProduct) {
  spec::Model model = gpt(kSizes[1]);
  model.dropout = 0;
  ActivationRules narrow = rules_for(Recompute::none);
  narrow.fused_attention = true;
  ActivationRules wide = narrow;
  narrow.narrow_inputs = true;
  const Shard shard = shard_for(kSizes[1], 1, false);
  const double saved = layer_activation_bytes(model, shard, LayerKind::dense, wide) -
                       layer_activation_bytes(model, shard, LayerKind::dense, narrow);
  EXPECT_DOUBLE_EQ(saved, sbh(kSizes[1]) * (2 + 4));  // two of width h, one of width 4 h
}

TEST(LayerActivations, Fp32TakesTwiceTheBytesWithoutMasks) {
  spec::Model model = gpt(kSizes[1]);
  model.dropout = 0;
  ActivationRules rules = rules_for(Recompute::none);
  const Shard shard = shard_for(kSizes[1], 2, false);
  const double half = layer_activation_bytes(model, shard, LayerKind::dense, rules);
  rules.element_bytes = 4;
  EXPECT_DOUBLE_EQ(layer_activation_bytes(model, shard, LayerKind::dense, rules), 2 * half);
}

TEST(LayerActivations, OperatorRecomputeKeepsAttentionAndEverySecondProduct) {
  spec::Model model = gpt(kSizes[1]);
  model.dropout = 0;
  model.gated_mlp = true;
  ActivationRules rules = rules_for(Recompute::selective);
  rules.fused_attention = rules.operators = true;
  const Shard shard = shard_for(kSizes[1], 1, false);
  const double elements =
      sbh(kSizes[1]) * (1 + 1 + 1 + 1 + 4 + 1);  // input, query, value, attention, gate, last product
  EXPECT_DOUBLE_EQ(layer_activation_bytes(model, shard, LayerKind::dense, rules), 2 * elements + 4 * kSequence * 96);
}

TEST(LayerActivations, FewerKeyHeadsThanRanksAreCopied) {
  spec::Model model = gpt(kSizes[1]);
  model.dropout = 0;
  model.attention.kv_heads = 8;
  ActivationRules rules = rules_for(Recompute::none);
  rules.fused_attention = true;
  const auto of = [&](int tp) {
    return layer_activation_bytes(model, shard_for(kSizes[1], tp, true), LayerKind::dense, rules);
  };
  EXPECT_DOUBLE_EQ(of(8), of(1) / 8);
  EXPECT_GT(of(16), of(1) / 16);
}

TEST(LayerActivations, ExpertsStoreWhatTheirTokensVisit) {
  spec::Model model = gpt(kSizes[0]);
  model.dropout = 0;
  model.gated_mlp = true;
  model.experts.count = 64;
  model.experts.per_token = 4;
  model.experts.ffn = 1024;
  ActivationRules rules = rules_for(Recompute::none);
  rules.fused_attention = true;
  Shard shard = shard_for(kSizes[0], 1, false);
  const double four = layer_activation_bytes(model, shard, LayerKind::experts, rules);
  model.experts.per_token = 8;
  const double eight = layer_activation_bytes(model, shard, LayerKind::experts, rules);
  EXPECT_DOUBLE_EQ(eight - four, 4 * shard.tokens() * (1024.0 * 6 + 6144.0 * 4));
  model.experts.capacity_factor = 1.5;
  EXPECT_GT(layer_activation_bytes(model, shard, LayerKind::experts, rules), eight);
  shard.ep = 8;  // others' tokens come, own ones go
  model.experts.capacity_factor = 0;
  EXPECT_DOUBLE_EQ(layer_activation_bytes(model, shard, LayerKind::experts, rules), eight);
}

TEST(LayerWorking, RecomputeMakesAgainWhatItDidNotKeep) {
  const Size& size = kSizes[1];
  const spec::Model model = gpt(size);
  const Shard shard = shard_for(size, 8, true);
  const auto both = [&](Recompute recompute) {
    return layer_activation_bytes(model, shard, LayerKind::dense, rules_for(recompute)) +
           layer_working_bytes(model, shard, LayerKind::dense, rules_for(recompute));
  };
  EXPECT_DOUBLE_EQ(both(Recompute::full), both(Recompute::none));
  EXPECT_DOUBLE_EQ(both(Recompute::selective), both(Recompute::none));
}

TEST(HeadActivations, HoldTheLogitsInAllTheirCopies) {
  const Size& size = kSizes[1];
  const spec::Model model = gpt(size);
  ActivationRules rules = rules_for(Recompute::none);
  rules.logit_bytes = 14;
  const double logits = kSequence * 51200 / 8;
  EXPECT_DOUBLE_EQ(head_activation_bytes(model, shard_for(size, 8, true), rules), 4 * sbh(size) / 8 + 14 * logits);
}

TEST(ActivationRules, ComeFromTheJob) {
  spec::Job job;
  job.training.precision = spec::Precision::fp8;
  job.layout.recompute = Recompute::selective;
  job.layout.tp = 2;
  job.stack.memory.split_logit_bytes = 22;
  job.stack.fused_attention = false;
  ActivationRules rules = activation_rules(job);
  EXPECT_TRUE(rules.narrow_inputs);
  EXPECT_FALSE(rules.fused_attention);
  EXPECT_EQ(rules.recompute, Recompute::selective);
  EXPECT_EQ(rules.element_bytes, 2);
  EXPECT_EQ(rules.logit_bytes, 22);
  job.stack.memory.fp8_activations = false;
  job.layout.tp = 1;
  rules = activation_rules(job);
  EXPECT_FALSE(rules.narrow_inputs);
  EXPECT_EQ(rules.logit_bytes, 14);
  job.training.precision = spec::Precision::fp32;
  EXPECT_EQ(activation_rules(job).element_bytes, 4);
}

}  // namespace
}  // namespace twinpod::model
