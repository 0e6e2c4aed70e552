#include "report/tables.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <sstream>

#include "report/test_job.hpp"

namespace twinpod::report {
namespace {

std::string text_of(const spec::Job& job, EstimateOptions options = {}) {
  return estimate_text(job, plan::assess(job, test_accuracy()), options);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Tables, RoundedPartsAddUpToTheRoundedWhole) {
  const std::vector<double> shown = rounded_to_add_up({33.333, 33.333, 33.334}, 1);
  EXPECT_NEAR(std::accumulate(shown.begin(), shown.end(), 0.0), 100.0, 1e-9);
  EXPECT_NEAR(shown[0], 33.3, 1e-9);
  EXPECT_NEAR(shown[2], 33.4, 1e-9);
}

TEST(Tables, RoundingChangesNothingThatIsRound) {
  EXPECT_EQ(rounded_to_add_up({1, 2, 3}, 0), (std::vector<double>{1, 2, 3}));
  EXPECT_TRUE(rounded_to_add_up({}, 1).empty());
}

TEST(Tables, BarsAreAsLongAsTheirShare) {
  EXPECT_EQ(bar(0.5, 4), "██");
  EXPECT_EQ(bar(0, 4), "");
  EXPECT_EQ(bar(2, 4), "████");
}

TEST(Tables, TheFirstLinesSayWhatIsEstimated) {
  const std::string text = text_of(pipeline_job());
  EXPECT_TRUE(contains(text, "Test model on 64 × Test device of Test cluster\n"));
  EXPECT_TRUE(contains(text, "dp 4 × tp 4 × pp 4, 1f1b, micro-batch 1, ZeRO 1, recompute none\n"));
  EXPECT_TRUE(contains(text, "batch 256 × 2,048 tokens = 524 k, bf16, adam, stack test-stack\n"));
}

TEST(Tables, TheRangeIsPrintedWithWhatItRestsOn) {
  EXPECT_TRUE(contains(text_of(pipeline_job()), "in 8 of 10 cases (20 runs of test-stack on test, pipeline)\n"));
}

TEST(Tables, OutsideOfValidationIsSaid) {
  spec::Job job = pipeline_job();
  job.stack.name = "unknown";
  EXPECT_TRUE(contains(text_of(job), "outside what was validated: 0 runs of unknown on test, pipeline"));
}

TEST(Tables, PercentagesOfTheStepAddUpToAHundred) {
  std::istringstream lines(text_of(pipeline_job()));
  double sum = 0;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (contains(line, "time of a step")) inside = true;
    if (line.rfind("  step ", 0) == 0) break;
    std::istringstream cells(line);
    std::string name;
    double seconds = 0;
    double percent = 0;
    if (inside && cells >> name >> seconds >> percent) sum += percent;
  }
  EXPECT_NEAR(sum, 100.0, 1e-6);
}

TEST(Tables, StagesAreListedOnRequest) {
  EXPECT_FALSE(contains(text_of(pipeline_job()), "peak, GB"));
  EXPECT_TRUE(contains(text_of(pipeline_job(), {false, true}), "peak, GB"));
}

TEST(Tables, ExplainingPrintsAFormulaForEachMetric) {
  const std::string text = text_of(pipeline_job(), {true, false});
  EXPECT_TRUE(contains(text, "= T_n / (n × T)"));
  EXPECT_TRUE(contains(text, "= model FLOP/s / peak"));
  EXPECT_TRUE(contains(text, "waiting for other stages, uneven stages included"));
}

TEST(Tables, OneScreenIsEnough) {
  const std::string text = text_of(pipeline_job());
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 48);
}

TEST(Tables, LayoutsNameOnlyWhatIsUsed) {
  spec::Job job = pipeline_job();
  job.layout.virtual_stages = 2;
  job.layout.schedule = spec::Schedule::interleaved;
  job.layout.sequence_parallel = true;
  job.layout.offload_optimizer = true;
  EXPECT_EQ(layout_text(job),
            "dp 4 × tp 4 × pp 4, interleaved × 2, micro-batch 1, sequence parallel, ZeRO 1, recompute none, "
            "optimizer on the host");
}

}  // namespace
}  // namespace twinpod::report
