#include "report/measured_report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace twinpod::report {
namespace {

validate::CollectiveCheck small_check() {
  validate::CollectiveCheck check;
  validate::CollectiveRow row;
  row.system = "node";
  row.collective = "all-reduce";
  row.ranks = 8;
  row.bytes = 4 << 20;
  row.measured_s = 1e-4;
  row.predicted.time_s = 1.1e-4;
  row.error = 0.1;
  check.rows.push_back(row);
  row.bytes = 1024;
  row.predicted.time_s = 0.5e-4;
  row.error = -0.5;
  check.rows.push_back(row);
  check.all = validate::summary_of({0.1, 0.5});
  check.large = validate::summary_of({0.1});
  check.small = validate::summary_of({0.5});
  return check;
}

TEST(MeasuredReport, JsonHasTheRowsAndTheirErrors) {
  const auto json = nlohmann::json::parse(collective_check_json({small_check()}));
  EXPECT_EQ(json["rows"].size(), 2U);
  EXPECT_DOUBLE_EQ(json["rows"][1]["error"], -0.5);
  EXPECT_DOUBLE_EQ(json["rows"][0]["measured_s"], 1e-4);
  EXPECT_DOUBLE_EQ(json["median_error"], 0.3);
  EXPECT_DOUBLE_EQ(json["from_1_mib"]["median_error"], 0.1);
}

TEST(MeasuredReport, TheWorstRowComesFirst) {
  const std::string text = collective_check_text({small_check()}, 1);
  EXPECT_NE(text.find("-50.0 %"), std::string::npos) << text;
  EXPECT_EQ(text.find("+10.0 %"), std::string::npos) << text;
}

TEST(MeasuredReport, ZeroWorstRowsPrintNone) {
  EXPECT_EQ(collective_check_text({small_check()}, 0).find("largest errors"), std::string::npos);
}

TEST(MeasuredReport, AClassWithoutRowsHasNoError) {
  validate::CollectiveCheck check = small_check();
  check.small = {};
  const auto json = nlohmann::json::parse(collective_check_json({check}));
  EXPECT_TRUE(json["below_1_mib"]["median_error"].is_null());
}

TEST(MeasuredReport, GemmJsonHasTheColumnsOfTheTable) {
  validate::GemmCheck check;
  validate::GemmRow row;
  row.device = "d";
  row.dtype = "bf16";
  row.shape = {1, 2, 3, 4};
  check.rows.push_back(row);
  const auto json = nlohmann::json::parse(gemm_check_json({check}));
  EXPECT_EQ(json["rows"][0]["k"], 4);
}

}  // namespace
}  // namespace twinpod::report
