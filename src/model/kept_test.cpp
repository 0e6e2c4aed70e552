#include "model/kept.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace twinpod::model {
namespace {

constexpr std::int64_t kAlignment = 64;  // bytes: a line of the cache

spec::Model model_of(bool llama) {
  spec::Model model;
  model.layers = 2;
  model.hidden = 20;
  model.ffn = 28;
  model.vocab = 61;
  model.attention = {.heads = 4, .kv_heads = llama ? 2 : 4, .head_dim = 5};
  model.gated_mlp = llama;
  model.norm = llama ? spec::Norm::rms_norm : spec::Norm::layer_norm;
  return model;
}

Shard shard_of(int tp, bool sequence_parallel) {
  Shard shard;
  shard.tp = tp;
  shard.sequence_parallel = sequence_parallel;
  shard.micro_batch = 2;
  shard.sequence = 10;
  return shard;
}

struct Place {
  std::int64_t offset;
  std::int64_t bytes;
};

std::vector<Place> places_in(const KeptLayer& kept, bool stored) {
  std::vector<Place> places;
  for (const KeptPlace& place : kept.places) {
    if (place.stored == stored) places.push_back({place.offset, place.bytes});
  }
  return places;
}

// Aligned, one behind the other, to the end of the buffer.
void expect_fills(const std::vector<Place>& places, std::int64_t bytes) {
  std::int64_t end = 0;
  for (const Place& place : places) {
    EXPECT_EQ(place.offset % kAlignment, 0);
    EXPECT_GE(place.offset, end);
    EXPECT_LT(place.offset, end + kAlignment);
    end = place.offset + place.bytes;
  }
  EXPECT_GE(bytes, end);
  EXPECT_LT(bytes, end + kAlignment);
}

TEST(Kept, FillsItsBuffersWithoutOverlap) {
  for (const bool llama : {false, true}) {
    for (const int element_bytes : {2, 4, 8}) {
      for (const Shard& shard : {shard_of(1, false), shard_of(2, false), shard_of(2, true)}) {
        for (const spec::Recompute recompute :
             {spec::Recompute::none, spec::Recompute::selective, spec::Recompute::full}) {
          for (const bool again : {false, true}) {
            const KeptLayer kept = kept_of_layer(model_of(llama), shard, {recompute, again, element_bytes});
            expect_fills(places_in(kept, true), kept.stored_bytes);
            expect_fills(places_in(kept, false), kept.working_bytes);
          }
        }
      }
    }
  }
}

TEST(Kept, OfAGptLayerIsWhatItsBackwardPassReads) {
  const KeptLayer kept = kept_of_layer(model_of(false), shard_of(1, false), {});
  EXPECT_EQ(kept[Kept::input].bytes, 20 * 20 * 4);
  EXPECT_EQ(kept[Kept::input_mean].bytes, 20 * 4);
  EXPECT_EQ(kept[Kept::qkv].bytes, 20 * 3 * 20 * 4);
  EXPECT_EQ(kept[Kept::attention_out].bytes, 20 * 20 * 4);
  EXPECT_EQ(kept[Kept::log_sums].bytes, 20 * 4 * 4);
  EXPECT_EQ(kept[Kept::inner].bytes, 20 * 28 * 4);
  EXPECT_EQ(kept[Kept::activated].bytes, 20 * 28 * 4);
  EXPECT_EQ(kept.working_bytes, 0);
}

TEST(Kept, OfALlamaLayerHasNoMeansFewerKeysAndGates) {
  const KeptLayer kept = kept_of_layer(model_of(true), shard_of(1, false), {});
  EXPECT_EQ(kept[Kept::input_mean].bytes, 0);
  EXPECT_EQ(kept[Kept::middle_mean].bytes, 0);
  EXPECT_EQ(kept[Kept::qkv].bytes, 20 * (20 + 2 * 10) * 4);
  EXPECT_EQ(kept[Kept::inner].bytes, 20 * 2 * 28 * 4);
}

TEST(Kept, IsDividedByTensorAndSequenceParallelism) {
  const KeptLayer whole = kept_of_layer(model_of(false), shard_of(1, false), {});
  const KeptLayer tensor = kept_of_layer(model_of(false), shard_of(2, false), {});
  const KeptLayer sequence = kept_of_layer(model_of(false), shard_of(2, true), {});
  for (const Kept which : {Kept::qkv, Kept::attention_out, Kept::log_sums, Kept::inner, Kept::activated}) {
    EXPECT_EQ(2 * tensor[which].bytes, whole[which].bytes);
    EXPECT_EQ(2 * sequence[which].bytes, whole[which].bytes);
  }
  for (const Kept which : {Kept::input, Kept::input_mean, Kept::input_scale, Kept::middle}) {
    EXPECT_EQ(tensor[which].bytes, whole[which].bytes);
    EXPECT_EQ(2 * sequence[which].bytes, whole[which].bytes);
  }
  // Inputs of products are needed whole.
  EXPECT_EQ(sequence[Kept::attention_in].bytes, whole[Kept::attention_in].bytes);
  EXPECT_EQ(sequence[Kept::mlp_in].bytes, whole[Kept::mlp_in].bytes);
}

TEST(Kept, WithFullRecomputationIsTheInputAlone) {
  const KeptRules rules{.recompute = spec::Recompute::full, .again = true};
  const KeptLayer kept = kept_of_layer(model_of(false), shard_of(1, false), rules);
  const KeptLayer all = kept_of_layer(model_of(false), shard_of(1, false), {});
  EXPECT_EQ(kept.stored_bytes, 20 * 20 * 4);
  EXPECT_EQ(kept.stored_bytes + kept.working_bytes, all.stored_bytes);
  // A layer that is not recomputed keeps all.
  const KeptLayer other = kept_of_layer(model_of(false), shard_of(1, false), {spec::Recompute::full, false, 4});
  EXPECT_EQ(other.stored_bytes, all.stored_bytes);
}

TEST(Kept, WithSelectiveRecomputationIsWithoutWhatOnePassMakesAgain) {
  const KeptRules rules{.recompute = spec::Recompute::selective};
  const KeptLayer kept = kept_of_layer(model_of(false), shard_of(2, false), rules);
  EXPECT_FALSE(kept[Kept::activated].stored);
  EXPECT_FALSE(kept[Kept::attention_in].stored);
  EXPECT_TRUE(kept[Kept::inner].stored);
  // What had to be gathered from other ranks stays.
  EXPECT_TRUE(kept_of_layer(model_of(false), shard_of(2, true), rules)[Kept::attention_in].stored);
}

TEST(Kept, WithScoresInMemoryHasThemInThePlaceOfTheirSums) {
  const KeptRules rules{.fuses_attention = false};
  const KeptLayer kept = kept_of_layer(model_of(false), shard_of(2, false), rules);
  const auto sequence = static_cast<std::int64_t>(shard_of(2, false).sequence);
  EXPECT_EQ(kept[Kept::log_sums].bytes, 0);
  EXPECT_EQ(kept[Kept::shares].bytes, 20 * sequence * 2 * 4);  // 2 heads on each rank
  EXPECT_TRUE(kept[Kept::shares].stored);
  const KeptRules selective{.recompute = spec::Recompute::selective, .fuses_attention = false};
  EXPECT_FALSE(kept_of_layer(model_of(false), shard_of(2, false), selective)[Kept::shares].stored);
  const Workspace fused = workspace_of(model_of(false), shard_of(2, false), 4);
  const Workspace space = workspace_of(model_of(false), shard_of(2, false), 4, false);
  EXPECT_EQ(space.scores, fused.bytes);
  EXPECT_EQ(space.bytes - fused.bytes, (kept[Kept::shares].bytes + 63) / 64 * 64);
}

TEST(KeptHead, InPlainPassesHasTwoCopiesOfTheLogits) {
  const KeptHead fused = kept_of_head(model_of(false), shard_of(2, true), 4);
  const KeptHead head = kept_of_head(model_of(false), shard_of(2, true), 4, false);
  const std::int64_t logits = (20 * 31 * 4 + 63) / 64 * 64;
  EXPECT_EQ(head.probabilities, fused.bytes);
  EXPECT_EQ(head.gradients, fused.bytes + logits);
  EXPECT_EQ(head.bytes, fused.bytes + 2 * logits);
}

TEST(Kept, StatisticsAreInFp32UnlessAllIsDouble) {
  EXPECT_EQ(kept_of_layer(model_of(false), shard_of(1, false), {.element_bytes = 2})[Kept::input_scale].bytes, 20 * 4);
  EXPECT_EQ(kept_of_layer(model_of(false), shard_of(1, false), {.element_bytes = 8})[Kept::input_scale].bytes, 20 * 8);
}

TEST(KeptHead, FollowsEachOtherWithoutOverlap) {
  const KeptHead head = kept_of_head(model_of(false), shard_of(2, true), 4);
  const std::int64_t tokens = 20;
  const std::int64_t rows = 10;
  expect_fills({{head.input, rows * 20 * 4},
                {head.mean, rows * 4},
                {head.scale, rows * 4},
                {head.normed, tokens * 20 * 4},
                {head.statistics, 3 * tokens * 2 * 4},
                {head.logits, tokens * 31 * 4}},  // of 61 words, one rank has 31
               head.bytes);
}

TEST(Workspace, HasRoomForTheWidestOfEachUse) {
  for (const bool llama : {false, true}) {
    const Workspace space = workspace_of(model_of(llama), shard_of(1, false), 4);
    const std::int64_t whole = 20 * 20 * 4;
    const std::int64_t attention = 20 * (20 + 2 * (llama ? 10 : 20)) * 4;
    const std::int64_t inner = 20 * 28 * (llama ? 2 : 1) * 4;
    expect_fills({{space.stream, whole},
                  {space.delta, whole},
                  {space.gradient, whole},
                  {space.gathered, 0},
                  {space.inward, whole},
                  {space.outer, 20 * 28 * 4},
                  {space.inner, std::max(attention, inner)}},
                 space.bytes);
  }
}

TEST(Workspace, WithSequenceParallelismGathersGradients) {
  const Workspace space = workspace_of(model_of(false), shard_of(2, true), 4);
  EXPECT_EQ(space.gathered - space.gradient, 13 * 64);  // 10 rows of 80 bytes, aligned
  EXPECT_EQ(space.inward - space.gathered, 20 * 20 * 4);
  EXPECT_EQ(transfer_elements(model_of(false), shard_of(2, true)), 10 * 20);
  EXPECT_EQ(transfer_elements(model_of(false), shard_of(2, false)), 20 * 20);
}

}  // namespace
}  // namespace twinpod::model
