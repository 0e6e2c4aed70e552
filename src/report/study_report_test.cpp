#include "report/study_report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace twinpod::report {
namespace {

Study small_study() {
  Study study{.name = "a & b", .workers = 4, .servers = 1, .steps = 50, .step_s = 0.05, .pace_s = 0.05};
  study.straggler = "0:2";
  study.alone_tokens_per_s = 1000;
  study.target_loss = 3;
  StudyMode reduced{.mode = "all_reduce", .tokens_per_s = 2000, .simulated_tokens_per_s = 1990, .scale_factor = 0.5};
  reduced.final_loss = 2.9;
  reduced.curve = {{1, 100, 5}, {2, 200, 4}, {4, 400, 2}};
  reduced.time_to_target_s = seconds_to(reduced.curve, 3);
  StudyMode async = reduced;
  async.mode = "async";
  async.served = true;
  async.report.staleness_histogram = {10, 0, 10};
  async.report.staleness_max = 2;
  async.report.pushed_bytes = 5'000'000;
  study.modes = {reduced, async};
  study.scaled_on = "simulated somewhere";
  study.scaling = {{"all_reduce", 16, 1, 8e3, 0.5}, {"async", 16, 1, 14e3, 0.875}};
  return study;
}

TEST(StudyReport, TimeToALossIsBetweenTwoPoints) {
  const std::vector<StudyPoint> curve = {{1, 100, 5}, {2, 200, 4}, {4, 400, 2}};
  EXPECT_EQ(seconds_to(curve, 6), 1);
  EXPECT_EQ(seconds_to(curve, 4), 2);
  EXPECT_EQ(seconds_to(curve, 3), 3);
  EXPECT_EQ(seconds_to(curve, 1), -1);
  EXPECT_EQ(seconds_to({}, 1), -1);
}

TEST(StudyReport, TableSaysWhatWasMeasuredAndSimulated) {
  const std::string text = study_text(small_study());
  EXPECT_NE(
      text.find("4 workers, 1 server, 50 steps of each, a step takes 50.0 ms at least, worker 0 is 2 times as slow"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("async           2000       1990          0.50      0 %            1.00    2"), std::string::npos)
      << text;
  EXPECT_NE(text.find("16 workers"), std::string::npos);
  EXPECT_NE(text.find("14.0 k/s"), std::string::npos);
}

TEST(StudyReport, JsonHasAllModesAndSizes) {
  const auto json = nlohmann::json::parse(study_json(small_study()));
  EXPECT_EQ(json["modes"].size(), 2U);
  EXPECT_EQ(json["modes"][1]["staleness_mean"], 1.0);
  EXPECT_EQ(json["modes"][1]["time_to_target_s"], 3.0);
  EXPECT_EQ(json["scaling"][1]["scale_factor"], 0.875);
}

TEST(StudyReport, PictureHasFourChartsAndSafeText) {
  const std::string svg = study_svg(small_study());
  EXPECT_NE(svg.find("a &amp; b: synchronous"), std::string::npos);
  for (const char* title : {"Loss against time", "Loss against samples", "Throughput by mode", "Simulated at scale"}) {
    EXPECT_NE(svg.find(title), std::string::npos) << title;
  }
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  Study bare = small_study();
  bare.scaling.clear();
  for (StudyMode& mode : bare.modes) mode.curve.clear();
  EXPECT_EQ(study_svg(bare).find("nan"), std::string::npos);
}

}  // namespace
}  // namespace twinpod::report
