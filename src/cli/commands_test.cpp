// The commands as functions: arguments in, text or an Error out. Whole-program tests are in tests/*.sh.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command.hpp"
#include "core/table.hpp"

namespace twinpod::cli {
namespace {

Result<std::string> answer(const Command& command, const std::vector<std::string>& texts) {
  const std::vector<Flag> flags = all_flags(command);
  const Result<Arguments> arguments = parse_arguments(flags, texts);
  if (!arguments) return tl::unexpected(arguments.error());
  return command.run(*arguments);
}

nlohmann::json json_answer(const Command& command, const std::vector<std::string>& texts) {
  const Result<std::string> text = answer(command, texts);
  EXPECT_TRUE(text.has_value()) << to_string(text.error());
  return nlohmann::json::parse(text.value_or("{}"));
}

TEST(EstimateCommand, FlagsSetKeysOfTheJob) {
  const auto json = json_answer(kEstimate, {"gpt3-175b", "--on", "dgx-superpod-a100-140", "--devices", "1024", "--tp",
                                            "8", "--pp", "8", "--vp", "2", "--sp", "--zero", "1", "--json"});
  EXPECT_EQ(json["devices"], 1024);
  EXPECT_EQ(json["layout"]["tp"], 8);
  EXPECT_EQ(json["layout"]["virtual_stages"], 2);
  EXPECT_EQ(json["layout"]["schedule"], "interleaved");
  EXPECT_EQ(json["layout"]["sequence_parallel"], true);
  EXPECT_EQ(json["layout"]["dp"], 16);
}

TEST(EstimateCommand, LaterSettingsWin) {
  const auto json = json_answer(kEstimate, {"gpt3-175b", "--on", "dgx-superpod-a100-140", "--devices", "1024", "--tp",
                                            "4", "--pp", "16", "--set", "layout.tp=8", "--json"});
  EXPECT_EQ(json["layout"]["tp"], 8);
}

TEST(EstimateCommand, WhatIsNotSaidIsAsTheStackUsuallyDoesIt) {
  const auto json = json_answer(kEstimate, {"llama3-8b", "--on", "dgx-h100", "--stack", "torchtitan", "--json"});
  EXPECT_EQ(json["layout"]["zero"], 3);
}

TEST(EstimateCommand, AModelAloneNeedsACluster) {
  const Result<std::string> text = answer(kEstimate, {"gpt3-175b"});
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().kind, ErrorKind::input);
}

TEST(EstimateCommand, WhatDoesNotFitIsInfeasibleAndNotWrong) {
  const Result<std::string> text = answer(kEstimate, {"gpt3-175b", "--on", "dgx-a100", "--tp", "8"});
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().kind, ErrorKind::infeasible);
}

TEST(EstimateCommand, TheIssuesExampleIsFeasible) {
  const auto json = json_answer(kEstimate, {"gpt3-175b", "--on", "dgx-superpod-a100-140", "--devices", "1024", "--tp",
                                            "8", "--pp", "8", "--tokens", "300e9", "--json"});
  const double days = json["time_to_train_s"].get<double>() / 86400;
  EXPECT_GT(days, 15);
  EXPECT_LT(days, 45);
  double sum = 0;
  for (const auto& [name, seconds] : json["breakdown_s"].items()) sum += seconds.get<double>();
  EXPECT_NEAR(sum, json["step_time_s"].get<double>(), 1e-9 * sum);
}

TEST(ShowCommand, KnowsThePluralAndTheSingular) {
  EXPECT_TRUE(answer(kShow, {"devices"}).has_value());
  EXPECT_TRUE(answer(kShow, {"device", "h100-sxm"}).has_value());
  EXPECT_TRUE(answer(kShow, {"parameters"}).has_value());
  EXPECT_FALSE(answer(kShow, {}).has_value());
}

TEST(DemoCommand, PrintsTheNumbersOfTheLecture) {
  const Result<std::string> text = answer(kDemo, {});
  ASSERT_TRUE(text.has_value()) << to_string(text.error());
  for (const char* number : {"700 GB", "5,600 GB", "36 years", "7 months", "34 days"}) {
    EXPECT_NE(text->find(number), std::string::npos) << number;
  }
}

TEST(HelpCommand, EveryCommandExplainsItselfWithExamples) {
  for (const Command* command : commands()) {
    const std::string text = help_text(*command);
    EXPECT_NE(text.find("examples:\n  twinpod"), std::string::npos) << command->name;
    EXPECT_NE(text.find("--json"), std::string::npos) << command->name;
  }
}

TEST(HelpCommand, NoLineIsWiderThanATerminal) {
  for (const Command* command : commands()) {
    std::istringstream lines(help_text(*command));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 80) << line;
  }
}

TEST(HelpCommand, TheOverviewNamesAllCommands) {
  for (const Command* command : commands())
    EXPECT_NE(overview_text().find(std::string(command->name)), std::string::npos);
}

TEST(ValidateCommand, PredictionsNeedOneWay) {
  EXPECT_FALSE(answer(kValidate, {"--cross-validate", "--leave-stack-out"}).has_value());
}

}  // namespace
}  // namespace twinpod::cli
