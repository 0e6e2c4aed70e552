#include "cli/values.hpp"

#include <gtest/gtest.h>

namespace twinpod::cli {
namespace {

using Ints = std::vector<int>;

Ints numbers(std::string_view text) { return whole_numbers("tp", text, 1, 16384).value_or(Ints{}); }

template <typename T>
std::string refusal(const Result<T>& result) {
  if (result) return "";
  EXPECT_EQ(result.error().kind, ErrorKind::input);
  return result.error().message + (result.error().hint.empty() ? "" : "; " + result.error().hint);
}

std::string number_refusal(std::string_view text) { return refusal(whole_numbers("tp", text, 1, 16384)); }

TEST(Values, OneNumberIsAListOfOne) { EXPECT_EQ(numbers("8"), (Ints{8})); }

TEST(Values, NumbersStandBetweenCommas) { EXPECT_EQ(numbers("2, 4,8"), (Ints{2, 4, 8})); }

TEST(Values, ARangeHoldsBothItsEnds) {
  EXPECT_EQ(numbers("3..6"), (Ints{3, 4, 5, 6}));
  EXPECT_EQ(numbers("6..6"), (Ints{6}));
  EXPECT_EQ(numbers("1024..16384").size(), 15361U);
}

TEST(Values, ADoublingRangeStopsAtOrBeforeItsEnd) {
  EXPECT_EQ(numbers("1..64:x2"), (Ints{1, 2, 4, 8, 16, 32, 64}));
  EXPECT_EQ(numbers("3..20:x2"), (Ints{3, 6, 12}));
  EXPECT_EQ(numbers("1..100:x10"), (Ints{1, 10, 100}));
}

TEST(Values, ADoublingRangeThatBeginsAtZeroIsZero) {
  EXPECT_EQ(whole_numbers("servers", "0..8:x2", 0, 8).value(), (Ints{0}));
}

TEST(Values, ADoublingRangeUpToTheLargestNumberEnds) {
  EXPECT_EQ(whole_numbers("devices", "1..2147483647:x2", 1, 2147483647)->size(), 31U);
}

TEST(Values, NumbersRiseAndStandOnce) { EXPECT_EQ(numbers("8,1..3,2,4..8:x2"), (Ints{1, 2, 3, 4, 8})); }

TEST(Values, WhatIsNoNumberIsRefusedWithWhatWasExpected) {
  EXPECT_EQ(number_refusal("eight"),
            "--tp: found `eight`, expected whole numbers from 1 to 16384: 8, a list 2,4,8, a range 1..64 or doublings "
            "1..64:x2");
  for (const char* text : {"", ",", "2,", "1..", "..4", "1...4", "1-4", "8:x2", "1..8:x1", "1..8:x", "1..8:2", "1.5",
                           "1..8:x2:x2", "99999999999", "+2", "0x10"}) {
    EXPECT_NE(number_refusal(text), "") << text;
  }
}

TEST(Values, NumbersStayWithinTheirBounds) {
  EXPECT_EQ(number_refusal("0..4"), "--tp: found `0..4`, expected whole numbers from 1 to 16384");
  EXPECT_EQ(number_refusal("2,16385"), "--tp: found `16385`, expected whole numbers from 1 to 16384");
}

TEST(Values, AFallingRangeNamesTheRisingOne) {
  EXPECT_EQ(number_refusal("64..1"), "--tp: found `64..1`, expected a range that rises; try 1..64");
  EXPECT_EQ(number_refusal("64..1:x2"), "--tp: found `64..1:x2`, expected a range that rises; try 1..64:x2");
}

TEST(Values, AnEndlessRangeIsRefused) {
  EXPECT_EQ(refusal(whole_numbers("devices", "1..1000000", 1, 10'000'000)),
            "--devices: found `1..1000000`, expected at most 100000 values; try 1..1000000:x2");
}

TEST(Values, NamesAreThoseOfTheTable) {
  EXPECT_EQ(names("schedule", "zb-v, 1f1b,zb-v", spec::kScheduleNames).value(),
            (std::vector<spec::Schedule>{spec::Schedule::zb_v, spec::Schedule::one_f_one_b}));
}

TEST(Values, AnUnknownNameNamesTheNearest) {
  EXPECT_EQ(refusal(names("recompute", "none,selectiv", spec::kRecomputeNames)),
            "--recompute: found `selectiv`, expected some of none, selective, full; did you mean `selective`?");
  EXPECT_NE(refusal(names("recompute", "", spec::kRecomputeNames)), "");
}

TEST(Values, SwitchesGoBothWays) {
  EXPECT_EQ(switches("sp", "on").value(), (Ints{1}));
  EXPECT_EQ(switches("sp", "false").value(), (Ints{0}));
  EXPECT_EQ(switches("sp", "on,off").value(), (Ints{0, 1}));
  EXPECT_EQ(switches("sp", "true, on").value(), (Ints{1}));
}

TEST(Values, ASwitchIsOnOrOff) {
  EXPECT_EQ(refusal(switches("sp", "maybe")), "--sp: found `maybe`, expected on, off or on,off");
  EXPECT_NE(refusal(switches("sp", "")), "");
}

TEST(WhatIf, FactorsAndNamesAreReadInTheirOrder) {
  const std::vector<WhatIf> wishes = what_if("what-if", "network=2x, memory=1.5, device=h100-sxm,failures=0").value();
  ASSERT_EQ(wishes.size(), 4U);
  EXPECT_EQ(wishes[0].change, Change::network);
  EXPECT_EQ(wishes[0].factor, 2);
  EXPECT_EQ(wishes[1].change, Change::memory);
  EXPECT_EQ(wishes[1].factor, 1.5);
  EXPECT_EQ(wishes[2].change, Change::device);
  EXPECT_EQ(wishes[2].name, "h100-sxm");
  EXPECT_EQ(wishes[3].change, Change::failures);
  EXPECT_EQ(wishes[3].factor, 0);
}

TEST(WhatIf, EveryNameIsRead) {
  for (const auto& [name, change] : kChangeNames) {
    const Result<std::vector<WhatIf>> wishes = what_if("what-if", std::string(name) + "=1");
    ASSERT_TRUE(wishes.has_value()) << name;
    EXPECT_EQ(wishes->front().change, change) << name;
  }
}

TEST(WhatIf, AnUnknownKeyNamesTheNearest) {
  const std::string text = refusal(what_if("what-if", "netwrk=2x"));
  EXPECT_NE(text.find("found `netwrk=2x`"), std::string::npos) << text;
  EXPECT_NE(text.find("did you mean `network`?"), std::string::npos) << text;
}

TEST(WhatIf, AFactorIsANumberAboveZero) {
  EXPECT_EQ(refusal(what_if("what-if", "memory=0")),
            "--what-if: found `memory=0`, expected a factor above 0, at most 1000000, such as memory=2x");
  for (const char* text : {"memory", "memory=", "memory=x", "memory=-2x", "memory=2y", "memory=inf", "memory=nan",
                           "memory=1e9", "failures=-1", "device=", "device", "", "memory=2x,"}) {
    EXPECT_NE(refusal(what_if("what-if", text)), "") << text;
  }
}

TEST(WhatIf, EachKeyStandsOnce) {
  EXPECT_EQ(refusal(what_if("what-if", "memory=2x,memory=3x")), "--what-if: found `memory=3x`, expected each key once");
}

TEST(Duration, IsReadWithItsUnit) {
  EXPECT_EQ(duration("within", "60d").value(), 60 * 86400.0);
  EXPECT_EQ(duration("within", "12h").value(), 12 * 3600.0);
  EXPECT_EQ(duration("within", "2w").value(), 14 * 86400.0);
  EXPECT_EQ(duration("within", "90 days").value(), 90 * 86400.0);
}

TEST(Duration, WithoutAUnitNamesTheDay) {
  EXPECT_EQ(refusal(duration("within", "60")),
            "--within: found `60`, expected a time with its unit, such as 60d, 12h, 2w or 90 days; did you mean 60d?");
}

TEST(Duration, IsATimeAboveZero) {
  EXPECT_EQ(refusal(duration("within", "0d")), "--within: found `0d`, expected a time above 0");
  for (const char* text : {"", "soon", "-3d", "60 GB", "3 fortnights"}) {
    EXPECT_NE(refusal(duration("within", text)), "") << text;
  }
}

}  // namespace
}  // namespace twinpod::cli
