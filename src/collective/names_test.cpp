#include "collective/names.hpp"

#include <gtest/gtest.h>

namespace twinpod::collective {
namespace {

TEST(CollectiveNames, AreFoundAgain) {
  for (const auto& [name, verb] : kVerbNames) EXPECT_EQ(*verb_named(name), verb);
  for (const auto& [name, algorithm] : kAlgorithmNames) EXPECT_EQ(*algorithm_named(name), algorithm);
}

TEST(CollectiveNames, SayTheNearestOfAnUnknownOne) {
  EXPECT_EQ(verb_named("all_recude").error().hint, "did you mean all_reduce?");
  EXPECT_EQ(algorithm_named("halving-doubling").error().hint, "did you mean halving_doubling?");
}

TEST(CollectiveNames, EveryVerbHasAnAlgorithm) {
  for (const auto& [name, verb] : kVerbNames) EXPECT_FALSE(algorithms_of(verb).empty()) << name;
}

}  // namespace
}  // namespace twinpod::collective
