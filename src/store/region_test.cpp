#include "store/region.hpp"

#include <gtest/gtest.h>

#include <set>

#include "core/rng.hpp"

namespace twinpod::store {
namespace {

// The elements of a region by their number in the whole tensor.
std::vector<std::int64_t> elements_of(const Region& region, const Dims& shape) {
  std::vector<std::int64_t> elements;
  if (is_empty(region)) return elements;
  for_each_run(region, whole(shape), region, [&](const Run& run) {
    for (std::int64_t i = 0; i < run.count; ++i) elements.push_back(run.target + i);
  });
  return elements;
}

Region random_region(const Dims& shape, Rng& rng) {
  Region region;
  for (const std::int64_t dim : shape) {
    region.offset.push_back(static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(dim))));
    region.size.push_back(1 +
                          static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(dim - region.offset.back()))));
  }
  return region;
}

TEST(StoreRegion, ElementsAreCountedAndOverflowIsRefused) {
  EXPECT_EQ(num_elements({}), 1);
  EXPECT_EQ(num_elements({2, 3}), 6);
  EXPECT_EQ(num_elements({INT64_MAX, 0, INT64_MAX}), -1);
  EXPECT_EQ(num_elements({5, 0}), 0);
  EXPECT_EQ(num_elements({INT64_MAX, 2}), -1);
  EXPECT_EQ(num_elements({-1}), -1);
}

TEST(StoreRegion, MustLieInTheTensor) {
  EXPECT_TRUE(lies_in({{0, 2}, {4, 2}}, {4, 4}));
  EXPECT_FALSE(lies_in({{0, 3}, {4, 2}}, {4, 4}));
  EXPECT_FALSE(lies_in({{0, 2}, {4, INT64_MAX}}, {4, 4}));
  EXPECT_FALSE(lies_in({{-1}, {1}}, {4}));
  EXPECT_FALSE(lies_in({{0}, {1}}, {4, 4}));
  EXPECT_TRUE(lies_in({{}, {}}, {}));
}

TEST(StoreRegion, OverlapIsABoxOrNothing) {
  EXPECT_EQ(overlap({{0, 0}, {8, 3}}, {{0, 0}, {4, 6}}), (Region{{0, 0}, {4, 3}}));
  EXPECT_EQ(overlap({{0}, {3}}, {{3}, {3}}), std::nullopt);
  EXPECT_EQ(overlap({{}, {}}, {{}, {}}), Region{});
}

TEST(StoreRegion, PrintsAsRanges) { EXPECT_EQ(to_string(Region{{0, 3}, {4, 3}}), "[0:4,3:6]"); }

TEST(StoreRegion, WhatIsLeftAndWhatIsTakenMakeTheWhole) {
  Rng rng(1);
  for (int round = 0; round < 300; ++round) {
    const Dims shape = {5, 4, 6};
    const Region from = random_region(shape, rng);
    const Region taken = random_region(shape, rng);
    std::vector<std::int64_t> elements;
    if (const std::optional<Region> common = overlap(from, taken)) elements = elements_of(*common, shape);
    for (const Region& left : without(from, taken)) {
      const std::vector<std::int64_t> more = elements_of(left, shape);
      elements.insert(elements.end(), more.begin(), more.end());
    }
    std::sort(elements.begin(), elements.end());
    EXPECT_EQ(elements, elements_of(from, shape));
  }
}

TEST(StoreRegion, ARangeOfTheFlatTensorIsItsElementsInOrder) {
  for (const Dims& shape : {Dims{24}, Dims{4, 6}, Dims{2, 3, 4}, Dims{2, 2, 2, 3}, Dims{1, 24, 1}}) {
    for (std::int64_t begin = 0; begin <= 24; ++begin) {
      for (std::int64_t end = begin; end <= 24; ++end) {
        std::vector<std::int64_t> elements;
        for (const Region& region : regions_of_range(shape, begin, end)) {
          const std::vector<std::int64_t> more = elements_of(region, shape);
          elements.insert(elements.end(), more.begin(), more.end());
        }
        std::vector<std::int64_t> expected;
        for (std::int64_t i = begin; i < end; ++i) expected.push_back(i);
        ASSERT_EQ(elements, expected) << to_string(shape) << " " << begin << " " << end;
      }
    }
  }
}

TEST(StoreRegion, ARangeOfAMatrixIsAtMostThreeBoxes) {
  EXPECT_EQ(regions_of_range({8, 6}, 4, 17).size(), 3U);
  EXPECT_EQ(regions_of_range({8, 6}, 6, 18), std::vector<Region>{(Region{{1, 0}, {2, 6}})});
  EXPECT_EQ(regions_of_range({}, 0, 1), std::vector<Region>{Region{}});
}

TEST(StoreRegion, RunsAreAsLongAsTheyCanBe) {
  std::vector<store::Run> runs;
  const auto keep = [&](const store::Run& run) { runs.push_back(run); };
  const Region rows = {{2, 0}, {3, 6}};
  for_each_run(whole({8, 6}), rows, rows, keep);
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].source, 12);
  EXPECT_EQ(runs[0].target, 0);
  EXPECT_EQ(runs[0].count, 18);
  runs.clear();
  const Region columns = {{0, 2}, {8, 2}};
  for_each_run(whole({8, 6}), columns, columns, keep);
  EXPECT_EQ(runs.size(), 8U);
}

}  // namespace
}  // namespace twinpod::store
