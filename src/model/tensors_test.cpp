#include "model/tensors.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

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

// Each parameter once.
std::vector<Tensor> tensors_of(const spec::Model& model) {
  std::vector<Tensor> all = embedding_tensors(model);
  const auto add = [&](const std::vector<Tensor>& more) { all.insert(all.end(), more.begin(), more.end()); };
  for (int layer = 0; layer < model.layers; ++layer) add(layer_tensors(model, layer));
  add(head_tensors(model, !model.tied_embeddings));
  return all;
}

std::int64_t block_elements(const Tensor& tensor, int tp, int tp_rank) {
  std::int64_t sum = 0;
  for (const TensorBlock& block : blocks_of(tensor, tp, tp_rank)) sum += block.rows * block.columns;
  return sum;
}

// A model in which no size is a multiple of another by chance; four ranks can share it.
spec::Model odd_model(bool llama) {
  spec::Model model;
  model.layers = 2;
  model.hidden = 20;
  model.ffn = 28;
  model.vocab = 61;
  model.max_sequence = 9;
  model.attention = {.heads = 8, .kv_heads = llama ? 4 : 8, .head_dim = 3, .bias = !llama};
  model.gated_mlp = llama;
  model.mlp_bias = !llama;
  model.norm = llama ? spec::Norm::rms_norm : spec::Norm::layer_norm;
  model.positions = llama ? spec::Positions::rotary : spec::Positions::learned;
  model.tied_embeddings = !llama;
  return model;
}

// How often the ranks' blocks touch each element.
std::vector<int> touches(const Tensor& tensor, int tp) {
  std::vector<int> count(static_cast<std::size_t>(tensor.rows() * tensor.columns), 0);
  for (int rank = 0; rank < tp; ++rank) {
    for (const TensorBlock& block : blocks_of(tensor, tp, rank)) {
      EXPECT_GE(block.rows, 0);
      EXPECT_LE(block.first_row + block.rows, tensor.rows());
      EXPECT_LE(block.first_column + block.columns, tensor.columns);
      for (std::int64_t r = block.first_row; r < block.first_row + block.rows; ++r)
        for (std::int64_t c = block.first_column; c < block.first_column + block.columns; ++c)
          ++count[static_cast<std::size_t>(r * tensor.columns + c)];
    }
  }
  return count;
}

TEST(Tensors, BlocksOfAllRanksCoverEachElementOnce) {
  for (const bool llama : {false, true}) {
    for (const int tp : {1, 2, 4}) {
      for (const Tensor& tensor : tensors_of(odd_model(llama))) {
        const int expected = tensor.split == Split::none ? tp : 1;
        for (const int count : touches(tensor, tp)) ASSERT_EQ(count, expected) << tensor.name << ", tp " << tp;
      }
    }
  }
}

TEST(Tensors, QueriesKeysAndValuesAreDividedEachForItself) {
  const spec::Model model = odd_model(true);
  for (const Tensor& tensor : layer_tensors(model, 0)) {
    if (tensor.name != "layers.0.attention.qkv.weight") continue;
    const std::vector<TensorBlock> blocks = blocks_of(tensor, 2, 1);  // 24 queries, 12 keys, 12 values
    ASSERT_EQ(blocks.size(), 3U);
    EXPECT_EQ(blocks[0].first_row, 12);
    EXPECT_EQ(blocks[0].rows, 12);
    EXPECT_EQ(blocks[1].first_row, 24 + 6);
    EXPECT_EQ(blocks[1].rows, 6);
    EXPECT_EQ(blocks[2].first_row, 36 + 6);
    return;
  }
  FAIL() << "no tensor of queries, keys and values";
}

TEST(Tensors, AnOddVocabularyLeavesTheLastRankLessAndAllTheSameRoom) {
  const Tensor table = embedding_tensors(odd_model(false)).back();
  ASSERT_EQ(table.name, "embedding.tokens");
  EXPECT_EQ(block_elements(table, 4, 0), 16 * 20);
  EXPECT_EQ(block_elements(table, 4, 3), 13 * 20);
  EXPECT_EQ(local_elements(table, 4), 16 * 20);
  // More ranks than rows: some have nothing.
  Tensor small = table;
  small.parts = {3};
  EXPECT_EQ(block_elements(small, 4, 3), 0);
  for (const int count : touches(small, 4)) EXPECT_EQ(count, 1);
}

