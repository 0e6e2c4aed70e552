#include "spec/names.hpp"

#include <gtest/gtest.h>

#include <set>

namespace twinpod::spec {
namespace {

template <typename E, std::size_t N>
void expect_both_directions(const NameTable<E, N>& table) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < N; ++i) {
    EXPECT_EQ(static_cast<std::size_t>(table[i].second), i) << table[i].first;
    EXPECT_EQ(name_of(table[i].second), table[i].first);
    names.insert(table[i].first);
  }
  EXPECT_EQ(names.size(), N) << "names differ";
}

TEST(Names, EachValueHasOneNameAndStandsAtItsIndex) {
  expect_both_directions(kPrecisionNames);
  expect_both_directions(kScaleUpNames);
  expect_both_directions(kNormNames);
  expect_both_directions(kPositionsNames);
  expect_both_directions(kRecomputeNames);
  expect_both_directions(kScheduleNames);
  expect_both_directions(kOptimizerNames);
  expect_both_directions(kOriginNames);
}

}  // namespace
}  // namespace twinpod::spec
