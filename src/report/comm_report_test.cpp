#include "report/comm_report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace twinpod::report {
namespace {

CommBench two_rows() {
  CommBench bench{.ranks = 4, .transport = "processes", .shared = true};
  comm::Measurement row{.call = {.verb = comm::Verb::all_reduce, .count = 250}, .bytes = 1000, .algorithm = "inlined"};
  row.time_s = 1e-6;
  row.in_place_time_s = 2e-6;
  row.peers["openmpi"] = 3e-6;
  bench.rows.push_back(row);
  row.call.verb = comm::Verb::send;
  row.in_place_time_s = 0;
  row.wrong = 7;
  row.peers.clear();
  bench.rows.push_back(row);
  bench.peers = {"openmpi"};
  return bench;
}

TEST(CommReport, JsonHasTheKeysThatScriptsUse) {
  const auto json = nlohmann::json::parse(comm_bench_json(two_rows()));
  const auto& row = json.at("rows").at(0);
  EXPECT_EQ(row.at("verb"), "all_reduce");
  EXPECT_EQ(row.at("bytes"), 1000);
  EXPECT_EQ(row.at("type"), "f32");
  EXPECT_EQ(row.at("algorithm"), "inlined");
  EXPECT_DOUBLE_EQ(row.at("algbw_bytes_per_s").get<double>(), 1e9);
  EXPECT_DOUBLE_EQ(row.at("busbw_bytes_per_s").get<double>(), 1.5e9);  // 2 (n - 1) / n
  EXPECT_EQ(row.at("wrong"), 0);
  EXPECT_TRUE(row.at("expected_s").is_null());
  EXPECT_DOUBLE_EQ(row.at("peers").at("openmpi").get<double>(), 3e-6);
  EXPECT_EQ(json.at("rows").at(1).at("wrong"), 7);
  EXPECT_TRUE(json.at("rows").at(1).at("peers").at("openmpi").is_null());
  EXPECT_TRUE(json.at("rows").at(1).at("in_place_time_s").is_null());
}

TEST(CommReport, TextHasALineForEachRowAndCountsWhatIsWrong) {
  const std::string text = comm_bench_text(two_rows());
  EXPECT_NE(text.find("all_reduce"), std::string::npos);
  EXPECT_NE(text.find("3.00   3.00"), std::string::npos) << text;  // the peer's time, and how many times ours
  EXPECT_NE(text.find("7 wrong"), std::string::npos);
}

TEST(CommReport, DoctorNamesTheCulprit) {
  comm::Recording recording{.timeout_s = 1, .now_ns = 5, .ranks = {}, .groups = {{0, {0, 1}}}};
  recording.ranks.push_back({.rank = 0});
  recording.ranks.push_back({.rank = 1, .status = comm::RankStatus::died, .signal = 9});
  EXPECT_EQ(nlohmann::json::parse(doctor_json(recording)).at("culprit"), 1);
  EXPECT_NE(doctor_text(recording).find("rank 1 was killed by SIGKILL before its first operation"), std::string::npos);
}

}  // namespace
}  // namespace twinpod::report
