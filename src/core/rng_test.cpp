#include "core/rng.hpp"

#include <gtest/gtest.h>

#include <array>

namespace twinpod {
namespace {

TEST(Rng, SplitmixGivesItsPublishedSequence) {
  std::uint64_t state = 1234567;
  EXPECT_EQ(splitmix64(state), 6457827717110365317U);
  EXPECT_EQ(splitmix64(state), 3203168211198807973U);
  EXPECT_EQ(splitmix64(state), 9817491932198370423U);
}

TEST(Rng, SameSeedGivesTheSameNumbers) {
  Rng a(7);
  Rng b(7);
  Rng other(8);
  EXPECT_EQ(a.next(), b.next());
  EXPECT_EQ(a.uniform(), b.uniform());
  EXPECT_NE(a.next(), other.next());
}

TEST(Rng, NumbersOfASeedNeverChange) {
  Rng rng(42);
  EXPECT_EQ(rng.next(), 15021278609987233951U);
  EXPECT_EQ(rng.next(), 5881210131331364753U);
}

TEST(Rng, UniformNumbersFillTheUnitInterval) {
  Rng rng(1);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const double x = rng.uniform();
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    sum += x;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
}

TEST(Rng, BelowReachesEachNumberAboutEquallyOften) {
  Rng rng(1);
  std::array<int, 3> counts{};
  for (int i = 0; i < 3000; ++i) ++counts.at(rng.below(3));
  for (const int count : counts) EXPECT_NEAR(count, 1000, 100);
}

TEST(Rng, BelowOneIsAlwaysZero) {
  Rng rng(3);
  EXPECT_EQ(rng.below(1), 0U);
}

TEST(Rng, UniformWithLimitsStaysBetweenThem) {
  Rng rng(9);
  for (int i = 0; i < 100; ++i) {
    const double x = rng.uniform(-2, 3);
    EXPECT_GE(x, -2.0);
    EXPECT_LT(x, 3.0);
  }
}

}  // namespace
}  // namespace twinpod
