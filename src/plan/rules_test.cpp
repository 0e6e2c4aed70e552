#include "plan/rules.hpp"

#include <gtest/gtest.h>

namespace twinpod::plan {
namespace {

constexpr double kTokens = 300e9;
constexpr double kParameters = 175e9;
constexpr double kDay = 86400;
constexpr double kYear = 365.25 * kDay;
constexpr double kMonth = kYear / 12;

TEST(Rules, ParametersOfGpt3Take700GBInFp32) { EXPECT_DOUBLE_EQ(parameter_bytes_fp32(kParameters), 700e9); }

TEST(Rules, TrainingGpt3Takes5600GB) { EXPECT_DOUBLE_EQ(training_bytes_fp32(kParameters), 5600e9); }

TEST(Rules, OnASuperPodAt140TeraflopsGpt3Takes34Days) {
  EXPECT_NEAR(training_time_8tp_s(kTokens, kParameters, 1024, 140e12) / kDay, 34, 0.5);
}

TEST(Rules, ThirtySixYearsOnEightV100ImplyAThirdOfTheirPeak) {
  const double rate = implied_flop_per_s(kTokens, kParameters, 8, 36 * kYear);
  EXPECT_NEAR(rate, 46.2e12, 0.1e12);
  EXPECT_LT(rate, 125e12);  // dense fp16 peak of a V100
}

TEST(Rules, SevenMonthsOn512V100ImplyNearlyTheSameRate) {
  EXPECT_NEAR(implied_flop_per_s(kTokens, kParameters, 512, 7 * kMonth), 44.6e12, 0.1e12);
}

TEST(Rules, AtOneRateBothV100FiguresComeOut) {
  constexpr double kRate = 46e12;
  EXPECT_NEAR(training_time_8tp_s(kTokens, kParameters, 8, kRate) / kYear, 36, 0.5);
  EXPECT_NEAR(training_time_8tp_s(kTokens, kParameters, 512, kRate) / kMonth, 7, 0.5);
}

TEST(Rules, ImpliedRateIsTheInverse) {
  EXPECT_DOUBLE_EQ(implied_flop_per_s(1e9, 2e9, 3, training_time_8tp_s(1e9, 2e9, 3, 4e12)), 4e12);
}

TEST(Rules, ComputationRateIsThatOfOneTimesDevicesTimesEfficiency) {
  EXPECT_DOUBLE_EQ(computation_rate(100e12, 1024, 0.5), 51.2e15);
}

TEST(Rules, ScaleFactorIsOneWhenNothingIsLost) {
  EXPECT_DOUBLE_EQ(scale_factor(800, 8, 100), 1);
  EXPECT_DOUBLE_EQ(scale_factor(400, 8, 100), 0.5);
}

}  // namespace
}  // namespace twinpod::plan
