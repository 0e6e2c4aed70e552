#include "core/thousands.hpp"

#include <gtest/gtest.h>

namespace twinpod {
namespace {

TEST(Thousands, AreSeparatedByCommas) {
  EXPECT_EQ(with_thousands(1234567), "1,234,567");
  EXPECT_EQ(with_thousands(1000), "1,000");
  EXPECT_EQ(with_thousands(999), "999");
  EXPECT_EQ(with_thousands(-123456), "-123,456");
}

TEST(Thousands, SmallNumbersThatAreNotWholeKeepThreeDigits) {
  EXPECT_EQ(with_thousands(7.3777), "7.38");
  EXPECT_EQ(with_thousands(0), "0");
  EXPECT_EQ(with_thousands(123.4), "123");
}

}  // namespace
}  // namespace twinpod
