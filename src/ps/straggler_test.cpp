#include "ps/straggler.hpp"

#include <gtest/gtest.h>

namespace twinpod::ps {
namespace {

TEST(Straggler, OneWorkerIsAlwaysSlow) {
  const Result<Straggler> straggler = parse_straggler("2:1.5");
  ASSERT_TRUE(straggler);
  EXPECT_EQ(slowdown(*straggler, 2, 0), 1.5);
  EXPECT_EQ(slowdown(*straggler, 2, 77), 1.5);
  EXPECT_EQ(slowdown(*straggler, 1, 77), 1);
}

TEST(Straggler, AShareOfTheStepsOfEachWorkerIsSlow) {
  const Result<Straggler> straggler = parse_straggler("any:3:0.1");
  ASSERT_TRUE(straggler);
  for (int worker = 0; worker < 4; ++worker) {
    int slow = 0;
    for (std::int64_t clock = 0; clock < 10000; ++clock) slow += slowdown(*straggler, worker, clock) == 3 ? 1 : 0;
    EXPECT_NEAR(slow, 1000, 100) << worker;
  }
  int both = 0;  // workers are slow in different steps
  for (std::int64_t clock = 0; clock < 10000; ++clock) {
    both += slowdown(*straggler, 0, clock) == 3 && slowdown(*straggler, 1, clock) == 3 ? 1 : 0;
  }
  EXPECT_NEAR(both, 100, 40);
}

TEST(Straggler, NobodyIsSlowWithoutOne) { EXPECT_EQ(slowdown(*parse_straggler("none"), 0, 0), 1); }

TEST(Straggler, WhatIsNoStragglerIsRefused) {
  for (const char* text :
       {"", "x", "0", "0:", "0:x", "-1:2", "0:0.5", "0:2:", "0:2:1.5", "0:2:0.5:1", "0:nan", "0:inf"}) {
    EXPECT_FALSE(parse_straggler(text)) << text;
  }
}

}  // namespace
}  // namespace twinpod::ps
