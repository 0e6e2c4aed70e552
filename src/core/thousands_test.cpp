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

TEST(Thousands, OneOfAThingIsNoPlural) { EXPECT_EQ(counted(1, "rank"), "1 rank"); }

TEST(Thousands, NoneAndManyArePlurals) {
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(2000, "rank"), "2,000 ranks");
}

TEST(Thousands, APluralCanBeGiven) { EXPECT_EQ(counted(2, "copy", "copies"), "2 copies"); }

}  // namespace
}  // namespace twinpod
