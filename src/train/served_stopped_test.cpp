#include "train/served_stopped.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace twinpod::train {
namespace {

// Looks for so long at a child that stopped itself, and says how it ended; 0: it had to be ended.
int signal_that_ended(double patience_s, bool goes_on) {
  const pid_t child = fork();
  if (child == 0) {
    kill(getpid(), SIGSTOP);
    while (true) pause();
  }
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(child), &info, WSTOPPED | WNOWAIT);
  if (goes_on) kill(child, SIGCONT);
  StoppedProcesses stopped(patience_s);
  int status = 0;
  for (int i = 0; i < 50 && waitpid(child, &status, WNOHANG) == 0; ++i) {
    stopped.look({{.pid = child}});
    usleep(10'000);
  }
  if (WIFSIGNALED(status)) return WTERMSIG(status);
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return 0;
}

TEST(StoppedProcesses, AreKilledAfterAWhile) { EXPECT_EQ(signal_that_ended(0.2, false), SIGKILL); }
TEST(StoppedProcesses, HaveTheirTime) { EXPECT_EQ(signal_that_ended(60, false), 0); }
TEST(StoppedProcesses, LiveWhenTheyGoOn) { EXPECT_EQ(signal_that_ended(0.2, true), 0); }

}  // namespace
}  // namespace twinpod::train
