#include "train/rate.hpp"

#include <gtest/gtest.h>

namespace twinpod::train {
namespace {

using spec::RateDecay;

spec::Recipe recipe(RateDecay decay) {
  spec::Recipe r;
  r.learning_rate = 1;
  r.final_share = 0.1;
  r.warmup = 10;
  r.decay = decay;
  return r;
}

TEST(Rate, WarmsUp) {
  EXPECT_DOUBLE_EQ(rate_at(recipe(RateDecay::cosine), 0, 101), 0.1);
  EXPECT_DOUBLE_EQ(rate_at(recipe(RateDecay::cosine), 9, 101), 1);
  EXPECT_DOUBLE_EQ(rate_at(recipe(RateDecay::cosine), 10, 101), 1);
}

TEST(Rate, Falls) {
  EXPECT_NEAR(rate_at(recipe(RateDecay::cosine), 55, 101), 0.55, 1e-12);
  EXPECT_NEAR(rate_at(recipe(RateDecay::linear), 55, 101), 0.55, 1e-12);
  for (const RateDecay decay : {RateDecay::cosine, RateDecay::linear, RateDecay::wsd})
    EXPECT_NEAR(rate_at(recipe(decay), 100, 101), 0.1, 1e-12);
  EXPECT_DOUBLE_EQ(rate_at(recipe(RateDecay::wsd), 80, 101), 1);
  EXPECT_LT(rate_at(recipe(RateDecay::wsd), 90, 101), 0.6);
}

TEST(Rate, ConstantKeepsItAll) { EXPECT_DOUBLE_EQ(rate_at(recipe(RateDecay::constant), 100, 101), 1); }

TEST(Rate, OneStep) {
  spec::Recipe r = recipe(RateDecay::cosine);
  r.warmup = 0;
  EXPECT_DOUBLE_EQ(rate_at(r, 0, 1), 1);
}

}  // namespace
}  // namespace twinpod::train
