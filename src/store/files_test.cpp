#include "store/files.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "store/memory_files.hpp"
#include "store/posix_files.hpp"
#include "store/simulated_files.hpp"

namespace twinpod::store {
namespace {

std::string text_at(Files& files, const std::string& path) {
  const Result<Bytes> bytes = read_whole(files, path, 1 << 20);
  return bytes ? std::string(text_of(*bytes)) : "refused: " + to_string(bytes.error());
}

// A new folder of the test's own.
std::string scratch_folder(const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / ("twinpod_store_" + name);
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path.string();
}

// What both file systems must do alike.
void check_files(Files& files, const std::string& folder) {
  ASSERT_TRUE(files.make_folder(folder + "/b"));
  EXPECT_FALSE(files.make_folder(folder + "/b")) << "taken";
  ASSERT_TRUE(write_new_file(files, folder + "/a", bytes_of("first")));
  ASSERT_TRUE(write_new_file(files, folder + "/a", bytes_of("second")));
  EXPECT_EQ(text_at(files, folder + "/a"), "second");
  EXPECT_FALSE(files.create(folder + "/a")) << "taken";
  EXPECT_FALSE(files.create(folder + "/none/a"));
  EXPECT_EQ(files.list(folder).value(), (std::vector<std::string>{"a", "b"}));
  ASSERT_TRUE(files.sync_folder(folder));
  EXPECT_TRUE(files.exists(folder + "/a").value());
  ASSERT_TRUE(files.remove(folder + "/a"));
  EXPECT_FALSE(files.exists(folder + "/a").value());
  EXPECT_FALSE(files.remove(folder + "/a"));
  EXPECT_FALSE(files.open(folder + "/a"));
  EXPECT_FALSE(files.list(folder + "/none"));
  ASSERT_TRUE(write_new_file(files, folder + "/b/c", bytes_of("x")));
  EXPECT_FALSE(files.remove(folder + "/b")) << "not empty";
}

TEST(StoreFiles, TheDiskMemoryAndTheSimulatedDiskDoTheSame) {
  PosixFiles real;
  check_files(real, scratch_folder("alike"));
  SimulatedFiles simulated;
  ASSERT_TRUE(simulated.make_folder("/f"));
  check_files(simulated, "/f");
  MemoryFiles memory;
  ASSERT_TRUE(memory.make_folder("/f"));
  check_files(memory, "/f");
}

TEST(StoreFiles, MemoryHasALimitAndGetsBackWhatIsRemoved) {
  MemoryFiles files(10);
  ASSERT_TRUE(write_new_file(files, "/a", bytes_of("123456")));
  EXPECT_FALSE(write_new_file(files, "/b", bytes_of("12345")));
  EXPECT_EQ(files.bytes(), 6);
  ASSERT_TRUE(files.remove("/a"));
  EXPECT_TRUE(write_new_file(files, "/b", bytes_of("12345")));
  EXPECT_TRUE(write_new_file(files, "/b", bytes_of("54321")));
  EXPECT_EQ(files.bytes(), 5);
  EXPECT_EQ(files.list("/").value(), std::vector<std::string>{"b"});
}

TEST(StoreFiles, WritesAtAnOffsetLeaveZerosBefore) {
  PosixFiles real;
  SimulatedFiles simulated;
  const std::string folder = scratch_folder("offset");
  MemoryFiles memory;
  const std::vector<std::pair<Files*, std::string>> all = {{&real, folder + "/a"}, {&simulated, "/a"}, {&memory, "/a"}};
  for (const auto& [files, path] : all) {
    const File file = files->create(path).value();
    ASSERT_TRUE(write_all(*files, file, 3, bytes_of("xy")));
    ASSERT_TRUE(files->close(file));
    EXPECT_EQ(text_at(*files, path), std::string("\0\0\0xy", 5));
  }
}

TEST(StoreFiles, ErrorsNameThePathAndTheReason) {
  PosixFiles files;
  const Result<File> file = files.open("/nowhere/a");
  ASSERT_FALSE(file);
  EXPECT_EQ(to_string(file.error()), "/nowhere/a: cannot be opened: No such file or directory");
}

TEST(StoreFiles, AFileThatIsTooLargeIsNotRead) {
  SimulatedFiles files;
  ASSERT_TRUE(write_new_file(files, "/a", bytes_of("12345")));
  EXPECT_FALSE(read_whole(files, "/a", 4));
  EXPECT_TRUE(read_whole(files, "/a", 5));
}

TEST(StoreFiles, ReadingBeyondTheEndIsAnError) {
  SimulatedFiles files;
  ASSERT_TRUE(write_new_file(files, "/a", bytes_of("12345")));
  const File file = files.open("/a").value();
  Bytes bytes(4);
  EXPECT_TRUE(read_all(files, file, 1, bytes));
  const Result<void> read = read_all(files, file, 2, bytes);
  ASSERT_FALSE(read);
  EXPECT_EQ(to_string(read.error()), "/a: ends at byte 5, 1 more were expected");
}

TEST(SimulatedFiles, WhatWasNotSyncedIsLost) {
  SimulatedFiles files;
  const File file = files.create("/a").value();
  ASSERT_TRUE(write_all(files, file, 0, bytes_of("kept")));
  ASSERT_TRUE(files.sync(file));
  ASSERT_TRUE(files.sync_folder("/"));
  ASSERT_TRUE(write_all(files, file, 4, bytes_of(" lost")));
  files.restart(Loss::all, 0);
  EXPECT_EQ(text_at(files, "/a"), "kept");
}

TEST(SimulatedFiles, AProcessThatDiesLosesNothing) {
  SimulatedFiles files;
  const File file = files.create("/a").value();
  ASSERT_TRUE(write_all(files, file, 0, bytes_of("text")));
  files.restart(Loss::none, 0);
  EXPECT_EQ(text_at(files, "/a"), "text");
}

TEST(SimulatedFiles, ANameIsLostUnlessTheFolderIsSynced) {
  SimulatedFiles files;
  ASSERT_TRUE(write_new_file(files, "/a", bytes_of("old")));
  ASSERT_TRUE(files.sync_folder("/"));
  ASSERT_TRUE(write_new_file(files, "/a", bytes_of("new")));
  ASSERT_TRUE(write_new_file(files, "/b", bytes_of("new")));
  files.restart(Loss::all, 0);
  EXPECT_EQ(text_at(files, "/a"), "old");
  EXPECT_FALSE(files.exists("/b").value());
}

// Without this a sweep over seeds would show nothing.
TEST(SimulatedFiles, SeedsTearAndReorderWrites) {
  bool torn = false;
  bool reordered = false;
  bool renamed = false;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SimulatedFiles files;
    const File file = files.create("/a").value();
    ASSERT_TRUE(files.sync_folder("/"));
    ASSERT_TRUE(write_all(files, file, 0, bytes_of("aaaa")));
    ASSERT_TRUE(write_all(files, file, 4, bytes_of("bbbb")));
    ASSERT_TRUE(files.rename("/a", "/b"));
    files.restart(Loss::some, seed);
    renamed |= files.exists("/b").value();
    const std::string text = text_at(files, files.exists("/b").value() ? "/b" : "/a");
    torn |= text.starts_with('a') && !text.starts_with("aaaa");
    reordered |= text == std::string("\0\0\0\0bbbb", 8);
  }
  EXPECT_TRUE(torn);
  EXPECT_TRUE(reordered);
  EXPECT_TRUE(renamed);
}

TEST(SimulatedFiles, AFailedSyncDropsWhatItShouldHaveWrittenAndTheNextSaysYes) {
  SimulatedFiles files;
  const File file = files.create("/a").value();
  ASSERT_TRUE(files.sync_folder("/"));
  ASSERT_TRUE(write_all(files, file, 0, bytes_of("text")));
  files.fail({.at = files.operations() + 1, .code = EIO});
  EXPECT_FALSE(files.sync(file));
  EXPECT_TRUE(files.sync(file));
  EXPECT_EQ(text_at(files, "/a"), "text");
  files.restart(Loss::all, 0);
  EXPECT_EQ(text_at(files, "/a"), "");
}

TEST(SimulatedFiles, NothingHappensAfterACrash) {
  SimulatedFiles files;
  ASSERT_TRUE(files.make_folder("/f"));
  files.crash_at(files.operations() + 1);
  EXPECT_FALSE(files.make_folder("/g"));
  EXPECT_FALSE(files.make_folder("/h"));
  files.restart(Loss::none, 0);
  EXPECT_EQ(files.list("/").value(), std::vector<std::string>{"f"});
}

TEST(SimulatedFiles, AShortWriteIsGoneOnWith) {
  SimulatedFiles files;
  const File file = files.create("/a").value();
  files.fail({.at = files.operations() + 1, .code = kShortWrite});
  EXPECT_EQ(files.write(file, 0, bytes_of("12345")).value(), 3U);
  files.fail({.at = files.operations() + 1, .code = kShortWrite});
  ASSERT_TRUE(write_all(files, file, 0, bytes_of("abcde")));
  EXPECT_EQ(text_at(files, "/a"), "abcde");
}

TEST(SimulatedFiles, AFullDiskCanBeRead) {
  SimulatedFiles files;
  ASSERT_TRUE(write_new_file(files, "/a", bytes_of("text")));
  files.fail({.at = 1, .code = ENOSPC, .lasting = true});
  const Result<void> written = write_new_file(files, "/b", bytes_of("text"));
  ASSERT_FALSE(written);
  EXPECT_EQ(to_string(written.error()), "/b.partial: cannot be created: No space left on device");
  EXPECT_EQ(text_at(files, "/a"), "text");
}

}  // namespace
}  // namespace twinpod::store
