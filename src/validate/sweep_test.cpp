#include "validate/sweep.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "spec/test_catalog.hpp"

namespace twinpod::validate {
namespace {

const spec::Catalog& catalog() {
  static const spec::Catalog shared(TWINPOD_CATALOG_DIR);
  return shared;
}

const std::vector<Sweep>& catalog_sweeps() {
  static const std::vector<Sweep> all = [] {
    Result<std::vector<Sweep>> sweeps = read_catalog_sweeps(catalog());
    EXPECT_TRUE(sweeps.has_value()) << (sweeps ? "" : to_string(sweeps.error()));
    return sweeps ? *sweeps : std::vector<Sweep>{};
  }();
  return all;
}

// By the id of their sweep.
const std::map<std::string, SweepRanking>& catalog_rankings() {
  static const std::map<std::string, SweepRanking> all = [] {
    Library library(catalog());
    std::map<std::string, SweepRanking> rankings;
    for (const Sweep& sweep : catalog_sweeps()) {
      const Result<SweepRanking> ranking = rank_points(sweep, library);
      EXPECT_TRUE(ranking.has_value()) << sweep.id;
      if (ranking) rankings.emplace(sweep.id, *ranking);
    }
    return rankings;
  }();
  return all;
}

PublishedRun measured(const std::string& id, double tp, double seconds) {
  PublishedRun run;
  run.id = id;
  run.tp = tp;
  run.seq = 1000;
  run.gbs = 10;
  run.iter_time_s = seconds;
  return run;
}

Result<std::vector<Sweep>> sweeps_in(const std::string& text) {
  const spec::TestCatalog files;
  return read_sweeps(files.write("sweeps.yaml", text), {measured("slow", 1, 4), measured("fast", 2, 2),
                                                        measured("fast-again", 2, 1), measured("not", 4, 0)});
}

std::string refusal(const std::string& text) {
  const Result<std::vector<Sweep>> sweeps = sweeps_in(text);
  return sweeps ? "" : sweeps.error().message;
}

constexpr const char* kHead = "- id: s\n  source: paper\n";

TEST(Sweeps, EachBatchOfADrawnSweepIsASweepOfItsOwn) {
  const std::vector<Sweep> sweeps =
      sweeps_in(std::string(kHead) +
                "  shared: {layers: 24, pp: 2, sp: false}\n  batches: [8, 16]\n"
                "  points:\n    - {tp: 1}\n    - {tp: 2, pp: 1}\n  winner: {tp: 2, pp: 1}\n")
          .value();
  ASSERT_EQ(sweeps.size(), 2U);
  EXPECT_EQ(sweeps[1].id, "s-gbs16");
  EXPECT_EQ(sweeps[1].winner, 1U);
  const PublishedRun& first = sweeps[1].points[0].run;
  EXPECT_EQ(first.gbs, 16);
  EXPECT_EQ(first.layers, 24);
  EXPECT_EQ(first.pp, 2);
  EXPECT_EQ(first.sp, 0);
  EXPECT_EQ(first.gated_mlp, -1) << "not stated";
  EXPECT_EQ(sweeps[1].points[1].run.pp, 1) << "the point wins over what is shared";
}

TEST(Sweeps, RepeatsOfALayoutCountByTheirBest) {
  const Sweep sweep =
      sweeps_in(std::string(kHead) + "  runs: [slow, fast, fast-again]\n  winner: fast-again\n").value()[0];
  ASSERT_EQ(sweep.points.size(), 2U);
  EXPECT_EQ(sweep.points[sweep.winner].run.id, "fast-again");
  EXPECT_EQ(sweep.points[sweep.winner].measured_tokens_per_s, 10000);
}

TEST(Sweeps, MistakesAreNamed) {
  const std::string head = kHead;
  EXPECT_EQ(refusal(head + "  runs: [slow, fasst]\n  winner: slow\n"),
            "runs holds `fasst`; expected the id of a measured run");
  EXPECT_EQ(refusal(head + "  runs: [slow, not]\n  winner: slow\n"),
            "runs holds `not`; expected the id of a measured run");
  EXPECT_EQ(refusal(head + "  runs: [slow, fast]\n  winner: other\n"),
            "winner other is none of the runs, or not the best repeat");
  EXPECT_EQ(refusal(head + "  runs: [slow]\n  winner: slow\n"), "runs is a list; expected a list of at least 2");
  EXPECT_EQ(refusal(head + "  shared: {}\n  batches: [1]\n  points: [{tp: 1}, {tp: 2}]\n  winner: {tp: 3}\n"),
            "winner tp 3 is none of the points");
  EXPECT_EQ(refusal(head + "  shared: {tq: 1}\n  batches: [1]\n  points: [{tp: 1}, {tp: 2}]\n  winner: {tp: 2}\n"),
            "shared has no key `tq`");
  EXPECT_EQ(refusal(head + "  winner: {tp: 1}\n"), "sweep has no `shared`, which it needs");
}

TEST(Sweeps, PointsOfAMeasuredSweepDoTheSameWork) {
  for (const Sweep& sweep : catalog_sweeps()) {
    const PublishedRun& first = sweep.points.front().run;
    for (const SweepPoint& point : sweep.points) {
      const PublishedRun& run = point.run;
      EXPECT_TRUE(run.layers == first.layers && run.hidden == first.hidden && run.heads == first.heads &&
                  run.seq == first.seq && run.devices == first.devices && run.framework == first.framework)
          << sweep.id << ": " << run.id;
      EXPECT_LE(std::fabs(run.gbs / first.gbs - 1), 0.02) << sweep.id << ": " << run.id;
    }
  }
}

TEST(Sweeps, TheWinnerOfAMeasuredSweepIsItsFastest) {
  for (const Sweep& sweep : catalog_sweeps()) {
    for (const SweepPoint& point : sweep.points) {
      EXPECT_LE(point.measured_tokens_per_s, sweep.points[sweep.winner].measured_tokens_per_s) << sweep.id;
    }
  }
}

// At tp 1 a stage of 175 B is eight times as large as at tp 8, and no A100 holds it, however fast it would be.
TEST(Sweeps, WhatDoesNotFitComesLast) {
  Sweep sweep = catalog_sweeps().front();
  sweep.points = {sweep.points[0], sweep.points[0]};
  sweep.points[1].run.tp = 1;
  sweep.points[1].run.pp = 12;
  sweep.winner = 0;
  Library library(catalog());
  const SweepRanking ranking = rank_points(sweep, library).value();
  EXPECT_EQ(ranking.winner_rank, 1);
  EXPECT_FALSE(ranking.ranked[1].fits);
}

// The one exception has 15 layouts. Its winner, pp 12 at dp 8, was measured 1 % faster than pp 6 at dp 16, which is
// less than the repeats of the winner differ (3 %); the closed form has it 6 % slower, in the fourth place.
constexpr std::string_view kMissed = "bigscience-a100-181b-72l-h14336-a64-384-mended";

TEST(Sweeps, WinnersAreAmongTheFirstThree) {
  EXPECT_GE(catalog_rankings().size(), 30U);
  for (const auto& [id, ranking] : catalog_rankings()) {
    EXPECT_LE(ranking.winner_rank, id == kMissed ? 4 : 3) << id;
  }
}

TEST(Sweeps, MostWinnersAreFirst) {
  const auto first = std::count_if(catalog_rankings().begin(), catalog_rankings().end(),
                                   [](const auto& one) { return one.second.winner_rank == 1; });
  EXPECT_GE(first, 22);
}

// SC'21 says that 145 B with 16 micro-batches in flight do not fit without recompute; the closed form counts 70 of 80
// GB. The others that are missed are ties of the closed form, though not always of the measurement: see the next test.
TEST(Sweeps, AWinnerThatIsNotFirstIsNear) {
  for (const auto& [id, ranking] : catalog_rankings()) {
    if (id == "sc21-fig17-large-gbs256") continue;
    EXPECT_LE(ranking.winner_lag, id == kMissed ? 0.07 : 0.01) << id;
  }
}

// 196 B: the closed form has micro-batches of 2 and 4 within 0.1 % of each other; measured, 4 is 8 % faster. All other
// sweeps lose 1.2 % or less.
TEST(Sweeps, TakingThePredictedBestCostsLittle) {
  double sum = 0;
  int count = 0;
  for (const Sweep& sweep : catalog_sweeps()) {
    if (sweep.points[sweep.winner].measured_tokens_per_s <= 0) continue;
    const double regret = catalog_rankings().at(sweep.id).regret;
    EXPECT_LE(regret, 0.08) << sweep.id;
    sum += regret;
    ++count;
  }
  EXPECT_GE(count, 14);
  EXPECT_LE(sum / count, 0.01);
}

}  // namespace
}  // namespace twinpod::validate
