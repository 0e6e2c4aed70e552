#include "report/scatter.hpp"

#include <gtest/gtest.h>

namespace twinpod::report {
namespace {

validate::Case run_of(double measured, double predicted) {
  validate::Case one;
  one.run.grade = "A";
  one.run.iter_time_s = measured;
  one.predicted_s = predicted;
  one.made.job.stack.family = "megatron";
  return one;
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Scatter, DrawsOneDotForEachCoveredRunAndOneForItsFamily) {
  std::vector<validate::Case> cases = {run_of(1, 1.1), run_of(20, 19), run_of(3, 3)};
  cases.back().not_covered = "no layout";
  EXPECT_EQ(count_of(scatter_svg(cases), "<circle"), 2 + 1);
}

TEST(Scatter, PutsAPerfectPredictionOnTheDiagonal) {
  const std::string svg = scatter_svg({run_of(0.1, 0.1), run_of(10, 10)});
  EXPECT_NE(svg.find("cx='70.0' cy='505.0'"), std::string::npos) << svg;
  EXPECT_NE(svg.find("cx='570.0' cy='40.0'"), std::string::npos);
}

TEST(Scatter, IsWholeWithoutAnyRun) {
  const std::string svg = scatter_svg({});
  EXPECT_EQ(count_of(svg, "<svg"), 1);
  EXPECT_EQ(count_of(svg, "</svg>"), 1);
}

}  // namespace
}  // namespace twinpod::report
