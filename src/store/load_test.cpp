#include "store/load.hpp"

#include <gtest/gtest.h>

#include "store/checkpoints.hpp"
#include "store/simulated_files.hpp"
#include "store/test_checkpoints.hpp"

namespace twinpod::store {
namespace {

const std::vector<TestLayout> kLayouts = {
    {},
    {.dp = 3},
    {.tp = 2},
    {.tp = 3, .dp = 2},
    {.pp = 2},
    {.tp = 2, .pp = 3},
    {.dp = 4, .zero = true},
    {.tp = 2, .dp = 3, .zero = true},
    {.pp = 2, .dp = 5, .zero = true},
    {.tp = 4, .pp = 2, .dp = 2, .zero = true},
};

TEST(StoreLoad, SavedInAnyOfTenLayoutsLoadedInAnyOfTen) {
  SimulatedFiles files;
  for (std::size_t i = 0; i < kLayouts.size(); ++i) {
    const Result<std::string> name = save_step(files, "/s", static_cast<std::int64_t>(i) + 1, kLayouts[i]);
    ASSERT_TRUE(name) << to_string(name.error());
    const Manifest manifest = read_manifest(files, "/s/" + *name).value();
    for (const TestLayout& layout : kLayouts) EXPECT_EQ(check_step(files, "/s/" + *name, manifest, layout), "");
  }
}

// Ten rows of 64 bytes, one shard each extent holds about a row.
TEST(StoreLoad, OnlyExtentsWithWantedElementsAreRead) {
  SimulatedFiles files;
  ASSERT_TRUE(files.make_folder("/f"));
  const std::vector<float> values(10000, 1.0F);
  const Dims shape = {1000, 10};
  const Manifest manifest =
      write_shard(files, "/f", "x", {{"w", "F32", shape, whole(shape), std::as_bytes(std::span(values))}}, 64).value();
  std::vector<float> row(10);
  const Result<std::int64_t> read =
      load_regions(files, "/f", manifest, {{"w", "F32", {{500, 0}, {1, 10}}, std::as_writable_bytes(std::span(row))}});
  ASSERT_TRUE(read);
  EXPECT_LE(*read, 128);
  EXPECT_EQ(row, std::vector<float>(10, 1.0F));
}

TEST(StoreLoad, RegionsThatOverlapAreReadOnceEach) {
  SimulatedFiles files;
  ASSERT_TRUE(files.make_folder("/f"));
  const std::vector<float> values = {0, 1, 2, 3, 4, 5};
  const std::span<const float> all(values);
  const std::vector<HeldRegion> held = {{"w", "F32", {6}, {{0}, {4}}, std::as_bytes(all.first(4))},
                                        {"w", "F32", {6}, {{2}, {4}}, std::as_bytes(all.subspan(2))}};
  const Manifest manifest = write_shard(files, "/f", "x", held).value();
  std::vector<float> loaded(6, -1);
  ASSERT_TRUE(
      load_regions(files, "/f", manifest, {{"w", "F32", {{0}, {6}}, std::as_writable_bytes(std::span(loaded))}}));
  EXPECT_EQ(loaded, values);
}

TEST(StoreLoad, WrongWishesAreRefused) {
  SimulatedFiles files;
  ASSERT_TRUE(save_step(files, "/s", 1, {}));
  const std::string folder = "/s/checkpoint-000001";
  const Manifest manifest = read_manifest(files, folder).value();
  std::vector<std::byte> bytes(20);
  const auto refusal = [&](const std::string& tensor, const std::string& dtype, const Region& region) {
    const Result<std::int64_t> read = load_regions(files, folder, manifest, {{tensor, dtype, region, bytes}});
    return read ? "" : to_string(read.error());
  };
  EXPECT_EQ(refusal("layers.0.norm", "F32", {{0}, {5}}), "");
  EXPECT_EQ(refusal("layers.0.norn", "F32", {{0}, {5}}),
            "the checkpoint has no tensor layers.0.norn\n  did you mean layers.0.norm?");
  EXPECT_EQ(refusal("layers.0.norm", "BF16", {{0}, {5}}), "tensor layers.0.norm is F32, but BF16 was expected");
  EXPECT_EQ(refusal("layers.0.norm", "F32", {{1}, {5}}), "tensor layers.0.norm [5] has no region [1:6]");
  EXPECT_EQ(refusal("layers.0.norm", "F32", {{1}, {4}}),
            "tensor layers.0.norm [1:5]: room for 20 bytes, but it has 16");
}

TEST(StoreLoad, DamagedBytesAreNotUsed) {
  SimulatedFiles files;
  ASSERT_TRUE(save_step(files, "/s", 1, {}));
  const std::string folder = "/s/checkpoint-000001";
  const Manifest manifest = read_manifest(files, folder).value();
  files.contents(folder + "/shard-00000.safetensors")->back() ^= std::byte{1};
  EXPECT_NE(check_step(files, folder, manifest, {}), "");
}

}  // namespace
}  // namespace twinpod::store
