#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"

namespace twinpod::cli {
namespace {

Result<std::string> answer(const std::vector<std::string>& texts) {
  const std::vector<Flag> flags = all_flags(kCollective);
  const Result<Arguments> arguments = parse_arguments(flags, texts);
  EXPECT_TRUE(arguments.has_value());
  return kCollective.run(*arguments);
}

nlohmann::json json_of(std::vector<std::string> texts) {
  texts.emplace_back("--json");
  const Result<std::string> text = answer(texts);
  EXPECT_TRUE(text.has_value()) << to_string(text.error());
  return text ? nlohmann::json::parse(*text) : nlohmann::json();
}

Error refusal(const std::vector<std::string>& texts) {
  const Result<std::string> text = answer(texts);
  EXPECT_FALSE(text.has_value());
  return text ? Error{} : text.error();
}

TEST(CollectiveCommand, SizesDoubleAndUnitsAreThoseOfNcclTests) {
  const nlohmann::json json = json_of({"all_reduce", "--on", "dgx-a100", "--bytes", "8..1K"});
  ASSERT_EQ(json["rows"].size(), 8U);
  EXPECT_EQ(json["rows"][7]["bytes"], 1024);
  EXPECT_EQ(json_of({"all_reduce", "--on", "dgx-a100", "--bytes", "1GB"})["rows"][0]["bytes"], 1e9);
  EXPECT_EQ(json_of({"all_reduce", "--on", "dgx-a100", "--bytes", "1G"})["rows"][0]["bytes"], 1 << 30);
}

TEST(CollectiveCommand, RowsHaveTheKeysThatScriptsUse) {
  const nlohmann::json row = json_of({"all_to_all", "--on", "dgx-h100", "--bytes", "64M"})["rows"][0];
  for (const char* key : {"bytes", "algorithm", "time_s", "algbw_bytes_per_s", "busbw_bytes_per_s"}) {
    EXPECT_TRUE(row.contains(key)) << key;
  }
}

TEST(CollectiveCommand, RanksOfATorusAreASlice) {
  EXPECT_EQ(
      json_of({"all_reduce", "--on", "tpu-v4-4096", "--ranks", "64", "--bytes", "1M"})["rows"][0]["algorithm"],
      json_of({"all_reduce", "--on", "tpu-v4-4096", "--slice", "4x4x4", "--bytes", "1M"})["rows"][0]["algorithm"]);
}

TEST(CollectiveCommand, FaultsStandBesideTheWholeMachine) {
  const nlohmann::json json = json_of({"all_to_all", "--on", "tpu-v4-4096", "--slice", "4x4x4", "--bytes", "64M",
                                       "--cut", "link=chip(0,0,0)-chip(0,0,1)"});
  EXPECT_GT(json["rows"][0]["time_s"], json["rows"][0]["healthy_time_s"]);
  EXPECT_EQ(json["faults"].size(), 1U);
}

TEST(CollectiveCommand, SchedulesAreWrittenAndReadBack) {
  const std::string file = testing::TempDir() + "ring8.xml";
  const nlohmann::json made =
      json_of({"all_gather", "--on", "dgx-a100", "--algorithm", "ring", "--export", file, "--bytes", "64M"});
  const nlohmann::json read = json_of({"all_gather", "--on", "dgx-a100", "--schedule", file, "--bytes", "64M"});
  EXPECT_EQ(read["rows"][0]["algorithm"], "schedule");
  EXPECT_NEAR(read["rows"][0]["time_s"].get<double>() / made["rows"][0]["time_s"].get<double>(), 1, 0.3);
  std::remove(file.c_str());
}

TEST(CollectiveCommand, AScheduleThatLeavesAChunkBehindIsRefused) {
  const std::string file = testing::TempDir() + "short.xml";
  std::ofstream(file)
      << R"(<algo name="a" nchunksperloop="2" nchannels="1" proto="Simple" ngpus="2" coll="allgather" inplace="1">
  <gpu id="0" i_chunks="1" o_chunks="2" s_chunks="0">
    <tb id="0" send="1" recv="-1" chan="0">
      <step s="0" type="s" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="1" o_chunks="2" s_chunks="0">
    <tb id="0" send="-1" recv="0" chan="0">
      <step s="0" type="r" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
</algo>
)";
  const Error error = refusal({"all_gather", "--on", "dgx-a100", "--schedule", file});
  EXPECT_EQ(error.kind, ErrorKind::input);
  EXPECT_NE(error.message.find("rank 0"), std::string::npos) << error.message;
  std::remove(file.c_str());
}

TEST(CollectiveCommand, WrongInputIsRefused) {
  EXPECT_EQ(refusal({}).kind, ErrorKind::input);
  EXPECT_EQ(refusal({"all_recude", "--on", "dgx-a100"}).hint, "did you mean all_reduce?");
  EXPECT_EQ(refusal({"all_reduce"}).message, "collective needs a cluster: --on CLUSTER");
  EXPECT_EQ(refusal({"all_reduce", "--on", "dgx-a100", "--bytes", "8G..8"}).message,
            "--bytes 8G..8: the range ends before it begins");
  EXPECT_EQ(refusal({"all_reduce", "--on", "dgx-a100", "--bytes", "many"}).message,
            "--bytes many: expected a size from 1 B to 1 PB");
  EXPECT_EQ(refusal({"all_reduce", "--on", "dgx-a100", "--ranks", "9"}).hint, "--ranks 8 would fit");
  EXPECT_EQ(refusal({"broadcast", "--on", "dgx-a100", "--root", "8"}).message, "--root 8: ranks are 0 to 7");
  EXPECT_EQ(refusal({"all_reduce", "--on", "dgx-a100", "--export", "x.xml"}).message, "--export needs an algorithm");
  EXPECT_EQ(refusal({"all_reduce", "--on", "dgx-a100", "--schedule", "no-such.xml"}).message,
            "cannot be read: No such file or directory; expected a schedule of MSCCL");
}

}  // namespace
}  // namespace twinpod::cli
