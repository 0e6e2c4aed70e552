#include "report/calibration_report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace twinpod::report {
namespace {

using validate::Standing;

validate::CalibratedNumber number(const char* name, Standing standing, double before, double after) {
  return {spec::find_physics_field(name), standing, before, after};
}

validate::CalibratedRun run(const char* log, double measured_s, double before_s, double after_s, double unseen_s) {
  validate::CalibratedRun run;
  run.log = log;
  run.job_file = "job.yaml";
  run.measured = {measured_s, 16, 4, 0.01};
  run.before_s = before_s;
  run.after_s = after_s;
  run.unseen_s = unseen_s;
  return run;
}

validate::Calibration calibration() {
  validate::Calibration c;
  c.base = "torchtitan";
  c.device = "h100";
  c.jobs = 3;
  c.numbers = {number("pace", Standing::fitted, 1, 1.2), number("dp_hidden", Standing::not_told, 0.6, 0.6),
               number("tp_hidden", Standing::not_needed, 0.2, 0.2),
               number("step_fixed_s", Standing::too_few_jobs, 0.01, 0.01)};
  c.runs = {run("a.log", 10, 8, 10, 10.4), run("b.log", 10, 9, 10.2, 9.7), run("c.log", 10, 7, 9.9, 10.1)};
  c.memory.readings = {{"a.log", validate::Counter::reserved, 0, 50e9, 45e9, 50e9}};
  c.memory.fits_reserve = true;
  return c;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(CalibrationReport, TellsTheErrorsBeforeAfterAndUnseen) {
  const std::string text = calibration_text(calibration(), {"", "my.yaml"});
  EXPECT_TRUE(contains(text, "3 logs of 3 jobs, from torchtitan on h100\n")) << text;
  EXPECT_TRUE(contains(text, "median error of the step time: 20.0 % before, 1.0 % after\n")) << text;
  EXPECT_TRUE(contains(text, "predicted from the others: 3.0 %, at worst 4.0 %;")) << text;
  EXPECT_TRUE(contains(text, "wrote my.yaml")) << text;
}

TEST(CalibrationReport, SaysWhyANumberStayed) {
  const std::string text = calibration_text(calibration(), {});
  EXPECT_TRUE(contains(text, "cannot tell them apart from the numbers above: dp_hidden\n")) << text;
  EXPECT_TRUE(contains(text, "they explain nothing more: tp_hidden\n")) << text;
  EXPECT_TRUE(contains(text, "one more job that differs to free them: step_fixed_s\n")) << text;
}

TEST(CalibrationReport, WithoutAFileTheStackIsPrinted) {
  EXPECT_TRUE(calibration_text(calibration(), {"base: torchtitan\n", ""}).ends_with("\nbase: torchtitan\n"));
}

TEST(CalibrationReport, FewJobsAreNotEnoughForTheUnseen) {
  validate::Calibration c = calibration();
  c.jobs = 1;
  const std::string text = calibration_text(c, {});
  EXPECT_FALSE(contains(text, "unseen"));
  EXPECT_TRUE(contains(text, "note: logs of three jobs or more"));
}

TEST(CalibrationReport, WarnsOfWhatIsHardToBelieve) {
  validate::Calibration c = calibration();
  c.numbers[0].after = 2.0;
  c.runs[0].after_s = 15;
  const std::string text = calibration_text(c, {});
  EXPECT_TRUE(contains(text, "note: pace is at the bound"));
  EXPECT_TRUE(contains(text, "note: a.log is still +50.0 % off"));
}

TEST(CalibrationReport, JsonHasTheSameFigures) {
  const auto json = nlohmann::json::parse(calibration_json(calibration(), {"base: torchtitan\n", "my.yaml"}));
  EXPECT_EQ(json["base"], "torchtitan");
  EXPECT_NEAR(json["median_error_before"], 0.2, 1e-12);
  EXPECT_NEAR(json["median_error_unseen"], 0.03, 1e-12);
  EXPECT_EQ(json["parameters"], nlohmann::json({{"pace", 1.2}}));
  EXPECT_EQ(json["logs"].size(), 3U);
  EXPECT_EQ(json["numbers"][1]["standing"], "not_told");
  EXPECT_EQ(json["memory"]["readings"][0]["counter"], "reserved");
  EXPECT_TRUE(json["memory"]["runtime_bytes"].is_null());
  EXPECT_EQ(json["wrote"], "my.yaml");
}

TEST(CalibrationReport, JsonOfFewJobsHasNoUnseenErrors) {
  validate::Calibration c = calibration();
  c.jobs = 2;
  const auto json = nlohmann::json::parse(calibration_json(c, {}));
  EXPECT_TRUE(json["median_error_unseen"].is_null());
  EXPECT_TRUE(json["logs"][0]["unseen_s"].is_null());
  EXPECT_TRUE(json["wrote"].is_null());
}

}  // namespace
}  // namespace twinpod::report
