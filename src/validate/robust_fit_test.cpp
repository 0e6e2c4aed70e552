#include "validate/robust_fit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace twinpod::validate {
namespace {

// t = a + b x, with one row in ten measured three times too long.
TEST(RobustFit, FindsTheNumbersDespiteOutliers) {
  double a = 0;
  double b = 0;
  const auto residuals = [&] {
    std::vector<double> values;
    for (int i = 0; i < 100; ++i) {
      const double x = std::pow(1.1, i);
      const double measured = (20 + 0.5 * x) * (i % 10 == 3 ? 3 : 1);
      values.push_back(std::log((a + b * x) / measured));
    }
    return values;
  };
  robust_fit({{&a, 5, 0.1, 1000}, {&b, 2, 0.01, 100}}, residuals, {});
  EXPECT_NEAR(a, 20, 0.6);
  EXPECT_NEAR(b, 0.5, 0.015);
}

TEST(RobustFit, StaysWithinBounds) {
  double a = 0;
  robust_fit({{&a, 1, 0.5, 2}}, [&] { return std::vector<double>(10, std::log(a / 50)); }, {});
  EXPECT_DOUBLE_EQ(a, 2);
}

// Flat around the start, as a model with a choice inside can be.
TEST(RobustFit, LeavesAFlatPlace) {
  double a = 0;
  robust_fit({{&a, 1, 0.1, 10}}, [&] { return std::vector<double>(50, std::log(std::max(1.5, a) / 2)); }, {});
  EXPECT_NEAR(a, 2, 0.05);
}

}  // namespace
}  // namespace twinpod::validate
