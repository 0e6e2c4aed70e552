// twinpod plan as a function: arguments in, text or an Error out. As a process: tests/plan.sh, tests/golden,
// tests/errors.sh.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/plan_request.hpp"

namespace twinpod::cli {
namespace {

using Json = nlohmann::json;
using Texts = std::vector<std::string>;

Result<std::string> planned(const Texts& texts) {
  const std::vector<Flag> flags = all_flags(kPlan);
  const Result<Arguments> arguments = parse_arguments(flags, texts);
  if (!arguments) return tl::unexpected(arguments.error());
  return kPlan.run(*arguments);
}

Json json_of(Texts texts) {
  texts.emplace_back("--json");
  const Result<std::string> text = planned(texts);
  EXPECT_TRUE(text.has_value()) << to_string(text.error());
  return Json::parse(text.value_or("{}"));
}

Error error_of(const Texts& texts) {
  const Result<std::string> text = planned(texts);
  EXPECT_FALSE(text.has_value());
  return text ? Error{} : text.error();
}

// Eight devices, a few hundred layouts.
Texts small(const Texts& more = {}) {
  Texts texts = {"llama3-8b", "--on", "dgx-h100", "--global-batch", "512", "--tokens", "1e12", "--micro-batch", "1,2"};
  texts.insert(texts.end(), more.begin(), more.end());
  return texts;
}

// A file that is gone when the test is.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& name, const std::string& text) : path_(testing::TempDir() + name) {
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(PlanCommand, JsonHasTheKeysThatScriptsRelyOn) {
  const Json json = json_of(small());
  for (const char* key : {"evaluated", "feasible", "seconds", "best", "ranked"}) EXPECT_TRUE(json.contains(key)) << key;
  for (const char* key : {"layout", "step_time_s", "mfu", "memory_bytes"})
    EXPECT_TRUE(json["best"].contains(key)) << key;
}

TEST(PlanCommand, FewerFitThanWereTriedAndAllThatFitAreRanked) {
  const Json json = json_of(small());
  EXPECT_GT(json["evaluated"], json["feasible"]);
  EXPECT_EQ(json["ranked"].size(), json["feasible"].get<std::size_t>());
}

TEST(PlanCommand, TheRankingIsSortedByTime) {
  const Json json = json_of(small());
  EXPECT_TRUE(std::is_sorted(json["ranked"].begin(), json["ranked"].end(),
                             [](const Json& a, const Json& b) { return a["step_time_s"] < b["step_time_s"]; }));
}

TEST(PlanCommand, TheRankingIsSortedByWhatWasAskedFor) {
  const Json json = json_of(small({"--objective", "memory"}));
  EXPECT_EQ(json["objective"], "memory");
  EXPECT_TRUE(std::is_sorted(json["ranked"].begin(), json["ranked"].end(),
                             [](const Json& a, const Json& b) { return a["memory_bytes"] < b["memory_bytes"]; }));
}

TEST(PlanCommand, TheBestIsTheFirstOfTheRanking) {
  const Json json = json_of(small());
  const Json& first = json["ranked"][0];
  EXPECT_EQ(first["rank"], 1);
  for (const char* key : {"layout", "devices", "step_time_s", "mfu", "memory_bytes"})
    EXPECT_EQ(json["best"][key], first[key]) << key;
}

TEST(PlanCommand, TheBestIsWhatAnEstimateOfItSays) {
  const Json best = json_of(small())["best"];
  const Json& layout = best["layout"];
  const auto value = [&](const char* key) { return std::to_string(layout[key].get<int>()); };
  const std::vector<Flag> flags = all_flags(kEstimate);
  const Result<Arguments> arguments = parse_arguments(
      flags,
      {"llama3-8b",
       "--on",
       "dgx-h100",
       "--global-batch",
       "512",
       "--tp",
       value("tp"),
       "--pp",
       value("pp"),
       "--cp",
       value("cp"),
       "--vp",
       value("virtual_stages"),
       "--zero",
       value("zero"),
       "--micro-batch",
       value("micro_batch"),
       "--recompute",
       layout["recompute"],
       "--set",
       layout["sequence_parallel"].get<bool>() ? "layout.sequence_parallel=true" : "layout.sequence_parallel=false",
       "--json"});
  ASSERT_TRUE(arguments.has_value()) << to_string(arguments.error());
  const Result<std::string> text = kEstimate.run(*arguments);
  ASSERT_TRUE(text.has_value()) << to_string(text.error());
  const Json estimate = Json::parse(*text);
  EXPECT_EQ(estimate["step_time_s"], best["step_time_s"]);
  EXPECT_EQ(estimate["memory_bytes"], best["memory_bytes"]);
  EXPECT_EQ(estimate["mfu"], best["mfu"]);
}

TEST(PlanCommand, TopCutsTheRankingAndNothingElse) {
  const Json all = json_of(small());
  const Json three = json_of(small({"--top", "3"}));
  EXPECT_EQ(three["ranked"].size(), 3);
  EXPECT_EQ(three["evaluated"], all["evaluated"]);
  EXPECT_EQ(three["feasible"], all["feasible"]);
  EXPECT_EQ(three["ranked"][2], all["ranked"][2]);
}

TEST(PlanCommand, WishesBindEveryLayout) {
  const Json json = json_of(small({"--tp", "2,4", "--zero", "1", "--recompute", "full"}));
  for (const Json& row : json["ranked"]) {
    const Json& layout = row["layout"];
    EXPECT_TRUE(layout["tp"] == 2 || layout["tp"] == 4);
    EXPECT_LE(layout["zero"], 1);  // one data-parallel rank has nothing to share
    EXPECT_EQ(layout["recompute"], "full");
  }
}

TEST(PlanCommand, AWishGoesBeyondWhatTheStackCan) {
  const Json json = json_of(small({"--schedule", "zb-1p", "--pp", "2"}));
  EXPECT_EQ(json["best"]["layout"]["schedule"], "zb-1p");
}

TEST(PlanCommand, TheFullSpaceHoldsMoreThanAStackCan) {
  EXPECT_GT(json_of(small({"--space", "full"}))["evaluated"], json_of(small())["evaluated"]);
}

TEST(PlanCommand, WhatMustStayFreeStaysFree) {
  const Json json = json_of(small({"--memory-margin", "30%"}));
  for (const Json& row : json["ranked"])
    EXPECT_LE(row["memory_bytes"], json["best"]["memory_capacity_bytes"].get<double>() * 0.75);  // with the cache
}

TEST(PlanCommand, TheLayoutOfAJobFileHasARank) {
  const TemporaryFile file("asked.yaml",
                           "model: llama3-8b\ncluster: dgx-h100\nstack: megatron-core-2024\n"
                           "layout: {tp: 2, zero: 1, sequence_parallel: true}\n"
                           "training: {global_batch: 512, tokens: 1 T}\n");
  const Json json = json_of({file.path()});
  const Json& asked = json["asked"];
  ASSERT_TRUE(asked["rank"].is_number());
  const Json& ranked = json["ranked"][asked["rank"].get<std::size_t>() - 1];
  EXPECT_EQ(ranked["layout"], asked["layout"]);
  EXPECT_EQ(ranked["step_time_s"], asked["step_time_s"]);
}

TEST(PlanCommand, AModelAloneAsksForNoLayout) { EXPECT_TRUE(json_of(small())["asked"].is_null()); }

TEST(PlanCommand, AnEmittedJobFilePlannedAgainGivesTheSameBest) {
  const Texts texts = small({"--stack", "megatron-core-2024"});
  const Json first = json_of(texts);
  Texts emitting = texts;
  emitting.insert(emitting.end(), {"--emit", "twinpod"});
  const Result<std::string> text = planned(emitting);
  ASSERT_TRUE(text.has_value()) << to_string(text.error());
  const TemporaryFile file("emitted.yaml", *text);
  const Json again = json_of({file.path(), "--micro-batch", "1,2"});
  EXPECT_EQ(again["best"]["layout"], first["best"]["layout"]);
  EXPECT_EQ(again["best"]["step_time_s"], first["best"]["step_time_s"]);
  EXPECT_EQ(again["asked"]["rank"], 1);
}

struct EmittedWish {
  std::string engine;
  Texts wish;
  std::string refusal;  // empty: it is emitted
  std::string written;  // what says so in the launch
};

class EachWish : public testing::TestWithParam<EmittedWish> {};

TEST_P(EachWish, IsInTheLaunchOrRefused) {
  const EmittedWish& one = GetParam();
  Texts texts = small({"--emit", one.engine});
  texts.insert(texts.end(), one.wish.begin(), one.wish.end());
  const Result<std::string> text = planned(texts);
  ASSERT_EQ(text.has_value(), one.refusal.empty()) << (text ? *text : to_string(text.error()));
  if (text) {
    EXPECT_NE(text->find(one.written), std::string::npos) << *text;
  } else {
    EXPECT_EQ(text.error().kind, ErrorKind::infeasible);
    EXPECT_NE(to_string(text.error()).find(one.refusal), std::string::npos) << to_string(text.error());
  }
}

INSTANTIATE_TEST_SUITE_P(
    PlanCommand, EachWish,
    testing::Values(
        EmittedWish{"megatron", {"--schedule", "zb-1p"}, "no schedule zb-1p; it has 1f1b", ""},
        EmittedWish{"slurm", {"--schedule", "zb-2p"}, "no schedule zb-2p", ""},
        EmittedWish{"nemo", {"--schedule", "zb-v"}, "no schedule zb-v", ""},
        EmittedWish{"megatron", {"--schedule", "gpipe", "--global-batch", "16"}, "no schedule gpipe", ""},
        EmittedWish{"megatron", {"--schedule", "dualpipe"}, "no schedule dualpipe", ""},
        EmittedWish{"torchtitan", {"--schedule", "zb-1p"}, "no schedule zb-1p", ""},
        EmittedWish{"megatron", {"--schedule", "zb-1p", "--pp", "1"}, "without --schedule zb-1p there are", ""},
        EmittedWish{"torchtitan",
                    {"--schedule", "gpipe", "--global-batch", "16"},
                    "",
                    "pipeline_parallel_schedule = \"GPipe\""},
        EmittedWish{"torchtitan", {"--schedule", "zb-v"}, "", "pipeline_parallel_schedule = \"ZBVZeroBubble\""},
        EmittedWish{"twinpod", {"--schedule", "zb-1p"}, "", "schedule: zb-1p"},
        EmittedWish{"megatron", {"--schedule", "interleaved"}, "", "--num-virtual-stages-per-pipeline-rank"},
        EmittedWish{"megatron", {"--schedule", "zb-1p,interleaved"}, "", "--num-virtual-stages-per-pipeline-rank"},
        EmittedWish{"megatron", {"--virtual-stages", "2"}, "", "--num-virtual-stages-per-pipeline-rank 2"},
        EmittedWish{"torchtitan", {"--zero", "1"}, "no ZeRO 1", ""},
        EmittedWish{"torchtitan", {"--zero", "3"}, "", "fsdp_reshard_after_forward = \"always\""},
        EmittedWish{"megatron", {"--zero", "3"}, "", "--data-parallel-sharding-strategy optim_grads_params"},
        EmittedWish{"nemo", {"--zero", "2"}, "", "data_parallel_sharding_strategy=\"optim_grads\""},
        EmittedWish{"twinpod", {"--zero", "3"}, "", "zero: 3"},
        EmittedWish{"megatron", {"--zero", "3", "--dp", "1", "--cp", "1"}, "without --zero 3 there are", ""},
        EmittedWish{"megatron", {"--zero", "3", "--pp", "2"}, "not with pp 2", ""},
        EmittedWish{"megatron", {"--sequence-parallel", "true"}, "", "--sequence-parallel"},
        EmittedWish{"megatron", {"--sequence-parallel", "true", "--tp", "1"}, "without --tp 1 there are", ""},
        EmittedWish{"torchtitan", {"--sequence-parallel", "false", "--tp", "2"}, "", "sequence_parallel = False"},
        EmittedWish{"megatron", {"--cp", "2"}, "", "--context-parallel-size 2"},
        EmittedWish{"megatron", {"--ep", "2"}, "without --ep 2 there are", ""},
        EmittedWish{"megatron", {"--etp", "4"}, "without --etp 4 there are", ""},
        EmittedWish{"megatron", {"--servers", "1"}, "no parameter servers", ""},
        EmittedWish{"torchtitan", {"--servers", "1"}, "no parameter servers", ""},
        EmittedWish{"twinpod", {"--servers", "1"}, "", "servers: 1"},
        EmittedWish{"torchtitan", {"--offload-activations", "true"}, "does not offload activations", ""},
        EmittedWish{"megatron", {"--offload-optimizer", "true"}, "", "--optimizer-cpu-offload"},
        EmittedWish{"nemo", {"--recompute", "full"}, "", "recompute_granularity=\"full\""},
        EmittedWish{"torchtitan", {"--recompute", "none"}, "", "activation_checkpoint = None"},
        EmittedWish{"torchtitan", {"--precision", "fp16"}, "fp16", ""},
        EmittedWish{"megatron", {"--set", "layout.context_exchange=gather"}, "context_exchange gather", ""}));

TEST(PlanCommand, WhatALaunchDoesNotShowIsRefused) {
  for (const std::string flag : {"--top=3", "--variants", "--explain", "--simulate=3", "--svg=x.svg"})
    EXPECT_EQ(error_of(small({"--emit", "megatron", flag})).kind, ErrorKind::input) << flag;
}

TEST(PlanCommand, FewestDevicesAreBestWithADeadline) {
  const Json json = json_of({"llama3-70b", "--on", "h100-superpod", "--devices", "128,256,512", "--within", "60d",
                             "--global-batch", "512", "--tokens", "1e12", "--micro-batch", "1", "--cp", "1"});
  EXPECT_EQ(json["objective"], "devices");
  EXPECT_LE(json["best"]["time_to_train_s"], 60 * 86400.0);
  for (const Json& other : json["curve"]) EXPECT_GE(other["devices"], json["best"]["devices"]);
  EXPECT_GT(json["too_slow"], 0);
}

TEST(PlanCommand, OfAParetoSetNoneBeatsAnother) {
  const Json front = json_of(small({"--pareto", "time,memory"}))["pareto"];
  ASSERT_GT(front.size(), 1);
  for (const Json& a : front) {
    for (const Json& b : front)
      EXPECT_FALSE(a["step_time_s"] < b["step_time_s"] && a["memory_bytes"] < b["memory_bytes"]);
  }
}

TEST(PlanCommand, ExplainAddsTheNeighbours) {
  EXPECT_FALSE(json_of(small()).contains("neighbours"));
  EXPECT_FALSE(json_of(small({"--explain"}))["neighbours"].empty());
}

TEST(PlanCommand, CsvHasAHeaderAndALineForEachLayout) {
  const Result<std::string> text = planned(small({"--csv", "--top", "4"}));
  ASSERT_TRUE(text.has_value()) << to_string(text.error());
  EXPECT_EQ(text->rfind("rank,devices,dp,tp,pp,", 0), 0);
  EXPECT_EQ(std::count(text->begin(), text->end(), '\n'), 5);
}

TEST(PlanCommand, NotesSayWhatWasChosen) {
  const Json notes = json_of({"llama3-8b", "--on", "dgx-h100", "--memory-margin", "10%"})["notes"];
  ASSERT_EQ(notes.size(), 2);
  EXPECT_NE(notes[0].get<std::string>().find("--global-batch sets it"), std::string::npos);
  EXPECT_NE(notes[1].get<std::string>().find("--tokens sets it"), std::string::npos);
}

TEST(PlanCommand, EveryQuestionIsAnsweredByOneObject) {
  for (const Texts& question : {Texts{"--what-if", "memory=2x"}, Texts{"--curve", "--devices", "4,8"},
                                Texts{"--largest", "model"}, Texts{"--largest", "sequence"}}) {
    const Json json = json_of(small(question));
    EXPECT_TRUE(json.is_object()) << question[0];
    EXPECT_TRUE(json.contains("notes")) << question[0];
  }
}

TEST(PlanCommand, SideBySideHasAnAnswerForEachCluster) {
  const Json json = json_of({"llama3-8b", "--on", "dgx-a100,dgx-h100", "--global-batch", "512"});
  ASSERT_EQ(json["answers"].size(), 2);
  EXPECT_NE(json["answers"][0]["cluster"], json["answers"][1]["cluster"]);
}

TEST(PlanCommand, WhatCannotBeDividedNamesTheWishToLoosen) {
  const Error error = error_of(small({"--tp", "5", "--pp", "1"}));
  EXPECT_EQ(error.kind, ErrorKind::infeasible);
  EXPECT_NE(error.hint.find("without --tp 5 there are"), std::string::npos) << error.hint;
  EXPECT_EQ(error.hint.find("--pp 1"), std::string::npos) << error.hint;
}

TEST(PlanCommand, WhatDoesNotFitIsInfeasibleAndNotWrong) {
  const Error error = error_of({"gpt3-175b", "--on", "dgx-a100"});
  EXPECT_EQ(error.kind, ErrorKind::infeasible);
  EXPECT_NE(error.hint.find("fewest devices"), std::string::npos) << error.hint;
}

TEST(PlanCommand, OneQuestionAtATime) {
  EXPECT_EQ(error_of(small({"--curve", "--largest", "model"})).kind, ErrorKind::input);
}

TEST(PlanRequestTest, ARangeOfDevicesGoesByWholeNodes) {
  const std::vector<Flag> flags = all_flags(kPlan);
  const Texts texts = {"llama3-8b", "--on", "h100-superpod", "--devices", "10..40"};
  const Arguments arguments = parse_arguments(flags, texts).value();
  const Result<PlanRequest> request = plan_request(arguments, "h100-superpod", catalog_of(arguments));
  ASSERT_TRUE(request.has_value()) << to_string(request.error());
  EXPECT_EQ(request->terms.wishes.devices, (std::vector<int>{16, 24, 32, 40}));
}

TEST(PlanRequestTest, SeveralClustersAreSeparatedByCommas) {
  const std::vector<Flag> flags = all_flags(kPlan);
  const Texts texts = {"llama3-8b", "--on", "dgx-a100,dgx-h100"};
  EXPECT_EQ(clusters_of(parse_arguments(flags, texts).value()), (Texts{"dgx-a100", "dgx-h100"}));
}

}  // namespace
}  // namespace twinpod::cli
