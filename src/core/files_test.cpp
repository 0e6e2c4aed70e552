#include "core/files.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <sstream>

namespace twinpod {
namespace {

TEST(WriteFile, HoldsTheText) {
  const std::string path = testing::TempDir() + "write_file_test.txt";
  ASSERT_TRUE(write_file(path, "one\ntwo\n"));
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), "one\ntwo\n");
  std::remove(path.c_str());
}

TEST(WriteFile, NamesWhatItCannotWrite) {
  const Result<void> written = write_file("/nowhere/at/all.txt", "x");
  ASSERT_FALSE(written);
  EXPECT_NE(to_string(written.error()).find("/nowhere/at/all.txt"), std::string::npos);
}

std::string why_not(const std::string& path, std::size_t most = kMostTextBytes) {
  const Result<std::string> text = read_file(path, most, "a log");
  return text ? "" : to_string(text.error());
}

TEST(ReadFile, ADeviceIsRefused) {
  EXPECT_EQ(
      why_not("/dev/zero"),
      "/dev/zero: this is a device, which may never end; expected a log\n  write it to a file first, and name that");
}

TEST(ReadFile, APipeIsRefusedAndNotWaitedFor) {
  const std::string path = testing::TempDir() + "read_file_test.pipe";
  std::remove(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_NE(why_not(path).find("this is a pipe"), std::string::npos);
  std::remove(path.c_str());
}

TEST(ReadFile, AFolderIsRefused) { EXPECT_NE(why_not(testing::TempDir()).find("this is a folder"), std::string::npos); }

TEST(ReadFile, AFileThatIsTooLargeIsRefused) {
  const std::string path = testing::TempDir() + "read_file_test.large";
  ASSERT_TRUE(write_file(path, std::string((1 << 20) + 1, 'x')));
  EXPECT_EQ(read_file(path)->size(), (1U << 20) + 1);
  EXPECT_EQ(why_not(path, 1 << 20), path + ": larger than 1 MiB\n  a part of it may do: head, tail, grep");
  std::remove(path.c_str());
}

TEST(ReadFile, AFileThatSaysItIsEmptyIsReadAllTheSame) { EXPECT_GT(read_file("/proc/self/status")->size(), 100U); }

TEST(ReadFile, TheNearestNameIsOffered) {
  const std::string path = testing::TempDir() + "read_file_test.near";
  ASSERT_TRUE(write_file(path, "x"));
  EXPECT_EQ(why_not(path + "r"), path +
                                     "r: cannot be read: No such file or directory; expected a log\n"
                                     "  did you mean read_file_test.near?");
  std::remove(path.c_str());
}

TEST(CanBeWritten, SaysSoAndMakesNothing) {
  const std::string path = testing::TempDir() + "can_be_written_test.txt";
  EXPECT_TRUE(can_be_written(path));
  EXPECT_FALSE(std::ifstream(path).is_open());
  ASSERT_TRUE(write_file(path, "one"));
  EXPECT_TRUE(can_be_written(path));
  EXPECT_EQ(*read_file(path), "one");
  std::remove(path.c_str());
  EXPECT_FALSE(can_be_written(testing::TempDir()));
  EXPECT_FALSE(can_be_written("/nowhere/at/all.txt"));
}

}  // namespace
}  // namespace twinpod
