#include "ps/job_key.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

namespace twinpod::ps {
namespace {

std::string fresh_path(const std::string& name) {
  std::string path = testing::TempDir() + "twinpod-key-" + name + "-" + std::to_string(getpid());
  unlink(path.c_str());
  return path;
}

void write_with_mode(const std::string& path, const std::string& text, mode_t mode) {
  std::ofstream(path) << text;
  chmod(path.c_str(), mode);
}

TEST(PsJobKey, IsReadAsItWasMade) {
  const std::string path = fresh_path("made");
  const Result<JobKey> made = make_key_file(path);
  ASSERT_TRUE(made) << to_string(made.error());
  EXPECT_EQ(*read_key_file(path), *made);
}

TEST(PsJobKey, IsMadeOnce) {
  const std::string path = fresh_path("once");
  EXPECT_EQ(*make_key_file(path), *make_key_file(path));
}

TEST(PsJobKey, IsForItsOwnerAlone) {
  const std::string path = fresh_path("mode");
  const mode_t before = umask(0);
  (void)make_key_file(path);
  umask(before);
  struct stat about {};
  stat(path.c_str(), &about);
  EXPECT_EQ(about.st_mode & 07777U, 0600U);
}

TEST(PsJobKey, RefusesWhatAGroupMayRead) {
  const std::string path = fresh_path("group");
  write_with_mode(path, std::string(64, 'a'), 0640);
  const Result<JobKey> key = read_key_file(path);
  ASSERT_FALSE(key);
  EXPECT_NE(key.error().message.find("0640"), std::string::npos);
}

TEST(PsJobKey, RefusesOtherDigits) {
  const std::string path = fresh_path("digits");
  write_with_mode(path, std::string(63, 'a') + "g\n", 0600);
  EXPECT_FALSE(read_key_file(path));
}

TEST(PsJobKey, RefusesMoreThanAKey) {
  const std::string path = fresh_path("long");
  write_with_mode(path, std::string(66, 'a'), 0600);
  EXPECT_FALSE(read_key_file(path));
}

TEST(PsJobKey, RefusesALink) {
  const std::string path = fresh_path("link");
  const std::string target = fresh_path("target");
  (void)make_key_file(target);
  ASSERT_EQ(symlink(target.c_str(), path.c_str()), 0);
  EXPECT_FALSE(read_key_file(path));
  EXPECT_FALSE(make_key_file(path));
}

TEST(PsJobKey, IsWaitedFor) {
  const std::string path = fresh_path("late");
  std::thread later([&] {
    usleep(50'000);
    (void)make_key_file(path);
  });
  EXPECT_TRUE(read_key_file(path, 5));
  later.join();
}

TEST(PsJobKey, EachPairHasItsOwn) {
  const JobKey key = random_key();
  EXPECT_NE(pair_key(key, 1, 2), pair_key(key, 2, 1));
  EXPECT_NE(pair_key(key, 1, 2), pair_key(key, 1, 3));
  EXPECT_NE(pair_key(key, 1, 2), pair_key(random_key(), 1, 2));
  EXPECT_EQ(pair_key(key, 1, 2), pair_key(key, 1, 2));
}

}  // namespace
}  // namespace twinpod::ps
