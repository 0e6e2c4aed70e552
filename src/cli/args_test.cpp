#include "cli/args.hpp"

#include <gtest/gtest.h>

#include <array>

namespace twinpod::cli {
namespace {

constexpr Flag kFlags[] = {{"on", "CLUSTER", "", ""},
                           {"tp", "N", "", "layout.tp"},
                           {"virtual-stages", "N", "", "layout.virtual_stages", "vp"},
                           {"json", "", "", ""}};

Result<Arguments> parse(const std::vector<std::string>& texts) { return parse_arguments(kFlags, texts); }

TEST(Arguments, WordsAndFlagsAreToldApart) {
  const Result<Arguments> a = parse({"gpt3-175b", "--on", "dgx-a100", "--json"});
  ASSERT_TRUE(a.has_value());
  EXPECT_EQ(a->words, (std::vector<std::string>{"gpt3-175b"}));
  EXPECT_EQ(a->value("on"), "dgx-a100");
  EXPECT_TRUE(a->has("json"));
  EXPECT_FALSE(a->has("tp"));
}

TEST(Arguments, AValueMayStandBehindAnEqualsSign) { EXPECT_EQ(parse({"--tp=8"})->value("tp"), "8"); }

TEST(Arguments, TheLastOfSeveralWins) { EXPECT_EQ(parse({"--tp=8", "--tp", "4"})->value("tp"), "4"); }

TEST(Arguments, AliasesCountAsTheFlag) { EXPECT_EQ(parse({"--vp", "2"})->value("virtual-stages"), "2"); }

TEST(Arguments, FlagsRememberHowTheyWereWritten) {
  EXPECT_EQ(parse({"--tp", "8"})->flags[0].as_written, "--tp 8");
  EXPECT_EQ(parse({"--tp=8"})->flags[0].as_written, "--tp=8");
}

TEST(Arguments, UnknownFlagsNameTheNearest) {
  const Result<Arguments> a = parse({"--jsn"});
  ASSERT_FALSE(a.has_value());
  EXPECT_EQ(a.error().message, "unknown flag --jsn");
  EXPECT_EQ(a.error().hint, "did you mean --json?");
  EXPECT_EQ(a.error().kind, ErrorKind::input);
}

TEST(Arguments, AFlagWithoutItsValueIsRefused) {
  EXPECT_EQ(parse({"--tp"}).error().message, "--tp needs a value: --tp N");
  EXPECT_EQ(parse({"--tp", "--json"}).error().message, "--tp needs a value: --tp N");
}

TEST(Arguments, ASwitchMayBeTurnedOff) {
  EXPECT_FALSE(parse({"--json=false"})->has("json"));
  EXPECT_EQ(parse({"--json=maybe"}).error().message, "--json is a switch: found `maybe`, expected true or false");
}

TEST(Arguments, WholeNumbersAreChecked) {
  EXPECT_EQ(whole_number(*parse({"--tp", "8"}), "tp", 1, 2), 8);
  EXPECT_EQ(whole_number(*parse({}), "tp", 1, 2), 2);
  EXPECT_EQ(whole_number(*parse({"--tp", "8x"}), "tp", 1, 2).error().message,
            "--tp: found `8x`, expected a whole number of at least 1");
}

TEST(Arguments, AnAliasOfOneLetterHasOneDash) {
  constexpr std::array kOutput = {Flag{"output", "FILE", "", "", "o"}};
  const Result<Arguments> arguments = parse_arguments(kOutput, {"-o", "a.yaml", "word"});
  ASSERT_TRUE(arguments.has_value());
  EXPECT_EQ(arguments->value("output"), "a.yaml");
  EXPECT_EQ(arguments->words, std::vector<std::string>{"word"});
  EXPECT_FALSE(parse_arguments(kOutput, {"-x"}).has_value());
}

}  // namespace
}  // namespace twinpod::cli
