#include "store/direct_files.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "store/aligned.hpp"
#include "store/checkpoints.hpp"
#include "store/test_checkpoints.hpp"

namespace twinpod::store {
namespace {

struct Scratch {
  const std::string root = testing::TempDir() + "direct_files_test";
  Scratch() {
    std::filesystem::remove_all(root);
    std::filesystem::create_directories(root);
  }
  ~Scratch() { std::filesystem::remove_all(root); }
};

Bytes pattern(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 131 + i / 4096);
  return bytes;
}

// In parts from aligned memory, with the ring and without.
class StoreDirect : public testing::TestWithParam<bool> {};

TEST_P(StoreDirect, EveryByteArrivesWhateverTheLength) {
  const Scratch scratch;
  DirectFiles files({.ring = GetParam()});
  PosixFiles plain;
  constexpr std::size_t kPart = 64 << 10;
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{1}, kPart, kPart + 5, 7 * kPart + 4096, 9 * kPart + 4097}) {
    const Bytes expected = pattern(length);
    const std::string path = scratch.root + "/" + fmt::to_string(length);
    const File file = files.create(path).value();
    std::vector<AlignedBytes> parts;
    for (std::size_t at = 0; at < length; at += kPart) {
      parts.emplace_back(kPart);
      const std::size_t count = std::min(kPart, length - at);
      std::copy_n(expected.begin() + static_cast<std::ptrdiff_t>(at), count, parts.back().data());
      ASSERT_TRUE(files.begin_write(file, static_cast<std::int64_t>(at), parts.back().first(count)));
      ASSERT_TRUE(files.wait(file, 2));
    }
    ASSERT_TRUE(files.sync(file));
    ASSERT_TRUE(files.close(file));
    EXPECT_EQ(std::filesystem::file_size(path), length) << "what was allocated ahead is gone";
    EXPECT_EQ(read_whole(plain, path, 1 << 30).value(), expected);

    const File again = files.open(path).value();
    AlignedBytes whole_file(length + 1);
    ASSERT_TRUE(files.begin_read(again, 0, whole_file.first(length)));
    ASSERT_TRUE(files.wait(again, 0));
    ASSERT_TRUE(files.close(again));
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), whole_file.data()));
  }
}

TEST_P(StoreDirect, AReadBehindTheEndIsAnError) {
  const Scratch scratch;
  DirectFiles files({.ring = GetParam()});
  ASSERT_TRUE(write_new_file(files, scratch.root + "/short", pattern(10000)));
  const File file = files.open(scratch.root + "/short").value();
  AlignedBytes bytes(16384);
  Result<void> read = files.begin_read(file, 0, bytes.first(16384));
  if (read) read = files.wait(file, 0);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("ends at byte 10000"), std::string::npos) << read.error().message;
  EXPECT_TRUE(files.wait(file, 0)) << "it was said once";
  ASSERT_TRUE(files.close(file));
}

TEST_P(StoreDirect, AnErrorOfAWriteIsSaid) {
  const Scratch scratch;
  DirectFiles files({.ring = GetParam()});
  ASSERT_TRUE(write_new_file(files, scratch.root + "/a", pattern(8192)));
  const File file = files.open(scratch.root + "/a").value();  // for reading
  AlignedBytes bytes(8192);
  std::fill_n(bytes.data(), 8192, std::byte{1});
  Result<void> written = files.begin_write(file, 0, bytes.first(8192));
  if (written) written = files.wait(file, 0);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message, "cannot be written: Bad file descriptor");
  ASSERT_TRUE(files.close(file));
}

TEST_P(StoreDirect, CheckpointsOfAllLayoutsAreRight) {
  const Scratch scratch;
  DirectFiles files({.ring = GetParam()});
  const std::string root = scratch.root + "/s";
  for (const TestLayout& layout : {TestLayout{}, TestLayout{.tp = 2, .pp = 2}, TestLayout{.dp = 3, .zero = true}}) {
    const std::string name = save_step(files, root, 5, layout).value();
    const WholeCheckpoint found = newest_whole(files, root).value();
    EXPECT_EQ(found.name, name);
    EXPECT_EQ(check_step(files, root + "/" + name, found.manifest, {.tp = 3}), "");
  }
}

TEST_P(StoreDirect, ALargeShardOfManyExtentsIsRight) {
  const Scratch scratch;
  DirectFiles files({.ring = GetParam()});
  const std::string root = scratch.root + "/s";
  const Dims shape = {23, 1 << 20};  // more than the buffers of writer and reader hold
  const Bytes values = pattern(static_cast<std::size_t>(num_elements(shape)) * 4);
  const std::string name = begin_checkpoint(files, root).value();
  const Manifest part =
      write_shard(files, root + "/" + name, shard_file(0), {{"w", "F32", shape, whole(shape), values}}).value();
  ASSERT_TRUE(commit_checkpoint(files, root, name, part));
  Bytes loaded(values.size());
  ASSERT_TRUE(load_regions(files, root + "/" + name, part, {{"w", "F32", whole(shape), loaded}}));
  EXPECT_TRUE(loaded == values);
  PosixFiles plain;
  EXPECT_TRUE(verify_checkpoint(plain, root + "/" + name));
}

INSTANTIATE_TEST_SUITE_P(RingOrNot, StoreDirect, testing::Bool());

}  // namespace
}  // namespace twinpod::store
