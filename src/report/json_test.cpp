#include "report/json.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/test_job.hpp"

namespace twinpod::report {
namespace {

using Json = nlohmann::json;

Json json_of(const spec::Job& job, EstimateOptions options = {}) {
  return Json::parse(estimate_json(job, plan::assess(job, test_accuracy()), options));
}

TEST(EstimateJson, HasTheKeysThatScriptsUse) {
  const Json json = json_of(pipeline_job());
  for (const char* key : {"step_time_s", "tokens_per_s", "mfu", "hfu", "scale_factor", "memory_bytes", "parameters",
                          "gradients", "optimizer", "activations", "breakdown_s", "time_to_train_s", "cost_usd",
                          "range", "validated", "warnings", "layout", "devices"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
}

TEST(EstimateJson, TheBreakdownAddsUpToTheStep) {
  const Json json = json_of(pipeline_job());
  double sum = 0;
  for (const auto& [name, seconds] : json["breakdown_s"].items()) sum += seconds.get<double>();
  EXPECT_NEAR(sum, json["step_time_s"].get<double>(), 1e-9 * sum);
}

TEST(EstimateJson, ThePartsOfMemoryAddUpToItsTotal) {
  const Json json = json_of(pipeline_job());
  double sum = 0;
  for (const auto& [name, bytes] : json["memory_breakdown_bytes"].items()) {
    sum += bytes.get<double>();
    EXPECT_EQ(json[name], bytes) << name;
  }
  EXPECT_NEAR(sum, json["memory_bytes"].get<double>(), 1e-9 * sum);
}

TEST(EstimateJson, WhatIsNotKnownIsNull) {
  spec::Job job = pipeline_job();
  EXPECT_TRUE(json_of(job)["cost_usd"].is_null());  // it has no price
  EXPECT_TRUE(json_of(job)["time_to_train_s"].is_number());
  job.training.tokens = 0;
  EXPECT_TRUE(json_of(job)["time_to_train_s"].is_null());
}

TEST(EstimateJson, TheRangeHoldsTheStep) {
  const Json json = json_of(pipeline_job());
  EXPECT_LT(json["step_time_low_s"], json["step_time_s"]);
  EXPECT_GT(json["step_time_high_s"], json["step_time_s"]);
  EXPECT_EQ(json["validated"], true);
  EXPECT_TRUE(json["outside_validation"].is_null());
}

TEST(EstimateJson, StagesAndFormulasComeOnRequest) {
  EXPECT_FALSE(json_of(pipeline_job()).contains("stages"));
  const Json json = json_of(pipeline_job(), {true, true});
  EXPECT_EQ(json["stages"].size(), 4U);
  EXPECT_TRUE(json["formulas"].contains("mfu"));
}

TEST(EstimateJson, ATargetLossBringsItsTime) {
  spec::Job job = pipeline_job();
  job.training.target_loss = 2.6;
  const Json json = json_of(job);
  EXPECT_TRUE(json["time_to_accuracy_s"].is_number());
  EXPECT_GT(json["accuracy"]["critical_batch_tokens"], 1e5);
}

TEST(EstimateJson, TextThatIsNotUtf8DoesNotThrow) {
  spec::Job job = pipeline_job();
  job.name = "\xff";
  EXPECT_FALSE(estimate_json(job, plan::assess(job, {}), {}).empty());
}

TEST(ErrorJson, SaysWhereAndWhat) {
  const Json json = Json::parse(error_json({ErrorKind::input, "tp is `x`", "write a number", "job.yaml", 3, 5}));
  EXPECT_EQ(json["error"]["kind"], "input");
  EXPECT_EQ(json["error"]["message"], "tp is `x`");
  EXPECT_EQ(json["error"]["file"], "job.yaml");
  EXPECT_EQ(json["error"]["line"], 3);
}

}  // namespace
}  // namespace twinpod::report
