#include "plan/scaling_law.hpp"

#include <gtest/gtest.h>

namespace twinpod::plan {
namespace {

TEST(ScalingLaw, ChinchillaReachesItsLossByTheOriginalConstants) {
  // 70 B parameters and 1.4 T tokens.
  EXPECT_NEAR(loss_of(hoffmann_2022(), 70e9, 1.4e12), 1.937, 0.001);
}

TEST(ScalingLaw, TheRefitPredictsTheSameRunWithinThreePerCent) {
  EXPECT_NEAR(loss_of(besiroglu_2024(), 70e9, 1.4e12), 1.937, 0.06);
}

TEST(ScalingLaw, TokensForALossGiveThatLoss) {
  const ScalingLaw law = besiroglu_2024();
  const std::optional<double> tokens = tokens_for_loss(law, 8e9, 2.2);
  ASSERT_TRUE(tokens.has_value());
  EXPECT_NEAR(loss_of(law, 8e9, *tokens), 2.2, 1e-9);
}

TEST(ScalingLaw, ALossBelowTheFloorCannotBeReached) {
  const ScalingLaw law = besiroglu_2024();
  EXPECT_FALSE(tokens_for_loss(law, 1e9, loss_floor(law, 1e9)).has_value());
  EXPECT_FALSE(tokens_for_loss(law, 1e9, 1.5).has_value());
}

TEST(ScalingLaw, ALargerModelNeedsFewerTokens) {
  const ScalingLaw law = besiroglu_2024();
  EXPECT_LT(*tokens_for_loss(law, 70e9, 2.2), *tokens_for_loss(law, 8e9, 2.2));
}

TEST(ScalingLaw, TheCriticalBatchGrowsAsTheLossFalls) {
  EXPECT_NEAR(critical_batch_tokens(1.0), 2e8, 1);
  EXPECT_NEAR(critical_batch_tokens(3.0), 1.07e6, 0.01e6);
  EXPECT_GT(critical_batch_tokens(2.0), critical_batch_tokens(3.0));
}

TEST(ScalingLaw, AtTheCriticalBatchTwiceTheTokensAreNeeded) {
  const ScalingLaw law = besiroglu_2024();
  const TimeToAccuracy at = time_to_accuracy(law, 8e9, 2.2, critical_batch_tokens(2.2), 1.0);
  EXPECT_DOUBLE_EQ(at.batch_factor, 2);
  EXPECT_NEAR(*at.tokens, 2 * *tokens_for_loss(law, 8e9, 2.2), 1);
}

TEST(ScalingLaw, TimeIsStepsTimesTheirLength) {
  const TimeToAccuracy at = time_to_accuracy(besiroglu_2024(), 8e9, 2.2, 4e6, 2.5);
  EXPECT_DOUBLE_EQ(*at.seconds, 2.5 * *at.steps);
  EXPECT_NEAR(*at.steps * 4e6, *at.tokens, 4e6);
}

TEST(ScalingLaw, WithoutAnyHopeThereIsNoTimeButAFloor) {
  const TimeToAccuracy at = time_to_accuracy(besiroglu_2024(), 1e9, 1.5, 4e6, 2.5);
  EXPECT_FALSE(at.seconds.has_value());
  EXPECT_GT(at.floor, 1.5);
}

}  // namespace
}  // namespace twinpod::plan
