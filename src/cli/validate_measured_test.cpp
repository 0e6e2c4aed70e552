#include "cli/validate_measured.hpp"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "spec/test_catalog.hpp"

namespace twinpod::cli {
namespace {

constexpr std::array kFlags = {
    Flag{"collectives", "", "", ""}, Flag{"gemm", "", "", ""},      Flag{"cross-validate", "", "", ""},
    Flag{"refit", "FILE", "", ""},   Flag{"worst", "N", "", ""},    Flag{"json", "", "", ""},
    Flag{"catalog", "DIR", "", ""},  Flag{"reference", "", "", ""},
};

Result<std::string> run_with(const std::vector<std::string>& texts) {
  return validate_measured(parse_arguments(kFlags, texts).value());
}

TEST(ValidateMeasured, GemmAnswersWithTheKeysOfScripts) {
  const auto json = nlohmann::json::parse(run_with({"--gemm", "--json"}).value());
  EXPECT_TRUE(json.contains("median_error"));
  EXPECT_TRUE(json.contains("p90_error"));
  EXPECT_TRUE(json["rows"][0].contains("predicted_s"));
}

TEST(ValidateMeasured, ATableOfTheUserIsTaken) {
  const spec::TestCatalog files;
  files.write("t.csv", "system,collective,group_size,bytes,time_us\nH200_8gpu,all-reduce,8,32768,39.8\n");
  const auto json = nlohmann::json::parse(run_with({"--collectives", files.folder() + "/t.csv", "--json"}).value());
  EXPECT_EQ(json["rows"].size(), 1U);
}

TEST(ValidateMeasured, RefitWritesTheFile) {
  const spec::TestCatalog files;
  ASSERT_TRUE(run_with({"--gemm", "--refit", files.folder() + "/new.yaml"}));
  EXPECT_TRUE(std::filesystem::exists(files.folder() + "/new.yaml"));
}

TEST(ValidateMeasured, TwoTablesAtOnceAreRefused) { EXPECT_FALSE(run_with({"--gemm", "--collectives"})); }

TEST(ValidateMeasured, AFlagOfPublishedRunsIsRefused) {
  EXPECT_NE(run_with({"--gemm", "--reference"}).error().message.find("--reference"), std::string::npos);
}

}  // namespace
}  // namespace twinpod::cli
