#include "validate/accuracy.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace twinpod::validate {
namespace {

Case measured_case(const std::string& device, const std::string& stack, int pp, double measured, double predicted) {
  Case one;
  one.run.grade = "A";
  one.run.iter_time_s = measured;
  one.made.job.cluster.device.family = device;
  one.made.job.cluster.devices = 64;
  one.made.job.stack.name = stack;
  one.made.job.layout.pp = pp;
  one.predicted_s = predicted;
  return one;
}

const plan::AccuracyRow* find(const plan::Accuracy& rows, const std::string& device, const std::string& stack,
                              const std::string& kind) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const plan::AccuracyRow& row) {
    return row.device == device && row.stack == stack && row.kind == kind;
  });
  return found == rows.end() ? nullptr : &*found;
}

TEST(AccuracyOfCases, HasARowForEachLevel) {
  const std::vector<Case> cases = {measured_case("a100", "one", 8, 1, 1), measured_case("h100", "one", 1, 1, 1)};
  const plan::Accuracy rows = accuracy_of(cases, cases);
  ASSERT_NE(find(rows, "a100", "one", "pipeline"), nullptr);
  ASSERT_NE(find(rows, "h100", "one", "data-only"), nullptr);
  EXPECT_EQ(find(rows, "", "one", "")->count, 2);
  EXPECT_EQ(find(rows, "a100", "", "")->count, 1);
  EXPECT_EQ(find(rows, "", "", "")->count, 2);
}

TEST(AccuracyOfCases, PercentilesAreOfMeasuredOverPredicted) {
  std::vector<Case> cases;
  for (int i = 0; i <= 10; ++i) cases.push_back(measured_case("a100", "one", 8, 0.9 + 0.02 * i, 1));
  const plan::Accuracy rows = accuracy_of(cases, {});
  EXPECT_NEAR(find(rows, "", "one", "")->p10, 0.92, 1e-9);
  EXPECT_NEAR(find(rows, "", "one", "")->p90, 1.08, 1e-9);
  EXPECT_EQ(find(rows, "", "one", "")->max_devices, 64);
}

TEST(AccuracyOfCases, RowsForAnyStackComeFromRunsWhoseStackWasNotSeen) {
  const plan::Accuracy rows =
      accuracy_of({measured_case("a100", "one", 8, 1, 1)}, {measured_case("a100", "one", 8, 1.5, 1)});
  EXPECT_DOUBLE_EQ(find(rows, "", "one", "")->p90, 1);
  EXPECT_DOUBLE_EQ(find(rows, "a100", "", "")->p90, 1.5);
  EXPECT_DOUBLE_EQ(find(rows, "", "", "")->p90, 1.5);
}

TEST(AccuracyOfCases, UndocumentedAndUncoveredRunsDoNotCount) {
  Case poor = measured_case("a100", "one", 8, 1, 1);
  poor.run.grade = "C";
  Case uncovered = measured_case("a100", "one", 8, 1, 1);
  uncovered.not_covered = "no layout";
  EXPECT_TRUE(accuracy_of({poor, uncovered}, {poor, uncovered}).empty());
}

}  // namespace
}  // namespace twinpod::validate
