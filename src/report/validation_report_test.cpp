#include "report/validation_report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace twinpod::report {
namespace {

using validate::Case;

Case covered_case(const std::string& id, double measured, double predicted, int fold) {
  Case one;
  one.run.id = id;
  one.run.grade = "A";
  one.run.iter_time_s = measured;
  one.made.job.stack.name = "megatron-2021";
  one.made.job.cluster.device.family = "a100";
  one.made.job.cluster.devices = 64;
  one.predicted_s = predicted;
  one.fold = fold;
  return one;
}

Validation small_validation() {
  Validation v;
  v.cases = {covered_case("first", 1, 1.1, 1), covered_case("second", 2, 1.9, validate::kHeldOutFold),
             covered_case("vtrain-multi-1", 1, 1.02, 2)};
  Case uncovered;
  uncovered.run.id = "third";
  uncovered.not_covered = "no layout";
  v.cases.push_back(uncovered);
  v.fittable = {"first", "second", "vtrain-multi-1"};
  v.reference = {"second"};
  v.predicted_by = "the parameters of the catalog";
  return v;
}

nlohmann::json json_of(const Validation& v, const ValidationOptions& options) {
  return nlohmann::json::parse(validation_json(v, options));
}

TEST(ValidationReport, JsonHasTheKeysThatScriptsUse) {
  const auto json = json_of(small_validation(), {});
  EXPECT_EQ(json["runs"].size(), 3U);
  EXPECT_EQ(json["runs"][0]["id"], "first");
  EXPECT_EQ(json["runs"][0]["measured_s"], 1.0);
  EXPECT_EQ(json["runs"][0]["predicted_s"], 1.1);
  EXPECT_NEAR(json["runs"][0]["error"].get<double>(), 0.1, 1e-12);
  EXPECT_NEAR(json["median_error"].get<double>(), 0.05, 1e-12);
  EXPECT_GT(json["p90_error"], json["median_error"]);
  EXPECT_TRUE(json.contains("mean_error"));
  EXPECT_EQ(json["count"], 3);
  EXPECT_EQ(json["not_covered"]["no layout"], 1);
}

TEST(ValidationReport, TheHeldOutFoldIsNeverUsedForFitting) {
  const Validation v = small_validation();
  EXPECT_TRUE(is_used_for_fit(v, v.cases[0]));
  EXPECT_FALSE(is_used_for_fit(v, v.cases[1]));
}

TEST(ValidationReport, PoorlyDocumentedRunsAreNeverUsedForFitting) {
  Validation v = small_validation();
  v.cases[0].run.grade = "C";
  EXPECT_FALSE(is_used_for_fit(v, v.cases[0]));
}

TEST(ValidationReport, RowsThatAreNotInTheCatalogAreNeverUsedForFitting) {
  Validation v = small_validation();
  v.fittable.clear();
  EXPECT_FALSE(is_used_for_fit(v, v.cases[0]));
}

TEST(ValidationReport, SplitTellsTheTwoApart) {
  const auto json = json_of(small_validation(), {.split = true});
  EXPECT_EQ(json["used_for_fit"]["count"], 2);
  EXPECT_EQ(json["never_used"]["count"], 1);
  const std::string text = validation_text(small_validation(), {.split = true});
  EXPECT_NE(text.find("all, used for fitting"), std::string::npos);
  EXPECT_NE(text.find("all, never used"), std::string::npos);
}

TEST(ValidationReport, TheWorstComeFirst) {
  const auto json = json_of(small_validation(), {.worst = 2});
  ASSERT_EQ(json["runs"].size(), 2U);
  EXPECT_EQ(json["runs"][0]["id"], "first");
  EXPECT_EQ(json["runs"][1]["id"], "second");
}

TEST(ValidationReport, ReferenceRunsCanBeSelected) {
  const auto json = json_of(small_validation(), {.only_reference = true});
  ASSERT_EQ(json["runs"].size(), 1U);
  EXPECT_EQ(json["runs"][0]["id"], "second");
}

TEST(ValidationReport, GroupsBySourceStackAndDevice) {
  EXPECT_TRUE(json_of(small_validation(), {})["groups"].contains("vtrain-multi"));
  EXPECT_TRUE(json_of(small_validation(), {})["groups"].contains("stack megatron-2021"));
  EXPECT_TRUE(json_of(small_validation(), {.by = "device"})["groups"].contains("device a100"));
}

TEST(ValidationReport, TextCountsWhatIsNotCovered) {
  const std::string text = validation_text(small_validation(), {});
  EXPECT_EQ(text.rfind("3 of 4 training runs are covered; predicted by the parameters of the catalog\n", 0), 0U);
  EXPECT_NE(text.find("no layout"), std::string::npos);
}

}  // namespace
}  // namespace twinpod::report
