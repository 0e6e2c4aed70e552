#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command.hpp"

namespace twinpod::cli {
namespace {

Result<std::string> answer(std::vector<std::string> texts) {
  texts.insert(texts.begin(), {"llama3-8b", "--on", "dgx-superpod-a100-140", "--sequence", "4096", "--set",
                               "cluster.device.memory=200GB"});
  const std::vector<Flag> flags = all_flags(kProgramCommand);
  const Result<Arguments> arguments = parse_arguments(flags, texts);
  if (!arguments) return tl::unexpected(arguments.error());
  return kProgramCommand.run(*arguments);
}

nlohmann::json json_of(std::vector<std::string> texts) {
  texts.emplace_back("--json");
  const Result<std::string> text = answer(std::move(texts));
  EXPECT_TRUE(text.has_value()) << to_string(text.error());
  return text ? nlohmann::json::parse(*text) : nlohmann::json();
}

Error refusal(std::vector<std::string> texts) {
  const Result<std::string> text = answer(std::move(texts));
  EXPECT_FALSE(text.has_value()) << *text;
  return text ? Error{} : text.error();
}

// A file that is gone when the test ends.
struct File {
  std::string path;
  explicit File(const std::string& name, const std::string& text = "")
      : path((std::filesystem::temp_directory_path() / ("twinpod_" + std::to_string(getpid()) + "_" + name)).string()) {
    if (!text.empty()) std::ofstream(path) << text;
  }
  ~File() { std::filesystem::remove(path); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::string read() const {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
};

TEST(ProgramCommand, TellsWhatAStepIsMadeOf) {
  const auto json = json_of({"--devices", "8", "--pp", "4", "--global-batch", "16"});
  EXPECT_EQ(json["ranks"], 8);
  EXPECT_EQ(json["kinds"], 4);
  EXPECT_EQ(json["micro_batches"], 8);
  EXPECT_NEAR(json["bubble_fraction"].get<double>(), 3.0 / 11, 1e-12);
  ASSERT_EQ(json["stages"].size(), 4U);
  EXPECT_EQ(json["stages"][1]["micro_batches_in_flight"], 3);
  EXPECT_EQ(json["stages"][3]["actions"][1], "B0");
  EXPECT_GT(json["stages"][0]["memory"]["peak_bytes"], json["stages"][0]["memory"]["resident_bytes"]);
}

TEST(ProgramCommand, DrawsThePipeline) {
  const Result<std::string> text = answer({"--devices", "2", "--pp", "2", "--global-batch", "3", "--show", "pipeline"});
  ASSERT_TRUE(text) << to_string(text.error());
  EXPECT_NE(text->find("    0 │F0 F1 ······B0─── F2 B1─── ···B2─── │\n"
                       "    1 │···F0 B0─── F1 B1─── F2 B2─── ······│\n"),
            std::string::npos)
      << *text;
  EXPECT_EQ(text->find('\033'), std::string::npos);  // no terminal, no colours
}

TEST(ProgramCommand, DrawsAPictureFile) {
  const File file("pipeline.svg");
  ASSERT_TRUE(answer({"--devices", "4", "--pp", "4", "--schedule", "zb-v", "--global-batch", "8", "--svg", file.path}));
  const std::string svg = file.read();
  EXPECT_EQ(svg.compare(0, 4, "<svg"), 0);
  EXPECT_NE(svg.find("gradients of weights"), std::string::npos);
  EXPECT_NE(svg.find(">stage 3<"), std::string::npos);
}

TEST(ProgramCommand, PrintsOpsOfOneStageAndMemoryOfAll) {
  const Result<std::string> text =
      answer({"--devices", "4", "--tp", "2", "--pp", "2", "--global-batch", "4", "--show", "text", "--stage", "1"});
  ASSERT_TRUE(text) << to_string(text.error());
  EXPECT_NE(text->find("recv forward from the previous"), std::string::npos) << *text;
  EXPECT_EQ(text->find("stage 0:"), std::string::npos);
  const Result<std::string> memory = answer({"--devices", "4", "--pp", "4", "--global-batch", "4", "--show", "memory"});
  ASSERT_TRUE(memory);
  EXPECT_NE(memory->find("█"), std::string::npos);
}

constexpr std::string_view kSchedule =
    "stage,order,phase,micro_batch,chunk\n"
    "0,0,F,0,0\n0,1,F,1,0\n0,2,B,0,0\n0,3,W,0,0\n0,4,B,1,0\n0,5,W,1,0\n"
    "1,0,F,0,0\n1,1,B,0,0\n1,2,F,1,0\n1,3,B,1,0\n1,4,W,0,0\n1,5,W,1,0\n";

TEST(ProgramCommand, TakesAScheduleFromAFile) {
  const File file("mine.csv", std::string(kSchedule));
  const auto json = json_of({"--devices", "2", "--pp", "2", "--global-batch", "2", "--schedule", file.path});
  EXPECT_EQ(json["schedule"], file.path);
  EXPECT_EQ(json["stages"][1]["actions"], (std::vector<std::string>{"F0", "B0", "F1", "B1", "W0", "W1"}));
  const auto set = json_of(
      {"--devices", "2", "--pp", "2", "--global-batch", "2", "--set", "layout.schedule={file: " + file.path + "}"});
  EXPECT_EQ(set["stages"], json["stages"]);
}

TEST(ProgramCommand, RefusesAScheduleThatSkipsAMicroBatch) {
  std::string text(kSchedule);
  text.erase(text.find("1,2,F,1,0\n"), 10);
  const File file("short.csv", text);
  const Error error = refusal({"--devices", "2", "--pp", "2", "--global-batch", "2", "--schedule", file.path});
  EXPECT_EQ(error.kind, ErrorKind::input);
  EXPECT_EQ(error.file, file.path);
  EXPECT_GT(error.line, 0);
  EXPECT_NE(error.message.find("F of stage 1, micro-batch 1"), std::string::npos) << error.message;
}

TEST(ProgramCommand, RefusesWhatDoesNotFitWithTheOp) {
  const Error error = refusal({"--devices", "1", "--global-batch", "1", "--set", "cluster.device.memory=100GB"});
  EXPECT_EQ(error.kind, ErrorKind::infeasible);
  EXPECT_NE(error.message.find("too much"), std::string::npos) << error.message;
}

TEST(ProgramCommand, RefusesWrongFlagsWithTheNearest) {
  EXPECT_NE(refusal({"--devices", "4", "--show", "pipline"}).hint.find("pipeline"), std::string::npos);
  EXPECT_EQ(refusal({"--devices", "4", "--pp", "4", "--global-batch", "4", "--stage", "4"}).kind, ErrorKind::input);
  EXPECT_EQ(refusal({"--devices", "4", "--slots", "1:0:1"}).kind, ErrorKind::input);
  EXPECT_EQ(refusal({"--devices", "4", "--slots", "1:1"}).kind, ErrorKind::input);
  EXPECT_EQ(refusal({"--devices", "4", "--pp", "4", "--schedule", "custom"}).kind, ErrorKind::infeasible);
  EXPECT_EQ(refusal({"--devices", "4", "--pp", "4", "--schedule", "nothing.csv"}).kind, ErrorKind::input);
}

TEST(ProgramCommand, RefusesAStepTooLongToSpellOut) {
  const Error error = refusal({"--devices", "4", "--pp", "4", "--global-batch", "900000000"});
  EXPECT_EQ(error.kind, ErrorKind::infeasible);
  EXPECT_NE(error.hint.find("micro_batch"), std::string::npos);
}

}  // namespace
}  // namespace twinpod::cli
