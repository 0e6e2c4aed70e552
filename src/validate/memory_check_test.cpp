#include "validate/memory_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace twinpod::validate {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

const std::vector<MemoryCase>& catalog_cases() {
  static const std::vector<MemoryCase> kCases = [] {
    const spec::Catalog catalog(TWINPOD_CATALOG_DIR);
    const Result<std::vector<PublishedRun>> runs = read_catalog_runs(catalog);
    EXPECT_TRUE(runs);
    return runs ? check_memory_rows(catalog, *runs) : std::vector<MemoryCase>{};
  }();
  return kCases;
}

std::vector<double> errors_of(const std::function<bool(const MemoryCase&)>& wanted) {
  return memory_errors(catalog_cases(), wanted);
}

bool is_memory_row(const MemoryCase& one) { return one.run.kind == "memory"; }

double share_within(const std::vector<double>& errors, double limit) {
  const auto within = std::count_if(errors.begin(), errors.end(), [&](double e) { return std::fabs(e) <= limit; });
  return static_cast<double>(within) / static_cast<double>(errors.size());
}

TEST(MemoryCheck, EveryRowThatPrintsItsMemoryIsCovered) {
  EXPECT_GE(catalog_cases().size(), 174U);
  for (const MemoryCase& one : catalog_cases()) EXPECT_TRUE(one.covered()) << one.run.id << ": " << one.not_covered;
}

// The one row beyond: 60 layers over 16 stages in two nodes. Its printed figure is that of three layers and an
// embedding, which is the fullest stage of the first node; the last stage, in the second, holds four layers and the
// head.
TEST(MemoryCheck, MemoryRowsAreWithinTenPercent) {
  const std::vector<double> errors = errors_of(is_memory_row);
  EXPECT_EQ(errors.size(), 18U);
  EXPECT_GE(share_within(errors, 0.10), 17.0 / 18);
  EXPECT_GE(share_within(errors, 0.15), 1.0);
  EXPECT_LE(statistics(errors).median, 0.045);
}

TEST(MemoryCheck, AllRowsKeepTheirAccuracy) {
  const Statistics all = statistics(errors_of([](const MemoryCase&) { return true; }));
  EXPECT_LE(all.median, 0.03);
  EXPECT_LE(all.mean, 0.05);
  EXPECT_LE(all.p90, 0.11);
}

TEST(MemoryCheck, EachSourceKeepsItsAccuracy) {
  const auto median = [](const char* file) {
    return statistics(errors_of([&](const MemoryCase& one) { return one.run.file.find(file) != std::string::npos; }))
        .median;
  };
  EXPECT_LE(median("zerobubble.yaml"), 0.025);
  EXPECT_LE(median("mlperf.yaml"), 0.02);
  EXPECT_LE(median("bigscience.yaml"), 0.05);
  EXPECT_LE(median("torchtitan.yaml"), 0.06);
  EXPECT_LE(median("ml-engineering.yaml"), 0.05);
}

TEST(MeterOf, KnowsWhatEachFrameworkReads) {
  PublishedRun run;
  EXPECT_EQ(meter_of(run).counter, Counter::used);
  EXPECT_EQ(meter_of(run).unit, 1e9);
  run.framework = "torchtitan";
  EXPECT_EQ(meter_of(run).counter, Counter::reserved);
  run.framework = "NeMo 25.04";
  EXPECT_EQ(meter_of(run).counter, Counter::allocated);
  EXPECT_FALSE(meter_of(run).first_rank);
  run.model = "Llama 3.1 405B (MLPerf)";
  EXPECT_TRUE(meter_of(run).first_rank);
  run = {};
  run.framework = "Megatron-DeepSpeed";
  EXPECT_EQ(meter_of(run).unit, kGib);
}

// What shows that MLPerf's figures are GiB of the first rank: more data-parallel ranks shard 12 bytes for each
// parameter.
TEST(MemoryCheck, MlperfRowsDifferByTheOptimizersShards) {
  const auto of = [](const char* id) {
    const auto found = std::find_if(catalog_cases().begin(), catalog_cases().end(),
                                    [&](const MemoryCase& one) { return one.run.id == id; });
    EXPECT_NE(found, catalog_cases().end()) << id;
    return *found;
  };
  const MemoryCase few = of("mlperf50-llama405b-h100-512");
  const MemoryCase many = of("mlperf50-llama405b-h100-2048");
  const double measured = few.measured_bytes - many.measured_bytes;
  EXPECT_NEAR((few.predicted_bytes - many.predicted_bytes) / measured, 1, 0.01);
}

TEST(MemoryCheck, ARowWithoutDimensionsSaysWhy) {
  const spec::Catalog catalog(TWINPOD_CATALOG_DIR);
  PublishedRun run;
  run.id = "short";
  run.kind = "memory";
  run.mem_gb = 10;
  const std::vector<MemoryCase> cases = check_memory_rows(catalog, {run});
  ASSERT_EQ(cases.size(), 1U);
  EXPECT_EQ(cases[0].not_covered, "no model dimensions");
  EXPECT_TRUE(memory_errors(cases, [](const MemoryCase&) { return true; }).empty());
}

}  // namespace
}  // namespace twinpod::validate
