#include "cluster/measured_collective.hpp"

#include <gtest/gtest.h>

namespace twinpod::cluster {
namespace {

const spec::Measured kMachine = {
    .numbers = {},
    .message_inside_s = 1e-6,
    .collectives = {{"all_reduce", 2, {8, 1000, 100000}, {1e-6, 1e-6, 1e-4}}, {"all_reduce", 8, {8}, {16e-6}}},
    .errors = {}};

TEST(MeasuredCollective, PointsAreMet) {
  EXPECT_DOUBLE_EQ(*measured_s(kMachine, "all_reduce", 2, 1000), 1e-6);
  EXPECT_NEAR(*measured_s(kMachine, "all_reduce", 2, 100000), 1e-4, 1e-12);
}

TEST(MeasuredCollective, BetweenPointsItIsAPowerOfTheSize) {
  EXPECT_NEAR(*measured_s(kMachine, "all_reduce", 2, 10000), 1e-5, 1e-12);
}

TEST(MeasuredCollective, BelowTheSmallestItIsTheSmallest) {
  EXPECT_DOUBLE_EQ(*measured_s(kMachine, "all_reduce", 2, 1), 1e-6);
}

TEST(MeasuredCollective, BeyondTheLargestTheRateGoesOn) {
  EXPECT_NEAR(*measured_s(kMachine, "all_reduce", 2, 199000), 1.99e-4, 1e-9);
}

TEST(MeasuredCollective, RanksBetweenThoseMeasured) {
  EXPECT_NEAR(*measured_s(kMachine, "all_reduce", 4, 8), 4e-6, 1e-12);
  EXPECT_FALSE(measured_s(kMachine, "all_reduce", 9, 8));
}

TEST(MeasuredCollective, AVerbThatWasNotMeasuredIsNotKnown) { EXPECT_FALSE(measured_s(kMachine, "broadcast", 2, 8)); }

}  // namespace
}  // namespace twinpod::cluster
