#include "core/nearest.hpp"

#include <gtest/gtest.h>

namespace twinpod {
namespace {

TEST(Nearest, DistanceCountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("layout", "layuot"), 1) << "a transposition is one edit";
}

TEST(Nearest, CaseDoesNotCount) { EXPECT_EQ(edit_distance("H100-SXM", "h100-sxm"), 0); }

TEST(Nearest, DistanceIsSymmetric) {
  EXPECT_EQ(edit_distance("recompute", "recompte"), edit_distance("recompte", "recompute"));
  EXPECT_EQ(edit_distance("ab", "a"), edit_distance("a", "ab"));
}

TEST(Nearest, TypingErrorFindsItsName) {
  EXPECT_EQ(nearest_name("gpt3-157b", {"gpt2-xl", "gpt3-175b", "opt-175b"}), "gpt3-175b");
  EXPECT_EQ(nearest_name("recmopute", {"schedule", "recompute", "recompute_layers"}), "recompute");
}

TEST(Nearest, PartOfANameFindsTheShortestThatHasIt) {
  EXPECT_EQ(nearest_name("h100", {"a100", "h100-sxm-500w", "h100-sxm"}), "h100-sxm");
}

TEST(Nearest, LongerThanTheNameFindsIt) { EXPECT_EQ(nearest_name("layout_tp", {"dp", "layout"}), "layout"); }

TEST(Nearest, NothingNearGivesNothing) {
  EXPECT_EQ(nearest_name("banana", {"tp", "pp", "cp"}), "");
  EXPECT_EQ(nearest_name("", {"tp", "pp"}), "");
  EXPECT_EQ(nearest_name("x", {"k"}), "");
  EXPECT_EQ(nearest_name("tp", {}), "");
}

TEST(Nearest, FirstOfEquallyNearNamesWins) { EXPECT_EQ(nearest_name("xp", {"tp", "pp"}), "tp"); }

TEST(Nearest, HugeNameIsAnsweredAtOnce) {
  EXPECT_EQ(nearest_name(std::string(10'000'000, 'q'), {"h100-sxm", "a100"}), "");
}

TEST(Nearest, APartOfTheNameDoesNotBeatATypingError) {
  EXPECT_EQ(nearest_name("trainin_log_test.log", {"test.log", "training_log_test.log"}), "training_log_test.log");
  EXPECT_EQ(nearest_name("h100-sxm-80gb", {"h100-sxm", "tpu-v4"}), "h100-sxm");
}

}  // namespace
}  // namespace twinpod
