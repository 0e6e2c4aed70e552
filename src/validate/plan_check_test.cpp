#include "validate/plan_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace twinpod::validate {
namespace {

TEST(PlanCheck, ThePlanIsAtLeastAsFastAsEveryReferenceRun) {
  const spec::Catalog catalog(TWINPOD_CATALOG_DIR);
  Library library(catalog);
  const std::vector<std::string> ids = reference_ids(catalog).value();
  int checked = 0;
  const std::vector<PublishedRun> runs = read_catalog_runs(catalog).value();
  for (const PublishedRun& run : runs) {
    if (std::find(ids.begin(), ids.end(), run.id) == ids.end()) continue;
    const PlanCheck check = check_plan(run, library).value();
    EXPECT_LE(check.best.step_time_s, check.published.step_time_s) << run.id;
    EXPECT_GE(check.rank, 1U) << run.id << " is not in the list";
    EXPECT_LE(check.rank, check.feasible) << run.id;
    ++checked;
  }
  EXPECT_EQ(checked, 40);
}

}  // namespace
}  // namespace twinpod::validate
