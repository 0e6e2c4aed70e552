#include "store/lock.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "store/lock_owner.hpp"
#include "store/posix_files.hpp"
#include "store/simulated_objects.hpp"
#include "store/test_checkpoints.hpp"

namespace twinpod::store {
namespace {

constexpr LockSettings kQuick{.renew_every = std::chrono::milliseconds(20),
                              .silent_for = std::chrono::milliseconds(300)};

std::string folder() {
  const std::string root = testing::TempDir() + "store_lock";
  std::filesystem::remove_all(root);
  std::filesystem::create_directories(root);
  return root;
}

// An object store whose calls several threads make: the one who owns says so again and again.
class SharedObjects final : public Files {
 private:
  template <typename Call, typename... Args>
  auto at(Call call, const Args&... args) {
    const std::lock_guard lock(mutex_);
    return (static_cast<Files&>(below_).*call)(args...);
  }
  std::mutex mutex_;
  SimulatedObjects below_;

 public:
  bool has_rename() const override { return false; }
  Result<void> put(const std::string& path, std::span<const std::byte> bytes) override {
    return at(&Files::put, path, bytes);
  }
  Result<File> create(const std::string& path) override { return at(&Files::create, path); }
  Result<File> open(const std::string& path) override { return at(&Files::open, path); }
  Result<void> close(const File& file) override { return at(&Files::close, file); }
  Result<std::size_t> write(const File& file, std::int64_t offset, std::span<const std::byte> bytes) override {
    return at(&Files::write, file, offset, bytes);
  }
  Result<std::size_t> read(const File& file, std::int64_t offset, std::span<std::byte> bytes) override {
    return at(&Files::read, file, offset, bytes);
  }
  Result<std::int64_t> size(const File& file) override { return at(&Files::size, file); }
  Result<void> sync(const File& file) override { return at(&Files::sync, file); }
  Result<void> sync_folder(const std::string& path) override { return at(&Files::sync_folder, path); }
  Result<void> rename(const std::string& from, const std::string& to) override { return at(&Files::rename, from, to); }
  Result<void> make_folder(const std::string& path) override { return at(&Files::make_folder, path); }
  Result<void> remove(const std::string& path) override { return at(&Files::remove, path); }
  Result<std::vector<std::string>> list(const std::string& path) override { return at(&Files::list, path); }
  Result<bool> exists(const std::string& path) override { return at(&Files::exists, path); }
};

void put_owner(Files& files, const Owner& owner) {
  ASSERT_TRUE(write_new_file(files, fmt::format("/s/{}", kLockFile), bytes_of(to_text(owner))));
}

TEST(StoreLock, ASecondOneIsRefusedAndToldWhoHasIt) {
  const std::string root = folder();
  PosixFiles files(root);
  const auto first = lock_store(files, root);
  ASSERT_TRUE(first);
  const auto second = lock_store(files, root);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find(fmt::format("process {} on host ", getpid())), std::string::npos)
      << second.error().message;
  EXPECT_EQ(second.error().kind, ErrorKind::infeasible);
}

TEST(StoreLock, ItIsFreeWhenItIsLetGo) {
  const std::string root = folder();
  PosixFiles files(root);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(lock_store(files, root)) << i;
}

TEST(StoreLock, ItIsFreeWhenItsProcessIsKilled) {
  const std::string root = folder();
  PosixFiles files(root);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = lock_store(files, root);
    const char good = lock ? 'y' : 'n';
    (void)!write(ready[1], &good, 1);
    pause();
    _exit(0);
  }
  char good = 'n';
  ASSERT_EQ(read(ready[0], &good, 1), 1);
  EXPECT_EQ(good, 'y');
  EXPECT_FALSE(lock_store(files, root));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(lock_store(files, root));
  close(ready[0]);
  close(ready[1]);
}

TEST(StoreLock, ALockThatWasRemovedLocksNothing) {
  const std::string root = folder();
  PosixFiles files(root);
  const auto first = lock_store(files, root);
  ASSERT_TRUE(first);
  std::filesystem::remove(root + "/lock");
  EXPECT_TRUE(lock_store(files, root));
}

TEST(StoreLock, AnObjectStoreHasOneOwner) {
  SharedObjects files;
  const auto first = lock_store(files, "/s", kQuick);
  ASSERT_TRUE(first);
  EXPECT_FALSE(lock_store(files, "/s", kQuick));
  EXPECT_TRUE((*first)->check());
}

TEST(StoreLock, AnObjectStoreIsFreeWhenItIsLetGo) {
  SharedObjects files;
  EXPECT_TRUE(lock_store(files, "/s", kQuick));
  EXPECT_FALSE(files.exists("/s/lock").value());
  EXPECT_TRUE(lock_store(files, "/s", kQuick));
}

TEST(StoreLock, AnOwnerOfThisHostWhoseProcessIsGoneHasLetGoAtOnce) {
  SharedObjects files;
  Owner dead = this_process();
  dead.process = 0x7ffffff0;
  put_owner(files, dead);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(lock_store(files, "/s", {.renew_every = std::chrono::milliseconds(20)}));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(StoreLock, AProcessWithTheSameNumberIsAnotherOne) {
  Owner other = this_process();
  EXPECT_TRUE(is_alive(other));
  other.started += 1;
  EXPECT_FALSE(is_alive(other));
}

TEST(StoreLock, AnOwnerElsewhereIsGoneWhenItIsSilent) {
  SharedObjects files;
  Owner elsewhere = this_process();
  elsewhere.boot = "another host";
  put_owner(files, elsewhere);
  const auto lock = lock_store(files, "/s", kQuick);
  EXPECT_TRUE(lock);
}

TEST(StoreLock, AnOwnerElsewhereThatSpeaksIsNot) {
  SharedObjects files;
  Owner elsewhere = this_process();
  elsewhere.boot = "another host";
  elsewhere.host = "far\x1b[2Jaway";
  put_owner(files, elsewhere);
  std::atomic<bool> over = false;
  std::thread owner([&] {
    for (; !over; ++elsewhere.renewed) {
      put_owner(files, elsewhere);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  const auto lock = lock_store(files, "/s", kQuick);
  over = true;
  owner.join();
  ASSERT_FALSE(lock);
  EXPECT_NE(lock.error().message.find("on host far\\u001b[2Jaway since "), std::string::npos) << lock.error().message;
}

TEST(StoreLock, WhoWasTakenOverSavesNoMore) {
  SharedObjects files;
  const auto lock = lock_store(files, "/s", kQuick);
  ASSERT_TRUE(lock);
  Owner other = this_process();
  other.host = "elsewhere";
  put_owner(files, other);
  for (int i = 0; i < 200 && (*lock)->check(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const Result<void> held = (*lock)->check();
  ASSERT_FALSE(held);
  EXPECT_NE(held.error().message.find("elsewhere"), std::string::npos) << held.error().message;
}

}  // namespace
}  // namespace twinpod::store
