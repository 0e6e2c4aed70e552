#include "validate/collective_check.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "spec/test_catalog.hpp"

namespace twinpod::validate {
namespace {

const spec::Catalog& shipped() {
  static const spec::Catalog catalog(TWINPOD_CATALOG_DIR);
  return catalog;
}

Result<CollectiveCheck> check_text(const std::string& rows) {
  const spec::TestCatalog files;
  files.write("t.csv", "system,collective,group_size,concurrent_groups,bytes,time_us\n" + rows);
  return check_collectives(shipped(), files.catalog().folder() + "/t.csv", HoldOut::none);
}

// What issue 4 asks for: 15 % from 1 MiB on, 30 % below.
TEST(CollectiveCheck, TheCatalogsNumbersAgreeWithTheMeasurements) {
  const CollectiveCheck check = check_collectives(shipped(), collectives_path(shipped()), HoldOut::none).value();
  EXPECT_GT(check.rows.size(), 2400U);
  EXPECT_LT(check.large.median, 0.07);
  EXPECT_LT(check.small.median, 0.12);
}

TEST(CollectiveCheck, GroupsThatWereNeverSeenArePredictedNearlyAsWell) {
  const CollectiveCheck check = check_collectives(shipped(), collectives_path(shipped()), HoldOut::groups).value();
  EXPECT_LT(check.large.median, 0.08);
  EXPECT_LT(check.small.median, 0.14);
}

TEST(CollectiveCheck, ThereAreFewNumbersForManyRows) {
  const CollectiveCheck check = check_collectives(shipped(), collectives_path(shipped()), HoldOut::none).value();
  EXPECT_LT(check.free_numbers * 30, static_cast<int>(check.rows.size()));
}

TEST(CollectiveCheck, TheErrorIsPredictedOverMeasured) {
  const CollectiveCheck check = check_text("H100_SXM_8gpu,all-reduce,8,1,1048576,1000000\n").value();
  EXPECT_DOUBLE_EQ(check.rows[0].error, check.rows[0].predicted.time_s - 1);
}

TEST(CollectiveCheck, AClusterOfTheCatalogIsASystemToo) {
  EXPECT_TRUE(check_text("dgx-superpod-a100-140,all_reduce,1120,1,1e9,10000\n"));
}

TEST(CollectiveCheck, AnUnknownSystemIsRefusedWithItsPlaceAndTheNearest) {
  const Error error = check_text("GB200_NVL27,all-reduce,8,1,1024,20\n").error();
  EXPECT_EQ(error.line, 2);
  EXPECT_NE(error.hint.find("GB200_NVL72"), std::string::npos) << error.hint;
}

TEST(CollectiveCheck, AnUnknownCollectiveIsRefusedWithItsColumn) {
  const Error error = check_text("H100_SXM_8gpu,all-reduc,8,1,1024,20\n").error();
  EXPECT_EQ(error.column, 15);
  EXPECT_NE(error.hint.find("all_reduce"), std::string::npos) << error.hint;
}

TEST(CollectiveCheck, AGroupOfOneIsRefused) {
  EXPECT_EQ(check_text("H100_SXM_8gpu,all-reduce,1,1,1024,20\n").error().message,
            "group_size is `1`; expected a whole number from 2 to 1048576");
}

TEST(CollectiveCheck, ATimeOfZeroIsRefused) { EXPECT_FALSE(check_text("H100_SXM_8gpu,all-reduce,8,1,1024,0\n")); }

TEST(RefitCollectives, WritesAFileThatReadsAgain) {
  const std::string text = refit_collectives(shipped(), collectives_path(shipped())).value();
  const spec::TestCatalog files;
  files.write("collectives.yaml", text);
  const auto again = cluster::read_collectives(files.catalog().folder() + "/collectives.yaml");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->systems.size(), cluster::read_collectives(shipped().folder() + "/collectives.yaml")->systems.size());
}

}  // namespace
}  // namespace twinpod::validate
