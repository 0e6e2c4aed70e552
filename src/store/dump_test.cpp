// Checkpoints of four layouts, for the public library to read: tests/store_safetensors.sh.
#include <gtest/gtest.h>

#include <filesystem>

#include "store/checkpoints.hpp"
#include "store/direct_files.hpp"
#include "store/test_checkpoints.hpp"

namespace twinpod::store {
namespace {

TEST(StoreDump, ShardsOfFourLayoutsAreThereForOthers) {
  const std::string folder = testing::TempDir() + "store_shards";
  std::filesystem::remove_all(folder);
  DirectFiles files;
  int number = 0;
  for (const TestLayout& layout : {TestLayout{}, TestLayout{.tp = 2, .pp = 2}, TestLayout{.tp = 3, .dp = 2},
                                   TestLayout{.tp = 2, .dp = 3, .zero = true}}) {
    const std::string root = fmt::format("{}/{}", folder, ++number);
    ASSERT_TRUE(save_step(files, root, number, layout));
    const WholeCheckpoint found = newest_whole(files, root).value();
    EXPECT_EQ(check_step(files, root + "/" + found.name, found.manifest, {}), "");
  }
}

}  // namespace
}  // namespace twinpod::store
