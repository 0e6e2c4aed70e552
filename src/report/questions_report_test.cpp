#include "report/questions_report.hpp"

#include <gtest/gtest.h>

#include "report/test_job.hpp"
#include "spec/test_catalog.hpp"

namespace twinpod::report {
namespace {

using plan::Terms;

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

spec::Job priced_job() {
  spec::Job job = pipeline_job();
  job.cluster.usd_per_device_hour = 2;
  return job;
}

// Nothing of it fits on one device.
spec::Job crowded_job() {
  spec::Job job = pipeline_job();
  job.cluster.devices = 1;
  job.cluster.device.memory_bytes = 8e9;
  return job;
}

std::vector<plan::World> worlds_of(const spec::Job& job, const std::vector<plan::Change>& changes) {
  const spec::TestCatalog files;
  return *plan::what_if(job, changes, files.catalog(), {});
}

TEST(QuestionsReport, WhatIfHasARowForEachWorld) {
  const std::string text = what_if_text(worlds_of(priced_job(), {{"network", 2, ""}, {"flops", 2, ""}}));
  for (const std::string_view name : {"today", "network ×2", "flops ×2", "all of them"}) EXPECT_TRUE(has(text, name));
}

TEST(QuestionsReport, WhatIfSaysWhenTheLayoutStays) {
  EXPECT_TRUE(has(what_if_text(worlds_of(priced_job(), {{"price", 2, ""}})), "same layout"));
}

TEST(QuestionsReport, WhatIfHasTheCostOfTheRunWhereItIsKnown) {
  EXPECT_TRUE(has(what_if_text(worlds_of(priced_job(), {{"price", 2, ""}})), "cost of the run"));
}

TEST(QuestionsReport, WhatIfHasTheCostOfAStepOtherwise) {
  spec::Job job = priced_job();
  job.training.tokens = 0;
  EXPECT_TRUE(has(what_if_text(worlds_of(job, {{"price", 2, ""}})), "cost of a step"));
}

TEST(QuestionsReport, WhatIfSaysWhenNothingFits) {
  EXPECT_TRUE(has(what_if_text(worlds_of(crowded_job(), {{"memory", 1.1, ""}})), "nothing fits"));
}

TEST(QuestionsReport, WhatIfJsonHasNullForWhatDoesNotFit) {
  const Json json = what_if_json(worlds_of(crowded_job(), {{"memory", 100, ""}}));
  EXPECT_TRUE(json[0]["best"].is_null());
  EXPECT_TRUE(json[1]["best"].is_object());
  EXPECT_TRUE(json[1]["speed_up"].is_null());
}

TEST(QuestionsReport, WhatIfJsonNamesItsChanges) {
  const Json json = what_if_json(worlds_of(priced_job(), {{"memory", 2, ""}, {"device", 1, "dev"}}));
  EXPECT_EQ(json[1]["changes"], Json::parse(R"([{"key": "memory", "factor": 2.0}])"));
  EXPECT_EQ(json[2]["changes"], Json::parse(R"([{"key": "device", "name": "dev"}])"));
}

TEST(QuestionsReport, AnswerJsonHasUnitsInItsKeys) {
  const plan::Answer best = *plan::best_of(priced_job(), {});
  const Json json = answer_json(best);
  EXPECT_EQ(json["devices"], 64);
  EXPECT_EQ(json["global_batch"].dump(), "256");
  EXPECT_DOUBLE_EQ(json["step_time_s"], best.metrics.step_time_s);
  EXPECT_DOUBLE_EQ(json["memory_bytes"], best.memory_bytes);
  EXPECT_DOUBLE_EQ(json["cost_usd"], *best.metrics.cost_usd);
}

TEST(QuestionsReport, AnswerJsonHasNullForAnUnknownPrice) {
  EXPECT_TRUE(answer_json(*plan::best_of(pipeline_job(), {}))["cost_per_step_usd"].is_null());
}

TEST(QuestionsReport, ScaleCurveTellsWhereItFalls) {
  const plan::ScaleCurve curve = plan::scale_curve(priced_job(), {8, 256}, {.threshold = 0.7}, {});
  EXPECT_TRUE(has(scale_curve_text(curve), "it falls under 0.7 beyond")) << scale_curve_text(curve);
}

TEST(QuestionsReport, ScaleCurveTellsWhenItDoesNotFall) {
  const plan::ScaleCurve curve = plan::scale_curve(priced_job(), {8, 16}, {.threshold = 0.1}, {});
  EXPECT_TRUE(has(scale_curve_text(curve), "up to 16 devices it is not under 0.1"));
}

TEST(QuestionsReport, ScaleCurveTellsWhenAllAreUnder) {
  const plan::ScaleCurve curve = plan::scale_curve(priced_job(), {8, 16}, {.threshold = 2}, {});
  EXPECT_TRUE(has(scale_curve_text(curve), "it is under 2 on all of them"));
}

TEST(QuestionsReport, ScaleCurveJsonHasEveryPoint) {
  const Json json = scale_curve_json(plan::scale_curve(priced_job(), {8, 16, 32}, {}, {}));
  EXPECT_EQ(json["scaling"], "strong");
  EXPECT_EQ(json["points"].size(), 3U);
  EXPECT_DOUBLE_EQ(json["points"][0]["scale_factor_of_smallest"], 1);
}

TEST(QuestionsReport, DeadlineMarksTheFewest) {
  const plan::DeadlineAnswer answer = *plan::within_deadline(priced_job(), 1e9, {8, 16}, {});
  EXPECT_TRUE(has(deadline_text(answer), "8 devices are enough")) << deadline_text(answer);
  EXPECT_EQ(deadline_json(answer)["fewest"]["devices"], 8);
}

TEST(QuestionsReport, DeadlineTellsHowNearItComes) {
  const plan::DeadlineAnswer answer = *plan::within_deadline(priced_job(), 1, {8, 16}, {});
  EXPECT_TRUE(has(deadline_text(answer), "not with any of these; the soonest is")) << deadline_text(answer);
  EXPECT_TRUE(deadline_json(answer)["fewest"].is_null());
  EXPECT_EQ(deadline_json(answer)["nearest"]["devices"], 16);
}

TEST(QuestionsReport, LargestSequenceNamesTheNext) {
  const plan::LargestSequence answer = *plan::largest_sequence(priced_job(), {});
  EXPECT_TRUE(has(largest_sequence_text(answer), "tokens do not fit"));
  EXPECT_EQ(largest_sequence_json(answer)["too_long"], answer.sequence + 1024);
}

TEST(QuestionsReport, LargestBatchMarksWhatIsEnough) {
  const plan::LargestBatch answer = *plan::largest_batch(priced_job(), {});
  EXPECT_TRUE(has(largest_batch_text(answer), "enough"));
  EXPECT_EQ(largest_batch_json(answer)["sequences_at_once"],
            answer.at_once.job.layout.dp * answer.at_once.job.layout.micro_batch);
}

TEST(QuestionsReport, LargestModelHasItsDimensions) {
  const plan::LargestModel answer = *plan::largest_model(priced_job(), {});
  EXPECT_TRUE(has(largest_model_text(answer), "layers, hidden"));
  EXPECT_EQ(largest_model_json(answer)["model"]["layers"], answer.best.job.model.layers);
}

TEST(QuestionsReport, SideBySideMarksTheBestOfAColumn) {
  spec::Job slow = priced_job();
  slow.cluster.name = "Slow cluster";
  slow.cluster.scale_out_bytes_per_s /= 10;
  const std::string text = side_by_side_text(plan::side_by_side({slow, priced_job()}, {}));
  const std::size_t mark = text.find('*');
  ASSERT_NE(mark, std::string::npos) << text;
  EXPECT_GT(mark, text.find("Slow cluster"));
  EXPECT_GT(mark, text.find("Test cluster"));
}

TEST(QuestionsReport, SideBySideSaysWhyOneDoesNotFit) {
  const std::vector<plan::Contender> contenders = plan::side_by_side({crowded_job(), priced_job()}, {});
  EXPECT_TRUE(has(side_by_side_text(contenders), "nothing fits on 1 Test device"));
  EXPECT_TRUE(side_by_side_json(contenders)[0]["best"].is_null());
}

}  // namespace
}  // namespace twinpod::report
