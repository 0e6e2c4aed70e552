#include "core/parallel.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

namespace twinpod {
namespace {

TEST(Parallel, EachIndexIsVisitedOnceForAnyNumberOfThreads) {
  for (const int threads : {0, 1, 2, 3, 8, 100}) {
    for (const std::size_t count : {0U, 1U, 2U, 7U, 1000U}) {
      std::vector<std::atomic<int>> visits(count);
      parallel_for(
          count, [&](std::size_t i) { ++visits[i]; }, threads);
      for (const std::atomic<int>& visit : visits) ASSERT_EQ(visit, 1) << threads << " threads, " << count;
    }
  }
}

TEST(Parallel, ResultsStandInIndexOrder) {
  const auto square = [](std::size_t i) { return static_cast<double>(i * i); };
  const std::vector<double> one = parallel_map<double>(500, square, 1);
  EXPECT_EQ(one[20], 400.0);
  EXPECT_EQ(parallel_map<double>(500, square, 4), one);
}

TEST(Parallel, SumsMadeInIndexOrderAreTheSameToTheLastBit) {
  const auto harmonic = [](std::size_t i) { return 1.0 / static_cast<double>(i + 1); };
  const std::vector<double> one = parallel_map<double>(10000, harmonic, 1);
  const std::vector<double> many = parallel_map<double>(10000, harmonic, 7);
  EXPECT_EQ(std::accumulate(one.begin(), one.end(), 0.0), std::accumulate(many.begin(), many.end(), 0.0));
}

TEST(Parallel, LoopsMayBeNested) {
  std::atomic<int> visits = 0;
  parallel_for(
      4,
      [&](std::size_t) {
        parallel_for(
            5, [&](std::size_t) { ++visits; }, 2);
      },
      2);
  EXPECT_EQ(visits, 20);
}

TEST(Parallel, MachineHasAtLeastOneThread) { EXPECT_GE(num_hardware_threads(), 1); }

}  // namespace
}  // namespace twinpod
