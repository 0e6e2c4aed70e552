#include "report/plan_report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/thousands.hpp"
#include "report/test_job.hpp"

namespace twinpod::report {
namespace {

using Json = nlohmann::json;

// A search with everything that a view can show, on one device count or several.
struct Planned {
  spec::Job job = pipeline_job();
  plan::SearchOptions options;
  plan::SearchResult found;
  std::optional<plan::Candidate> asked;
  std::optional<plan::Assessment> best;

  explicit Planned(const std::vector<int>& devices = {}) {
    const spec::Job own = job;
    job.cluster.usd_per_device_hour = 2;
    asked = plan::Candidate{plan::canonical(own), own.cluster.devices, plan::step_time(own).total_s,
                            plan::peak_memory(own).total()};
    options = {.keep = 200, .pareto = true, .asked = asked};
    plan::Wishes wishes;
    wishes.devices = devices;
    found = plan::search(plan::space_of(own, wishes, own.stack.abilities), options);
    job = job_of(job, found.ranked.front());
    best = plan::assess(job, test_accuracy());
  }

  PlanView view() const { return {job, found, options, best, asked, plan::neighbours(job)}; }
};

const Planned& planned() {
  static const Planned shared;
  return shared;
}

const Planned& planned_curve() {
  static const Planned shared({16, 32, 64});
  return shared;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Lines of the first table: those that begin with a rank.
std::vector<std::string> ranking_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream input(text);
  for (std::string line; std::getline(input, line);) {
    std::istringstream cells(line);
    std::size_t rank = 0;
    if (cells >> rank && rank == lines.size() + 1) lines.push_back(line);
  }
  return lines;
}

TEST(PlanText, SaysWhatWasSearchedAndHowManyFit) {
  const Planned& p = planned();
  const std::string text = plan_text(p.view());
  EXPECT_TRUE(contains(text, "Test model on 64 × Test device of Test cluster\n"));
  EXPECT_TRUE(contains(text, " layouts tried, "));
  EXPECT_TRUE(contains(text, "/s and core)\n"));
}

TEST(PlanText, ShowsEachShapeOnceUnlessAskedForAllVariants) {
  PlanView view = planned().view();
  view.top = 5;
  std::set<std::string> shapes;
  for (const std::string& line : ranking_lines(plan_text(view))) {
    std::istringstream cells(line);
    std::string rank, dp, tp, pp;
    cells >> rank >> dp >> tp >> pp;
    shapes.insert(line.substr(line.find(dp)));
  }
  EXPECT_EQ(shapes.size(), 5U);
  view.all_variants = true;
  view.top = 7;
  EXPECT_EQ(ranking_lines(plan_text(view)).size(), 7U);
}

TEST(PlanText, AxesThatNoLayoutUsesHaveNoColumn) { EXPECT_FALSE(contains(plan_text(planned().view()), " ep ")); }

TEST(PlanText, TheWinnerHasItsRangeItsBottleneckAndItsMemory) {
  const std::string text = plan_text(planned().view());
  EXPECT_TRUE(contains(text, "\nbest: dp "));
  EXPECT_TRUE(contains(text, " in 8 of 10 cases (") || contains(text, "outside what was validated"));
  EXPECT_TRUE(contains(text, " of the step; the most beside it is "));
  EXPECT_TRUE(contains(text, "\nmemory "));
  EXPECT_TRUE(contains(text, " tokens take "));
}

TEST(PlanText, TheUsersLayoutHasItsRankAndWhatItLoses) {
  const Planned& p = planned();
  ASSERT_GT(p.found.asked_rank, 1U);
  EXPECT_TRUE(
      contains(plan_text(p.view()), ": rank " + with_thousands(static_cast<double>(p.found.asked_rank)) + " of "));
  EXPECT_TRUE(contains(plan_text(p.view()), " % slower than the best: "));
}

TEST(PlanText, AUsersLayoutThatDoesNotFitSaysByHowMuch) {
  Planned p = planned();
  p.found.asked_rank = 0;
  p.job.cluster.device.memory_bytes = 1e9;
  EXPECT_TRUE(contains(plan_text(p.view()), ": does not fit: "));
}

TEST(PlanText, NeighboursComeWithExplain) {
  PlanView view = planned().view();
  EXPECT_FALSE(contains(plan_text(view), "why not another:"));
  view.explain = true;
  EXPECT_TRUE(contains(plan_text(view), "why not another:"));
  EXPECT_TRUE(contains(plan_text(view), " instead of "));
}

TEST(PlanText, ASearchThatWasStoppedSaysSo) {
  Planned p = planned();
  p.found.stopped = true;
  EXPECT_TRUE(contains(plan_text(p.view()), "stopped: the best so far\n"));
}

TEST(PlanText, SeveralDeviceCountsHaveACurve) {
  EXPECT_FALSE(contains(plan_text(planned().view()), "the best of each device count"));
  const std::string text = plan_text(planned_curve().view());
  EXPECT_TRUE(contains(text, "Test model on 16 to 64 × Test device"));
  EXPECT_TRUE(contains(text, "the best of each device count"));
  EXPECT_TRUE(contains(text, " 1.000  ██████████████████████████████\n"));
}

TEST(PlanText, WithoutALayoutThereIsNoTable) {
  Planned p = planned();
  p.found = {};
  p.asked.reset();
  p.best.reset();
  EXPECT_TRUE(contains(plan_text(p.view()), "no layout is left\n"));
}

TEST(PlanJson, HasTheKeysThatScriptsUse) {
  const Json json = Json::parse(plan_json(planned().view()));
  for (const char* key : {"job", "evaluated", "feasible", "seconds", "layouts_per_s", "stopped", "objective", "best",
                          "ranked", "pareto", "curve", "asked", "notes"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  for (const char* key :
       {"layout", "devices", "step_time_s", "mfu", "memory_bytes", "tokens_per_s", "parts_s", "range"}) {
    EXPECT_TRUE(json["best"].contains(key)) << key;
  }
  for (const char* key : {"dp", "tp", "pp", "virtual_stages", "cp", "ep", "etp", "sequence_parallel", "zero",
                          "shard_group", "micro_batch", "recompute", "recompute_layers", "schedule", "servers",
                          "offload_optimizer", "offload_activations", "uneven_ends"}) {
    EXPECT_TRUE(json["best"]["layout"].contains(key)) << key;
  }
}

TEST(PlanJson, TheFirstOfTheRankingIsTheBest) {
  const Json json = Json::parse(plan_json(planned().view()));
  EXPECT_EQ(json["ranked"].size(), planned().found.ranked.size());
  EXPECT_EQ(json["ranked"][0]["rank"], 1);
  EXPECT_EQ(json["ranked"][0]["layout"], json["best"]["layout"]);
}

TEST(PlanJson, UtilisationIsThatOfTheMetrics) {
  const Planned& p = planned();
  const Json json = Json::parse(plan_json(p.view()));
  EXPECT_NEAR(json["best"]["mfu"].get<double>(), p.best->metrics.mfu, 1e-9);
  EXPECT_NEAR(json["best"]["cost_usd"].get<double>(), *p.best->metrics.cost_usd, 1e-6 * *p.best->metrics.cost_usd);
}

TEST(PlanJson, ThePartsAddUpToTheStep) {
  const Json json = Json::parse(plan_json(planned().view()));
  double sum = 0;
  for (const auto& [name, seconds] : json["best"]["parts_s"].items()) sum += seconds.get<double>();
  EXPECT_NEAR(sum, json["best"]["step_time_s"].get<double>(), 1e-9 * sum);
}

TEST(PlanJson, WhatIsNotThereIsNull) {
  Planned p = planned();
  p.asked.reset();
  p.best.reset();
  p.found = {};
  p.job.training.tokens = 0;
  const Json json = Json::parse(plan_json(p.view()));
  EXPECT_TRUE(json["best"].is_null());
  EXPECT_TRUE(json["asked"].is_null());
  EXPECT_TRUE(json["layouts_per_s"].is_null());
  EXPECT_TRUE(json["ranked"].empty());
}

TEST(PlanJson, NeighboursComeWithExplain) {
  PlanView view = planned().view();
  EXPECT_FALSE(Json::parse(plan_json(view)).contains("neighbours"));
  view.explain = true;
  EXPECT_EQ(Json::parse(plan_json(view))["neighbours"].size(), view.neighbours.size());
}

TEST(PlanJson, TheCurveBeginsAtOne) {
  const Json curve = Json::parse(plan_json(planned_curve().view()))["curve"];
  ASSERT_EQ(curve.size(), 3U);
  EXPECT_EQ(curve[0]["relative_scale_factor"], 1.0);
  EXPECT_LT(curve[2]["relative_scale_factor"], 1.0);
}

TEST(PlanCsv, HasALineForEachRankedLayoutWithAsManyFieldsAsTheHeader) {
  const std::string csv = plan_csv(planned().view());
  std::istringstream lines(csv);
  std::size_t count = 0;
  std::size_t commas = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_EQ(line.back(), '\r');
    if (count == 0) commas = count_of(line, ",");
    EXPECT_EQ(count_of(line, ","), commas) << line;
  }
  EXPECT_EQ(count, planned().found.ranked.size() + 1);
}

TEST(ParetoSvg, HasADotForEachTradeOffAndOneForEachName) {
  const Planned& p = planned();
  // The set and its name, the best and the user's own with theirs.
  EXPECT_EQ(count_of(pareto_svg(p.view()), "<circle"), p.found.pareto.size() + 1 + 2 + 2);
}

TEST(ParetoSvg, ComparesDeviceCountsWhereThereAreSeveral) {
  EXPECT_TRUE(contains(pareto_svg(planned().view()), ">memory of the fullest device<"));
  EXPECT_TRUE(contains(pareto_svg(planned_curve().view()), ">devices<"));
}

TEST(ParetoSvg, IsWholeWithoutAnyLayout) {
  Planned p = planned();
  p.found = {};
  p.asked.reset();
  const std::string svg = pareto_svg(p.view());
  EXPECT_EQ(count_of(svg, "<svg"), 1U);
  EXPECT_EQ(count_of(svg, "</svg>"), 1U);
}

}  // namespace
}  // namespace twinpod::report
