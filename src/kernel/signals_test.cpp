// Signals in a loop while products are computed: oneDNN's may have their stack pointer anywhere.
#include "core/signals.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
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

// Computes while the signal comes thousands of times a second, and ends with 0 if nothing was disturbed.
[[noreturn]] void end_under(int signal, How how) {
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

// In a program of its own: one that has computed before has set its handlers up, and threads that a fork loses.
void expect_undisturbed(int signal, How how) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(end_under(signal, how), testing::ExitedWithCode(0), "") << "signal " << signal;
}

constexpr std::array kSignals = {SIGINT,  SIGTERM, SIGHUP, SIGWINCH, SIGCHLD, SIGALRM, SIGVTALRM, SIGPROF, SIGUSR1,
                                 SIGUSR2, SIGPIPE, SIGURG, SIGIO,    SIGCONT, SIGTSTP, SIGQUIT,   SIGPWR};

TEST(ProductSignals, DoNotDisturbProducts) {
  for (const int signal : kSignals) expect_undisturbed(signal, How::gemm);
}

TEST(ProductSignals, DoNotDisturbTransposedProducts) { expect_undisturbed(SIGALRM, How::transposed); }
TEST(ProductSignals, DoNotDisturbProductsThatAreMadeOnce) { expect_undisturbed(SIGPROF, How::product); }
TEST(ProductSignals, DoNotDisturbProductsOfSeveralThreads) { expect_undisturbed(SIGPROF, How::threads); }

}  // namespace
}  // namespace twinpod::kernel
