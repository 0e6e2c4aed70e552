// Signals in a loop while products are computed: oneDNN's may have their stack pointer anywhere.
#include "core/signals.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "kernel/gemm.hpp"
#include "kernel/product.hpp"

namespace twinpod::kernel {
namespace {

std::atomic<int> handled = 0;

// As a profiler or a library would install it: on whatever stack there is. Frames of handlers that do more are longer.
void install(int signal) {
  struct sigaction action {};
  action.sa_handler = [](int) {
    std::array<volatile char, 4096> used{};
    for (volatile char& one : used) one = 1;
    ++handled;
  };
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

constexpr int kSide = 256;
constexpr int kRounds = 20;

// Products of ones, each number of which is the length of a row.
bool products_are_right(const auto& multiply_once) {
  const std::vector<float> a(kSide * kSide, 1);
  std::vector<float> c(a.size());
  for (int i = 0; i < kRounds; ++i) {
    std::fill(c.begin(), c.end(), 0.0F);
    multiply_once(a.data(), c.data());
    if (std::any_of(c.begin(), c.end(), [](float x) { return x != kSide; })) return false;
  }
  return true;
}

enum class How { gemm, transposed, product, threads };

bool compute(How how) {
  if (how == How::gemm || how == How::transposed) {
    tune_gemm(false);
    Gemm shape{.m = kSide, .n = kSide, .k = kSide};
    shape.transpose_a = how == How::transposed;
    return products_are_right([&](const float* a, float* c) { gemm<float>(shape, a, a, c); });
  }
  set_threads(how == How::threads ? 2 : 1);
  const Result<Product> product = make_product({.m = kSide, .n = kSide, .k = kSide});
  return product && products_are_right([&](const float* a, float* c) { multiply(*product, a, a, c); });
}

// The exit status of a process that computes while the signal comes thousands of times a second; -1: it was killed.
int status_under(int signal, How how) {
  const pid_t pid = fork();
  if (pid == 0) {
    install(signal);
    std::atomic<bool> done = false;
    const pthread_t computing = pthread_self();
    std::thread sender([&] {
      const timespec pause{0, 50'000};
      while (!done) {
        how == How::threads ? kill(getpid(), signal) : pthread_kill(computing, signal);
        nanosleep(&pause, nullptr);
      }
    });
    const bool right = compute(how);
    done = true;
    sender.join();
    _exit(right && handled > 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

constexpr std::array kSignals = {SIGINT,  SIGTERM, SIGHUP, SIGWINCH, SIGCHLD, SIGALRM, SIGVTALRM, SIGPROF, SIGUSR1,
                                 SIGUSR2, SIGPIPE, SIGURG, SIGIO,    SIGCONT, SIGTSTP, SIGQUIT,   SIGPWR};

TEST(ProductSignals, DoNotDisturbProducts) {
  for (const int signal : kSignals) EXPECT_EQ(status_under(signal, How::gemm), 0) << "signal " << signal;
}

TEST(ProductSignals, DoNotDisturbTransposedProducts) { EXPECT_EQ(status_under(SIGALRM, How::transposed), 0); }
TEST(ProductSignals, DoNotDisturbProductsThatAreMadeOnce) { EXPECT_EQ(status_under(SIGPROF, How::product), 0); }
TEST(ProductSignals, DoNotDisturbProductsOfSeveralThreads) { EXPECT_EQ(status_under(SIGPROF, How::threads), 0); }

}  // namespace
}  // namespace twinpod::kernel
