#include "comm/awake.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace twinpod::comm {
namespace {

TEST(AwakeTime, PassesWhileTheProcessRuns) {
  AwakeTime time;
  for (int i = 0; i < 10; ++i) {
    usleep(20'000);
    time.passed_ns();
  }
  EXPECT_GE(time.passed_ns(), 200'000'000);
}

TEST(AwakeTime, DoesNotPassWhileItIsStopped) {
  const pid_t pid = fork();
  if (pid == 0) {
    AwakeTime time;
    raise(SIGSTOP);
    _exit(time.passed_ns() > 1'000'000'000 ? 1 : 0);
  }
  int status = 0;
  waitpid(pid, &status, WUNTRACED);
  usleep(1'300'000);
  kill(pid, SIGCONT);
  waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace twinpod::comm
