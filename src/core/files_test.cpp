#include "core/files.hpp"

#include <gtest/gtest.h>

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
