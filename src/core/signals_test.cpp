#include "core/signals.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/temporary.hpp"

namespace twinpod {
namespace {

namespace fs = std::filesystem;

void nap(int milliseconds) {
  const timespec time{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  nanosleep(&time, nullptr);
}

// What waitpid() says of a process of its own that runs `body`, which signals would otherwise end the tests with.
int status_of(const std::function<void(pid_t parent)>& body) {
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    body(parent);
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

int ending_signal(const std::function<void()>& body) {
  const int status = status_of([&](pid_t) { body(); });
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

// A number that forked processes share.
std::atomic<int>& shared_number() {
  static auto* const number =
      new (mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
          std::atomic<int>(0);
  return *number;
}

TEST(Signals, EndTheProcessAsTheyAlwaysDo) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EQ(ending_signal([&] {
                take_signals();
                raise(signal);
                nap(5000);
              }),
              signal);
  }
}

TEST(Signals, OfNohupStayIgnored) {
  EXPECT_EQ(ending_signal([] {
              std::signal(SIGHUP, SIG_IGN);
              take_signals();
              raise(SIGHUP);
            }),
            0);
}

TEST(Signals, TheFirstIsAWishIfItIsOne) {
  EXPECT_EQ(ending_signal([] {
              take_signals();
              wish_for({SIGINT});
              raise(SIGINT);
              if (wished() != SIGINT) _exit(1);
            }),
            0);
}

TEST(Signals, AnotherThanTheWishEnds) {
  EXPECT_EQ(ending_signal([] {
              take_signals();
              wish_for({SIGINT});
              raise(SIGTERM);
            }),
            SIGTERM);
}

TEST(Signals, TwoAtOnceAreOneWish) {
  EXPECT_EQ(ending_signal([] {
              take_signals();
              wish_for({SIGTERM});
              raise(SIGTERM);
              raise(SIGTERM);
            }),
            0);
}

TEST(Signals, ASecondOneEndsAtOnce) {
  EXPECT_EQ(ending_signal([] {
              take_signals();
              wish_for({SIGINT});
              raise(SIGINT);
              nap(600);
              raise(SIGINT);
            }),
            SIGINT);
}

TEST(Signals, WishesThatAreForgottenEndAgain) {
  EXPECT_EQ(ending_signal([] {
              take_signals();
              wish_for({SIGINT});
              raise(SIGINT);
              forget_wish();
              raise(SIGINT);
            }),
            SIGINT);
}

TEST(Signals, ChildrenAreGoneWhenTheirParentEnds) {
  shared_number() = 0;
  ending_signal([] {
    take_signals();
    const pid_t child = fork_child();
    if (child == 0) {
      nap(20000);
      _exit(0);
    }
    shared_number() = child;
    raise(SIGTERM);
  });
  EXPECT_NE(kill(shared_number(), 0), 0);
}

TEST(Signals, ChildrenDieWithAParentThatIsKilled) {
  shared_number() = 0;
  ending_signal([] {
    take_signals();
    const pid_t child = fork_child();
    if (child == 0) {
      nap(20000);
      _exit(0);
    }
    shared_number() = child;
    raise(SIGKILL);
  });
  int tries = 0;
  while (kill(shared_number(), 0) == 0 && ++tries < 500) nap(10);
  EXPECT_LT(tries, 500);
}

TEST(Signals, OfTheTerminalDoNotReachChildren) {
  EXPECT_EQ(ending_signal([] {
              take_signals();
              const pid_t child = fork_child();
              if (child == 0) {
                raise(SIGINT);
                raise(SIGHUP);
                _exit(7);
              }
              int status = 0;
              waitpid(child, &status, 0);
              if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) abort();
            }),
            0);
}

TEST(Signals, AWishOfAParentIsSeenByItsChild) {
  const int status = status_of([](pid_t) {
    take_signals();
    wish_for({SIGTERM});
    const pid_t child = fork_child();
    if (child == 0) {
      while (wished() == 0) nap(1);
      _exit(9);
    }
    raise(SIGTERM);
    int ended = 0;
    waitpid(child, &ended, 0);
    _exit(WEXITSTATUS(ended));
  });
  EXPECT_EQ(WEXITSTATUS(status), 9);
}

TEST(Signals, AWishToAChildIsOneToItsParent) {
  const int status = status_of([](pid_t) {
    take_signals();
    wish_for({SIGTERM});
    const pid_t child = fork_child();
    if (child == 0) {
      raise(SIGTERM);
      _exit(0);
    }
    waitpid(child, nullptr, 0);
    _exit(wished());
  });
  EXPECT_EQ(WEXITSTATUS(status), SIGTERM);
}

TEST(Signals, WhatIsExecutedHasThemAsTheyWere) {
  const int status = status_of([](pid_t) {
    take_signals();
    if (const pid_t rank = fork_child(); rank != 0) {
      int ended = 0;
      waitpid(rank, &ended, 0);
      _exit(WEXITSTATUS(ended));
    }
    const pid_t child = fork_child(ChildKind::executes);
    if (child == 0) {
      execl("/bin/sh", "sh", "-c", "kill -INT $$; exit 3", nullptr);
      _exit(127);
    }
    int ended = 0;
    waitpid(child, &ended, 0);
    _exit(WIFSIGNALED(ended) ? WTERMSIG(ended) : 0);
  });
  EXPECT_EQ(WEXITSTATUS(status), SIGINT);
}

std::atomic<const char*> seen_stack = nullptr;

void note_stack(int /*signal*/) {
  char here = 0;
  seen_stack = &here;
}

TEST(Signals, HandlersOfOthersAreMovedToAStackOfTheirOwn) {
  struct sigaction others {};
  others.sa_handler = note_stack;
  struct sigaction before {};
  sigaction(SIGPROF, &others, &before);
  std::ptrdiff_t distance = 0;
  std::thread([&] {
    own_signal_stack();
    raise(SIGPROF);
    const char here = 0;
    distance = std::abs(&here - seen_stack.load());
  }).join();
  sigaction(SIGPROF, &before, nullptr);
  EXPECT_GT(distance, 60'000);  // a frame is some KiB long
}

TEST(Signals, WhatRaisesOneIsSurvived) {
  constexpr std::array kSignals = {SIGILL, SIGSEGV};
  EXPECT_FALSE(survives(kSignals, [] { raise(SIGILL); }));
  EXPECT_TRUE(survives(kSignals, [] {}));
}

class Temporary : public ::testing::Test {
 protected:
  Temporary() {
    const ::testing::TestInfo* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / fmt::format("twinpod-temporary-{}-{}", info->name(), getpid());
    fs::create_directories(folder_);
  }
  ~Temporary() override { fs::remove_all(folder_); }
  std::string folder() const { return folder_.string(); }
  bool is_empty() const { return fs::is_empty(folder_); }

 private:
  fs::path folder_;
};

void fill(const std::string& folder) {
  fs::create_directories(folder + "/a/b");
  std::ofstream(folder + "/a/b/c") << "text";
  std::ofstream(folder + "/d") << "text";
}

TEST_F(Temporary, AFolderGoesWithItsObject) {
  { fill(TemporaryFolder::in(folder(), "one-")->path()); }
  EXPECT_TRUE(is_empty());
}

TEST_F(Temporary, AFolderGoesWithAProcessThatIsToldToEnd) {
  ending_signal([&] {
    take_signals();
    const Result<TemporaryFolder> made = TemporaryFolder::in(folder(), "one-");
    fill(made->path());
    raise(SIGTERM);
  });
  EXPECT_TRUE(is_empty());
}

TEST_F(Temporary, AFolderOfAKilledProcessIsRemovedByTheNextOne) {
  ending_signal([&] {
    const Result<TemporaryFolder> made = TemporaryFolder::in(folder(), "one-");
    fill(made->path());
    raise(SIGKILL);
  });
  ASSERT_FALSE(is_empty());
  const Result<TemporaryFolder> next = TemporaryFolder::in(folder(), "one-");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), fs::directory_iterator()), 1);
}

TEST_F(Temporary, AFolderOfALivingProcessStays) {
  const Result<TemporaryFolder> made = TemporaryFolder::in(folder(), "one-");
  const Result<TemporaryFolder> next = TemporaryFolder::in(folder(), "one-");
  EXPECT_TRUE(fs::exists(made->path()));
}

TEST_F(Temporary, NothingIsRemovedBehindALink) {
  fs::create_directories(folder() + "/other");
  std::ofstream(folder() + "/other/file") << "text";
  {
    const Result<TemporaryFolder> made = TemporaryFolder::in(folder(), "one-");
    fs::create_directory_symlink(folder() + "/other", made->path() + "/link");
    fs::create_directory_symlink(folder() + "/other", folder() + "/one-abcdef");
    const Result<TemporaryFolder> next = TemporaryFolder::in(folder(), "one-");
  }
  EXPECT_TRUE(fs::exists(folder() + "/other/file"));
}

TEST_F(Temporary, AFileThatIsNotPublishedIsNotThere) {
  ending_signal([&] {
    const Result<FutureFile> file = FutureFile::at(folder() + "/file");
    if (write(file->descriptor(), "text", 4) != 4) _exit(1);
    raise(SIGKILL);
  });
  EXPECT_TRUE(is_empty());
}

TEST_F(Temporary, AFileThatIsPublishedTakesThePlaceOfTheOld) {
  std::ofstream(folder() + "/file") << "old";
  Result<FutureFile> file = FutureFile::at(folder() + "/file");
  ASSERT_EQ(write(file->descriptor(), "new", 3), 3);
  ASSERT_TRUE(file->settle() && file->publish());
  std::string text;
  std::ifstream(folder() + "/file") >> text;
  EXPECT_EQ(text, "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace twinpod
