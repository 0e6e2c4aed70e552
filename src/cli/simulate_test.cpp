#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"

namespace twinpod::cli {
namespace {

Result<std::string> answer(const std::vector<std::string>& texts) {
  const std::vector<Flag> flags = all_flags(kSimulate);
  const Result<Arguments> arguments = parse_arguments(flags, texts);
  EXPECT_TRUE(arguments.has_value()) << to_string(arguments.error());
  return kSimulate.run(*arguments);
}

nlohmann::json json_of(std::vector<std::string> texts) {
  texts.emplace_back("--json");
  const Result<std::string> text = answer(texts);
  EXPECT_TRUE(text.has_value()) << to_string(text.error());
  return text ? nlohmann::json::parse(*text) : nlohmann::json();
}

const std::vector<std::string> kLlama = {"llama3-70b", "--on", "h100-superpod", "--devices",      "128", "--tp", "8",
                                         "--pp",       "4",    "--sp",          "--global-batch", "128"};

std::vector<std::string> llama(const std::vector<std::string>& more) {
  std::vector<std::string> texts = kLlama;
  texts.insert(texts.end(), more.begin(), more.end());
  return texts;
}

TEST(SimulateCommand, HasTheKeysThatScriptsUse) {
  const nlohmann::json json = json_of(kLlama);
  for (const char* key : {"step_time_s", "mfu", "bubble_s", "exposed_communication_s", "peak_memory_bytes", "ranks",
                          "simulated_ranks", "events"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["ranks"], 128);
  EXPECT_LT(json["simulated_ranks"], 128);
}

TEST(SimulateCommand, PartsAddUpToTheStep) {
  const nlohmann::json json = json_of(kLlama);
  const double sum = json["compute_s"].get<double>() + json["bubble_s"].get<double>() +
                     json["exposed_communication_s"].get<double>() + json["tail_s"].get<double>();
  EXPECT_NEAR(sum / json["step_time_s"].get<double>(), 1, 1e-6);
}

TEST(SimulateCommand, AgreesWithTheClosedFormWhereNothingIsInTheWay) {
  const nlohmann::json json = json_of(llama({"--no-network"}));
  EXPECT_NEAR(json["step_time_s"].get<double>() / json["closed_form_s"].get<double>(), 1, 0.03);
}

TEST(SimulateCommand, ASlowRankCostsAndIsExplained) {
  const nlohmann::json json = json_of(llama({"--slow", "rank=37:1.3"}));
  EXPECT_GT(json["step_time_s"], 1.1 * json["healthy_step_time_s"].get<double>());
  ASSERT_TRUE(json.contains("waiters"));
  EXPECT_EQ(json["waiters"][0]["who"], "itself");
  // Who waits for it idles; the slow one itself does not.
  EXPECT_LT(json["waiters"][0]["idle_longer_s"], json["waiters"][1]["idle_longer_s"]);
}

TEST(SimulateCommand, JitterIsTheSameForTheSameSeed) {
  const nlohmann::json one = json_of(llama({"--jitter", "2%", "--seed", "7"}));
  const nlohmann::json same = json_of(llama({"--jitter", "2%", "--seed", "7"}));
  const nlohmann::json other = json_of(llama({"--jitter", "2%", "--seed", "8"}));
  EXPECT_EQ(one["step_time_s"], same["step_time_s"]);
  EXPECT_NE(one["step_time_s"], other["step_time_s"]);
  EXPECT_GT(one["step_time_s"], one["healthy_step_time_s"]);
}

TEST(SimulateCommand, WritesATimeline) {
  const std::string file = testing::TempDir() + "timeline.json";
  json_of(llama({"--timeline", file}));
  std::ifstream in(file);
  const nlohmann::json timeline = nlohmann::json::parse(in);
  EXPECT_EQ(timeline["ranks"][0]["rank"], 0);
  EXPECT_GT(timeline["ranks"][0]["ops"].size(), 100U);
  std::remove(file.c_str());
}

TEST(SimulateCommand, CheckpointsHaveTheKeysThatScriptsUse) {
  const nlohmann::json json = json_of(llama({"--checkpoint-every", "10", "--store", "peer,local,shared:5"}));
  EXPECT_NEAR(json["checkpoint_bytes"].get<double>() / (14 * 70.55e9), 1, 0.01);
  EXPECT_GT(json["checkpoint_stall_s"], 0.0);
  EXPECT_GT(json["checkpoint_stall_share"], 0.0);
  EXPECT_LT(json["checkpoint_stall_share"], 0.05);
  EXPECT_GT(json["checkpoint_drain_s"], json["checkpoint_stall_s"]);
  const nlohmann::json& tiers = json["checkpoint_tiers"];
  ASSERT_EQ(tiers.size(), 4U);
  EXPECT_EQ(tiers[0]["tier"], "memory");
  EXPECT_EQ(tiers[1]["tier"], "peer");
  EXPECT_EQ(tiers[3]["tier"], "shared");
  EXPECT_EQ(tiers[3]["every"], 5);
  // 16 nodes, each with 30 GB/s of disks and 4 GB/s to the file system.
  EXPECT_NEAR(tiers[2]["peak_bytes_per_s"].get<double>() / (16 * 30e9), 1, 1e-6);
  EXPECT_NEAR(tiers[3]["peak_bytes_per_s"].get<double>() / (16 * 4e9), 1, 1e-6);
  EXPECT_FALSE(json_of(kLlama).contains("checkpoint_bytes"));
}

TEST(SimulateCommand, CheckpointsAreOnTheTimelineWithTheStepsBesideThem) {
  const std::string file = testing::TempDir() + "checkpoint_timeline.json";
  json_of(llama({"--checkpoint-every", "10", "--store", "local", "--no-network", "--timeline", file}));
  std::ifstream in(file);
  const nlohmann::json timeline = nlohmann::json::parse(in);
  std::vector<std::string> lanes;
  for (const nlohmann::json& op : timeline["ranks"][0]["ops"]) {
    if (op["op"].get<std::string>().starts_with("write to")) lanes.push_back(op["lane"]);
  }
  EXPECT_EQ(lanes, (std::vector<std::string>{"host", "drain"}));
  std::remove(file.c_str());
}

TEST(SimulateCommand, CheckpointsThatCannotBeAreRefused) {
  EXPECT_NE(answer(llama({"--checkpoint-every", "10", "--store", "tape"})).error().message.find("`tape`"),
            std::string::npos);
  EXPECT_NE(answer(llama({"--checkpoint-every", "10", "--store", "shared:0"})).error().message.find("whole number"),
            std::string::npos);
  EXPECT_NE(answer(llama({"--store", "shared"})).error().hint.find("--checkpoint-every"), std::string::npos);
  EXPECT_NE(answer(llama({"--checkpoint-every", "10", "--store", "object"})).error().hint.find("object.write"),
            std::string::npos);
  EXPECT_FALSE(answer(llama({"--checkpoint-every", "0"})).has_value());
}

TEST(SimulateCommand, AJobWhoseTiersAreNotKnownStillHasAStep) {
  const nlohmann::json json = json_of(llama({"--set", "checkpoint={every: 10, store: [{tier: object, path: s3}]}"}));
  EXPECT_NE(json["checkpoint_refusal"].get<std::string>().find("object store"), std::string::npos);
  EXPECT_EQ(json["step_time_s"], json_of(kLlama)["step_time_s"]);
  EXPECT_TRUE(json_of(llama({"--set", "checkpoint={every: 10, store: runs/a}"})).contains("checkpoint_stall_s"));
}

TEST(SimulateCommand, TheOrderOfTheAxesDecidesWhatContends) {
  const nlohmann::json usual = json_of(kLlama);
  const nlohmann::json inside = json_of(llama({"--order", "tp-cp-pp-dp"}));
  const nlohmann::json best = json_of(llama({"--order", "search"}));
  EXPECT_LE(best["step_time_s"], usual["step_time_s"]);
  EXPECT_LE(best["step_time_s"], inside["step_time_s"]);
  EXPECT_NE(best["placement"].get<std::string>().find("the fastest of"), std::string::npos);
}

TEST(SimulateCommand, RanksCanBePlacedByHand) {
  const std::string file = testing::TempDir() + "places.txt";
  {
    std::ofstream out(file);
    for (int rank = 0; rank < 128; ++rank) out << (rank * 37) % 128 << "\n";  // every tensor group across nodes
  }
  const nlohmann::json spread = json_of(llama({"--place", file}));
  EXPECT_GT(spread["step_time_s"], json_of(kLlama)["step_time_s"]);
  std::ofstream(file) << "0\n0\n";
  EXPECT_NE(answer(llama({"--place", file})).error().message.find(":2: `0` is no device, or is taken"),
            std::string::npos);
  std::remove(file.c_str());
}

std::vector<std::string> on_pod(const std::vector<std::string>& more) {
  std::vector<std::string> texts = {"llama3-8b", "--on", "tpu-v4-4096", "--tp", "8", "--zero", "1", "--sp"};
  texts.insert(texts.end(), more.begin(), more.end());
  return texts;
}

TEST(SimulateCommand, ASliceSaysHowManyDevicesThereAre) {
  const nlohmann::json json = json_of(on_pod({"--slice", "4x4x8"}));
  EXPECT_EQ(json["ranks"], 128);
  EXPECT_EQ(json["placement"], "slice 4x4x8");
  EXPECT_EQ(json["step_time_s"], json_of(on_pod({"--slice", "4x4x8", "--devices", "128"}))["step_time_s"]);
}

TEST(SimulateCommand, TheShapeOfTheSliceDecidesWhatContends) {
  // Tensor ranks fill the last axis, or half of it and share it with the copies.
  const nlohmann::json whole = json_of(on_pod({"--slice", "4x4x8"}));
  const nlohmann::json half = json_of(on_pod({"--slice", "8x4x4"}));
  EXPECT_LT(whole["step_time_s"], half["step_time_s"]);
}

TEST(SimulateCommand, SlicesAreSearched) {
  const nlohmann::json json = json_of(on_pod({"--devices", "128", "--slice", "search"}));
  const nlohmann::json& slices = json["slices"];
  ASSERT_EQ(slices.size(), 6U);  // three orders of 4, 4 and 8, each twisted, too
  EXPECT_EQ(slices[0]["step_time_s"], json["step_time_s"]);
  for (std::size_t i = 1; i < slices.size(); ++i) {
    EXPECT_LE(slices[i - 1]["step_time_s"], slices[i]["step_time_s"]);
    const std::string slice = slices[i]["slice"];
    EXPECT_EQ(json_of(on_pod({"--slice", slice}))["step_time_s"], slices[i]["step_time_s"]) << slice;
  }
}

std::pair<std::string, std::string> refusal(const std::vector<std::string>& texts) {
  const Result<std::string> text = answer(texts);
  EXPECT_FALSE(text.has_value());
  EXPECT_EQ(text.error().kind, ErrorKind::input);
  return {text.error().message, text.error().hint};
}

TEST(SimulateCommand, WrongSlicesAreRefused) {
  using Refused = std::pair<std::string, std::string>;
  EXPECT_EQ(refusal(on_pod({"--devices", "128", "--slice", "4x4x4"})),
            Refused("slice 4x4x4 has 64 chips, but the job uses 128", "--slice 4x4x8, or --devices 64"));
  EXPECT_EQ(refusal(on_pod({"--slice", "4x8"})),
            Refused("slice 4x8 has 2 axes; the pod is 16x16x16", "the nearest slice is 4x4x2"));
  EXPECT_EQ(refusal(on_pod({"--slice", "16x16x32"})),
            Refused("slice 16x16x32 does not fit into the pod of 16x16x16", "the nearest slice is 16x16x16"));
  EXPECT_EQ(refusal({"llama3-8b", "--on", "tpu-v5e-256", "--tp", "8", "--slice", "4x32"}),
            Refused("slice 4x32 does not fit into the pod of 16x16", "the nearest slice is 8x16"));
  EXPECT_EQ(refusal(llama({"--slice", "4x4x8"})).first,
            "DGX SuperPOD H100, 2,048 nodes is no torus, so it has no slice 4x4x8");
  EXPECT_EQ(refusal(llama({"--slice", "search"})).first,
            "DGX SuperPOD H100, 2,048 nodes is no torus, so it has no slices to search");
  EXPECT_EQ(refusal(on_pod({"--slice", "wide"})).first, "slice is `wide`; expected axes such as 4x4x8");
  EXPECT_EQ(refusal(on_pod({"--slice", "4x4x4_twisted"})).first, "a 4x4x4 torus cannot be twisted");
}

TEST(SimulateCommand, WrongInputIsRefused) {
  EXPECT_EQ(answer(llama({"--order", "tp-tp-dp-pp"})).error().message,
            "--order tp-tp-dp-pp: expected tp, cp, dp and pp, each once, with - between them");
  EXPECT_EQ(answer(llama({"--slow", "rank=128:1.3"})).error().message, "--slow rank=128:1.3: there is no rank `128`");
  EXPECT_EQ(answer(llama({"--slow", "rank=1:0"})).error().message,
            "--slow rank=1:0: expected a factor from 1: how many times as long it takes");
  EXPECT_EQ(answer(llama({"--slow", "37"})).error().message,
            "--slow 37: expected rank=NUMBER:FACTOR or link=NAME:FACTOR");
  EXPECT_EQ(answer(llama({"--jitter", "lots"})).error().kind, ErrorKind::input);
  EXPECT_NE(answer(llama({"--cut", "link=leaf999-spine0"})).error().message.find("leaf999"), std::string::npos);
}

}  // namespace
}  // namespace twinpod::cli
