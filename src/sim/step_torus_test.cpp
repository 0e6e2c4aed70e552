#include "sim/step_torus.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "cluster/topology.hpp"
#include "spec/catalog.hpp"

namespace twinpod::sim {
namespace {

using cluster::Graph;

Graph slice(const std::string& text) {
  spec::Cluster pod = spec::Catalog(TWINPOD_CATALOG_DIR).cluster("tpu-v4-4096").value();
  EXPECT_TRUE(cluster::apply_slice(pod, text).has_value());
  return cluster::build_graph(pod).value();
}

TorusUse use_of(const Graph& graph, const std::vector<int>& devices) {
  return torus_use(graph, torus_axis_rates(graph), devices);
}

std::vector<int> all_of(const Graph& graph) {
  std::vector<int> devices(static_cast<std::size_t>(graph.num_devices()));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

// Every load is this much, and no link has two.
void expect_each(const TorusUse& use, std::size_t links, double share) {
  std::set<int> seen;
  for (const LinkLoad& load : use.loads) {
    EXPECT_NEAR(static_cast<double>(load.share), share, 1e-6);
    EXPECT_TRUE(seen.insert(load.link).second) << load.link;
  }
  EXPECT_EQ(use.loads.size(), links);
  EXPECT_TRUE(use.hops.empty());
}

TEST(StepTorus, ALineGoesThereAndBack) { expect_each(use_of(slice("4x4x8"), {0, 1, 2, 3}), 6, 1); }

TEST(StepTorus, ARingGoesRoundBothWays) { expect_each(use_of(slice("4x4x8"), {0, 1, 2, 3, 4, 5, 6, 7}), 16, 0.5); }

TEST(StepTorus, ABoxUsesAllItsAxesAtOnce) {
  const Graph graph = slice("4x4x4");
  expect_each(use_of(graph, all_of(graph)), 6 * 64, 1.0 / 6);
  const Graph open = slice("2x2x2");
  expect_each(use_of(open, all_of(open)), 3 * 8, 1.0 / 3);
}

// Members 4 apart on a ring of 8: each of the four groups between each other uses all of it.
TEST(StepTorus, MembersThatLieApartCrossTheLinksBetweenThem) {
  expect_each(use_of(slice("4x4x8"), {0, 4}), 16, 0.5);
  expect_each(use_of(slice("4x4x8"), {0, 2}), 4, 1);
}

// Along z four links lie between members, along y one: so most of the data goes along y, and all parts end together.
TEST(StepTorus, AnAxisThatIsSharedGetsLessOfTheData) {
  const TorusUse use = use_of(slice("4x4x8"), {0, 4, 8, 12, 16, 20, 24, 28});
  double most = 0;
  double least = 1;
  for (const LinkLoad& load : use.loads) {
    most = std::max(most, static_cast<double>(load.share));
    least = std::min(least, static_cast<double>(load.share));
  }
  EXPECT_NEAR(most, 1 / 2.5, 1e-6);
  EXPECT_NEAR(least, 1 / 2.5 / 4, 1e-6);
}

TEST(StepTorus, ATwistedTorusClosesWhenItIsWhole) {
  const Graph graph = slice("4x4x8_twisted");
  expect_each(use_of(graph, all_of(graph)), 6 * 128, 1.0 / 6);
  // A row along a short axis ends on another row: a line.
  expect_each(use_of(graph, {0, 32, 64, 96}), 6, 1);
}

TEST(StepTorus, WhatIsNoBoxIsARing) {
  const TorusUse use = use_of(slice("4x4x8"), {0, 1, 2, 8, 9});
  EXPECT_TRUE(use.loads.empty());
  ASSERT_EQ(use.hops.size(), 5U);
  EXPECT_EQ(use.hops.back().from, 9);
  EXPECT_EQ(use.hops.back().to, 0);
}

TEST(StepTorus, ACutCableIsGoneRound) {
  Graph graph = slice("4x4x8");
  const std::vector<int> cable = cluster::find_links(graph, "chip(0,0,1)-chip(0,0,2)").value();
  cluster::cut_links(graph, cable);
  const TorusUse use = use_of(graph, {0, 1, 2, 3});
  EXPECT_EQ(use.loads.size(), 4U);
  ASSERT_EQ(use.hops.size(), 1U);
  EXPECT_EQ(use.hops.front().from, 1);
  EXPECT_EQ(use.hops.front().to, 2);
}

}  // namespace
}  // namespace twinpod::sim
