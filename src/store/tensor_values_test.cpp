#include "store/tensor_values.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>

#include "store/checkpoints.hpp"
#include "store/damage.hpp"
#include "store/memory_files.hpp"
#include "store/posix_files.hpp"
#include "store/safetensors.hpp"
#include "store/simulated_files.hpp"
#include "store/test_checkpoints.hpp"
#include "store/weights_file.hpp"

namespace twinpod::store {
namespace {

Manifest saved(Files& files, std::int64_t step, const TestLayout& layout) {
  const std::string name = save_step(files, "/s", step, layout).value();
  return read_manifest(files, "/s/" + name).value();
}

double number(const std::string& dtype, std::uint64_t bits) {
  const auto bytes = std::as_bytes(std::span(&bits, 1));
  return numbers_of(dtype, bytes.first(static_cast<std::size_t>(element_bytes(dtype)))).at(0);
}

TEST(StoreValues, EveryTypeIsRead) {
  EXPECT_EQ(number("F32", std::bit_cast<std::uint32_t>(1.5F)), 1.5);
  EXPECT_EQ(number("F64", std::bit_cast<std::uint64_t>(-2.5)), -2.5);
  EXPECT_EQ(number("BF16", 0x3fc0), 1.5);
  EXPECT_EQ(number("F16", 0x3e00), 1.5);
  EXPECT_EQ(number("I8", 0xff), -1);
  EXPECT_EQ(number("U8", 0xff), 255);
  EXPECT_EQ(number("I16", 0xffff), -1);
  EXPECT_EQ(number("U16", 0xffff), 65535);
  EXPECT_EQ(number("I32", 0xffffffff), -1);
  EXPECT_EQ(number("U32", 0xffffffff), 4294967295);
  EXPECT_EQ(number("I64", ~0ULL), -1);
  EXPECT_EQ(number("U64", 5), 5);
  EXPECT_EQ(number("BOOL", 1), 1);
}

// https://arxiv.org/abs/2209.05433, table 1.
TEST(StoreValues, EightBitFloatsAreThoseOfThePaper) {
  EXPECT_EQ(number("F8_E4M3", 0x7e), 448);
  EXPECT_EQ(number("F8_E4M3", 0x08), std::ldexp(1, -6));
  EXPECT_EQ(number("F8_E4M3", 0x81), -std::ldexp(1, -9));
  EXPECT_TRUE(std::isnan(number("F8_E4M3", 0x7f)));
  EXPECT_EQ(number("F8_E5M2", 0x7b), 57344);
  EXPECT_EQ(number("F8_E5M2", 0x01), std::ldexp(1, -16));
  EXPECT_TRUE(std::isinf(number("F8_E5M2", 0x7c)));
}

TEST(StoreValues, ASummaryIsThatOfTheWholeTensorWhateverTheLayout) {
  MemoryFiles files;
  const Manifest manifest = saved(files, 1, {.tp = 3, .dp = 2, .zero = true});
  const TensorSummary summary =
      summary_of({files, "/s/checkpoint-000001", manifest}, *find_tensor(manifest, "layers.0.norm")).value();
  EXPECT_EQ(summary.elements, 5);
  EXPECT_EQ(summary.min, 11000);
  EXPECT_EQ(summary.max, 11004);
  EXPECT_EQ(summary.mean, 11002);
  EXPECT_NEAR(summary.norm, std::sqrt(5.0 * 11002 * 11002 + 10), 1e-6);
}

TEST(StoreValues, TwoLayoutsOfOneStepDoNotDiffer) {
  MemoryFiles files;
  const Manifest a = saved(files, 1, {.tp = 3});
  const Manifest b = saved(files, 1, {.pp = 2, .dp = 2, .zero = true});
  const Difference difference =
      difference_of({files, "/s/checkpoint-000001", a}, {files, "/s/checkpoint-000002", b}).value();
  EXPECT_TRUE(difference.tensors.empty());
  EXPECT_TRUE(difference.state.empty());
  EXPECT_EQ(difference.num_same, 6);
}

TEST(StoreValues, DifferencesAreMeasured) {
  MemoryFiles files;
  const Manifest a = saved(files, 1, {});
  const Manifest b = saved(files, 2, {.tp = 2});
  const Difference difference =
      difference_of({files, "/s/checkpoint-000001", a}, {files, "/s/checkpoint-000002", b}).value();
  ASSERT_EQ(difference.tensors.size(), 5U) << "the empty one is the same";
  EXPECT_EQ(difference.tensors[0].name, "embedding");
  EXPECT_EQ(difference.tensors[0].num_different, 42);
  EXPECT_EQ(difference.tensors[0].max_absolute, 10000);
  EXPECT_EQ(difference.tensors[0].max_relative, 0.5);
  ASSERT_EQ(difference.state.size(), 2U);
  EXPECT_EQ(difference.state[1].key, "step");
  EXPECT_EQ(difference.state[1].b, "2");
}

TEST(StoreDamage, EveryBadExtentIsNamedWithItsTensors) {
  SimulatedFiles files;
  const Manifest manifest = saved(files, 1, {.tp = 2});
  const std::string folder = "/s/checkpoint-000001";
  EXPECT_TRUE(find_damages(files, folder).empty());
  const StoredTensor& tensor = *find_tensor(manifest, "layers.1.conv");
  const StoredRegion& stored = tensor.regions.at(1);
  (*files.contents(folder + "/" + manifest.shards[1].file))[static_cast<std::size_t>(stored.begin)] ^= std::byte{1};
  (*files.contents(folder + "/" + manifest.shards[0].file)).resize(100);
  const std::vector<Damage> damages = find_damages(files, folder);
  ASSERT_EQ(damages.size(), 3U) << "a cut shard, what is left of its extent, and one extent of the other";
  EXPECT_EQ(damages[0].problem, fmt::format("has 100 bytes, {} were written", manifest.shards[0].bytes));
  EXPECT_EQ(damages[1].extent, 1);
  EXPECT_EQ(damages[2].file, "shard-00001.safetensors");
  EXPECT_EQ(damages[2].extent, stored.begin / kTestExtentBytes);
  EXPECT_NE(std::find(damages[2].tensors.begin(), damages[2].tensors.end(), "layers.1.conv"), damages[2].tensors.end());
}

TEST(StoreWeights, ExportAndImportKeepEveryElement) {
  MemoryFiles files;
  const Manifest manifest = saved(files, 4, {.tp = 2, .pp = 2, .dp = 2, .zero = true});
  const std::string path = testing::TempDir() + "weights.safetensors";
  const Exported exported =
      export_weights({files, "/s/checkpoint-000001", manifest}, {.path = path, .replace = true}).value();
  EXPECT_EQ(exported.num_tensors, 6);
  const std::string name = import_weights({path}, files, "/s").value();
  std::filesystem::remove(path);
  Manifest again = read_manifest(files, "/s/" + name).value();
  EXPECT_EQ(again.state.step, 0);
  again.state.step = 4;
  EXPECT_EQ(check_step(files, "/s/" + name, again, {.tp = 3}), "");
}

TEST(StoreWeights, TheOptimizersTensorsAreLeftOutUnlessAskedFor) {
  MemoryFiles files;
  const float value = 1;
  const auto bytes = std::as_bytes(std::span(&value, 1));
  const std::string name = begin_checkpoint(files, "/s").value();
  const Manifest part =
      write_shard(files, "/s/" + name, shard_file(0),
                  {{"w", "F32", {1}, whole({1}), bytes}, {"optimizer.m.w", "F32", {1}, whole({1}), bytes}})
          .value();
  const std::string path = testing::TempDir() + "optimizer.safetensors";
  EXPECT_EQ(export_weights({files, "/s/" + name, part}, {.path = path})->num_tensors, 1);
  EXPECT_FALSE(export_weights({files, "/s/" + name, part}, {.path = path})) << "it is there";
  EXPECT_EQ(
      export_weights({files, "/s/" + name, part}, {.path = path, .optimizer = true, .replace = true})->num_tensors, 2);
  std::filesystem::remove(path);
}

TEST(StorePrune, KeepsTheNewestThoseOfAStepAndTheWholeOne) {
  std::vector<CheckpointInfo> infos;
  for (int number = 6; number >= 1; --number) {
    infos.push_back({.name = checkpoint_name(number),
                     .number = number,
                     .complete = number != 5,
                     .abandoned = number == 5,
                     .problem = "",
                     .step = number * 10});
  }
  using Names = std::vector<std::string>;
  const auto names = [](std::initializer_list<int> numbers) {
    Names all;
    for (const int number : numbers) all.push_back(checkpoint_name(number));
    return all;
  };
  EXPECT_EQ(plan_pruning(infos, {.keep = 2}).removed, names({5, 3, 2, 1}));
  EXPECT_EQ(plan_pruning(infos, {.keep = 0}).removed, names({5, 4, 3, 2, 1}));
  EXPECT_EQ(plan_pruning(infos, {.keep = 2, .every = 20}).removed, names({5, 3, 1}));
  EXPECT_EQ(plan_pruning(infos, {.keep = 1, .whole = checkpoint_name(3)}).removed, names({5, 4, 2, 1}));
  EXPECT_EQ(plan_pruning(infos, {.keep = 1, .below = 3}).removed, names({2, 1}));
}

}  // namespace
}  // namespace twinpod::store
