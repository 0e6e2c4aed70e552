#include <gtest/gtest.h>

#include <ctime>

#include "machine/parts.hpp"

namespace twinpod::machine {
namespace {

double core_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void work_for(double seconds) {
  const double end = core_s() + seconds;
  while (core_s() < end) {
  }
}

// Of eight calls one takes 1 ms and seven 4 ms.
double seconds_found(bool typical) {
  double found = 0;
  const Result<std::string> ran = comm::run_threads(1, {}, [&](comm::Communicator& world) -> Result<std::string> {
    int calls = 0;
    const Timing timing{.own_core = true, .blocks = 8, .most_s = 1, .typical = typical};
    const Result<double> seconds = seconds_of_call(world, timing, [&] { work_for(++calls % 8 == 0 ? 0.001 : 0.004); });
    if (!seconds) return tl::unexpected(seconds.error());
    found = *seconds;
    return std::string();
  });
  EXPECT_TRUE(ran);
  return found;
}

TEST(SecondsOfCall, AreThoseOfTheBestBlockOrOfTheMiddleOne) {
  EXPECT_NEAR(seconds_found(false), 0.001, 0.0005);
  EXPECT_NEAR(seconds_found(true), 0.004, 0.0005);
}

}  // namespace
}  // namespace twinpod::machine
