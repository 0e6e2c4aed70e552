#include "sim/step_apart.hpp"

#include <gtest/gtest.h>

namespace twinpod::sim {
namespace {

// One link of 10 bytes a second; two joints, of which the second puts half of what a rank sends on it.
struct OneLink {
  cluster::Graph graph;
  StepNetworks networks;
};

OneLink one_link(double filling = 1) {
  OneLink made;
  made.graph.links.resize(1);
  made.graph.links[0].bytes_per_s = 10;
  GroupLoads groups;
  groups.first = {0, 1, 2};
  groups.loads = {{0, 1.0F}, {0, 0.5F}};
  groups.filling = {1, filling};
  made.networks.apart.joint_of_group = {0, 1};
  made.networks.apart.groups = std::make_shared<const GroupLoads>(groups);
  made.networks.links = {0};
  return made;
}

TEST(StepApart, WhatMovesAtTheSameTimeIsInTheWay) {
  const OneLink made = one_link();
  EXPECT_TRUE(in_the_way(made.graph, made.networks, {{{0, 2, 10}}, {{1, 3, 10}}}));
  EXPECT_TRUE(in_the_way(made.graph, made.networks, {{{0, 2, 10.1}}, {}}));
}

TEST(StepApart, WhatFollowsEachOtherIsNot) {
  const OneLink made = one_link();
  EXPECT_FALSE(in_the_way(made.graph, made.networks, {{{0, 2, 10}, {3, 4, 10}}, {{2, 3, 20}}}));
  EXPECT_FALSE(in_the_way(made.graph, made.networks, {{{0, 2 * (1 + 1e-15), 10}}, {{2, 3, 20}}}));
}

TEST(StepApart, WhatFitsTogetherIsNot) {
  const OneLink made = one_link();
  EXPECT_FALSE(in_the_way(made.graph, made.networks, {{{0, 2, 5}}, {{1, 3, 10}}}));
}

TEST(StepApart, OnlyWhatFillsALinkCounts) {
  const OneLink made = one_link(0.5);
  EXPECT_FALSE(in_the_way(made.graph, made.networks, {{{0, 2, 5}}, {{1, 3, 20}}}));
  EXPECT_TRUE(in_the_way(made.graph, made.networks, {{{0, 2, 5.1}}, {{1, 3, 20}}}));
}

// Joints of the same kind move at the same times.
TEST(StepApart, GroupsThatAreAlikeAddUp) {
  OneLink made = one_link();
  made.networks.apart.joint_of_group = {0, 0};
  EXPECT_FALSE(in_the_way(made.graph, made.networks, {{{0, 2, 6.6}}}));
  EXPECT_TRUE(in_the_way(made.graph, made.networks, {{{0, 2, 6.7}}}));
}

}  // namespace
}  // namespace twinpod::sim
