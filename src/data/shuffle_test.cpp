#include "data/shuffle.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace twinpod::data {
namespace {

std::vector<std::int64_t> order(std::int64_t count, std::uint64_t seed, std::int64_t epoch) {
  const Shuffle shuffle = make_shuffle(count, seed, epoch);
  std::vector<std::int64_t> numbers;
  for (std::int64_t place = 0; place < count; ++place) numbers.push_back(shuffled(shuffle, place));
  return numbers;
}

TEST(Shuffle, EveryNumberComesExactlyOnce) {
  for (std::int64_t count = 1; count <= 300; ++count) {
    std::vector<std::int64_t> numbers = order(count, 7, count);
    std::sort(numbers.begin(), numbers.end());
    for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(numbers[static_cast<std::size_t>(i)], i) << count;
  }
}

TEST(Shuffle, LargeCountsStayInside) {
  const std::int64_t count = (std::int64_t{1} << 61) + 3;
  const Shuffle shuffle = make_shuffle(count, 1, 0);
  for (const std::int64_t place : {std::int64_t{0}, count / 2, count - 1}) {
    EXPECT_GE(shuffled(shuffle, place), 0);
    EXPECT_LT(shuffled(shuffle, place), count);
  }
}

TEST(Shuffle, SeedsAndEpochsGiveOtherOrders) {
  EXPECT_EQ(order(1000, 1, 0), order(1000, 1, 0));
  EXPECT_NE(order(1000, 1, 0), order(1000, 2, 0));
  EXPECT_NE(order(1000, 1, 0), order(1000, 1, 1));
  EXPECT_NE(order(1000, 1, 1), order(1000, 2, 0));
}

// Chi-square over 20,000 seeds: of pairs (number at place 0, number at place 1) among 10, each of 90 equally likely.
TEST(Shuffle, EveryPairIsAboutEquallyLikely) {
  constexpr int kSeeds = 20000;
  std::vector<int> found(100);
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Shuffle shuffle = make_shuffle(10, seed, 0);
    ++found[static_cast<std::size_t>(10 * shuffled(shuffle, 0) + shuffled(shuffle, 1))];
  }
  const double expected = kSeeds / 90.0;
  double chi_square = 0;
  for (int pair = 0; pair < 100; ++pair) {
    const double difference = found[static_cast<std::size_t>(pair)] - expected;
    if (pair % 11 != 0) chi_square += difference * difference / expected;
  }
  EXPECT_LT(chi_square, 135);  // 89 degrees of freedom: more in one of a thousand cases
}

// In a shuffled order neighbours are a third of the count apart on average.
TEST(Shuffle, NeighboursAreFarApart) {
  const std::vector<std::int64_t> numbers = order(30000, 3, 2);
  double sum = 0;
  for (std::size_t i = 1; i < numbers.size(); ++i) sum += static_cast<double>(std::abs(numbers[i] - numbers[i - 1]));
  EXPECT_NEAR(sum / (30000.0 - 1), 10000, 200);
}

}  // namespace
}  // namespace twinpod::data