TEST(Tensors, OfAModelAreAllItsParametersWhateverTheRanks) {
  for (const char* name : {"gpt2", "gpt2-xl", "llama2-7b", "llama3-8b", "llama3-70b", "mistral-7b", "qwen2.5-7b",
                           "qwen2.5-0.5b", "gpt3-175b"}) {
    const spec::Model model = known(name);
    for (const int tp : {1, 2, 4}) {
      std::int64_t sum = 0;
      for (const Tensor& tensor : tensors_of(model)) {
        const int ranks = tensor.split == Split::none ? 1 : tp;  // what all hold counts once
        if (tensor.split == Split::rows && tensor.parts.back() % tp != 0) sum = -1;
        for (int rank = 0; rank < ranks; ++rank) sum += block_elements(tensor, tp, rank);
      }
      EXPECT_EQ(static_cast<double>(sum), parameters(model).total) << name << ", tp " << tp;
    }
  }
}

TEST(Tensors, HaveNamesOfTheirOwn) {
  for (const bool llama : {false, true}) {
    std::set<std::string> names;
    for (const Tensor& tensor : tensors_of(odd_model(llama)))
      EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
  }
}

TEST(Tensors, MatricesAndTablesDecayAndTheRestDoesNot) {
  for (const bool llama : {false, true}) {
    for (const Tensor& tensor : tensors_of(odd_model(llama)))
      EXPECT_EQ(tensor.decays, tensor.columns > 1) << tensor.name;
  }
}

TEST(Tensors, ATiedHeadOnAnotherStageCopiesTheTable) {
  const spec::Model model = odd_model(false);
  EXPECT_EQ(head_tensors(model, true).back().name, "embedding.tokens");
  EXPECT_EQ(head_tensors(model, false).size() + 1, head_tensors(model, true).size());
  EXPECT_EQ(head_tensors(odd_model(true), true).back().name, "head.weight");
}

TEST(FlatPlaces, FollowEachOtherAlignedAndWithoutOverlap) {
  for (const bool llama : {false, true}) {
    for (const int tp : {1, 2, 4}) {
      for (const std::int64_t shards : {1, 3, 8}) {
        const std::vector<Tensor> tensors = layer_tensors(odd_model(llama), 1);
        const FlatPlaces places = flat_places(tensors, tp, shards);
        ASSERT_EQ(places.offsets.size(), tensors.size());
        std::int64_t end = 0;
        for (std::size_t i = 0; i < tensors.size(); ++i) {
          EXPECT_GE(places.offsets[i], end) << tensors[i].name;
          EXPECT_LT(places.offsets[i], end + kFlatAlignment) << tensors[i].name;
          EXPECT_EQ(places.offsets[i] % kFlatAlignment, 0);
          end = places.offsets[i] + local_elements(tensors[i], tp);
        }
        EXPECT_GE(places.elements, end);
        EXPECT_LT(places.elements, end + kFlatAlignment * (shards + 1));
        EXPECT_EQ(places.elements % (kFlatAlignment * shards), 0);
      }
    }
  }
}

TEST(FlatPlaces, BeginWithWhatEveryRankHolds) {
  for (const bool llama : {false, true}) {
    for (const std::vector<Tensor>& tensors : {embedding_tensors(odd_model(llama)), layer_tensors(odd_model(llama), 0),
                                               head_tensors(odd_model(llama), true)}) {
      const FlatPlaces places = flat_places(tensors, 2, 1);
      for (std::size_t i = 0; i < tensors.size(); ++i)
        EXPECT_EQ(places.offsets[i] < places.whole, tensors[i].split == Split::none) << tensors[i].name;
    }
  }
}

}  // namespace
}  // namespace twinpod::model
