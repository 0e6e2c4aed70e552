#include "sim/fold.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/rng.hpp"

namespace twinpod::sim {
namespace {

Bipartite graph_of(const std::vector<std::vector<std::uint32_t>>& paths, const std::vector<std::uint64_t>& links) {
  Bipartite graph;
  for (const auto& path : paths) {
    graph.right.insert(graph.right.end(), path.begin(), path.end());
    graph.first.push_back(static_cast<std::uint32_t>(graph.right.size()));
    graph.left_colour.push_back(0);
    graph.left_count.push_back(1);
  }
  graph.right_colour = links;
  return graph;
}

// How many nodes of each class of the left a node of the right meets.
std::vector<std::map<std::uint32_t, double>> meetings_of_right(const Bipartite& graph, const Partition& partition) {
  std::vector<std::map<std::uint32_t, double>> met(graph.right_colour.size());
  for (std::size_t l = 0; l + 1 < graph.first.size(); ++l) {
    for (std::uint32_t i = graph.first[l]; i < graph.first[l + 1]; ++i) {
      met[graph.right[i]][partition.left_class[l]] += graph.left_count[l];
    }
  }
  return met;
}

std::vector<std::map<std::uint32_t, double>> meetings_of_left(const Bipartite& graph, const Partition& partition) {
  std::vector<std::map<std::uint32_t, double>> met(graph.left_colour.size());
  for (std::size_t l = 0; l + 1 < graph.first.size(); ++l) {
    for (std::uint32_t i = graph.first[l]; i < graph.first[l + 1]; ++i) {
      met[l][partition.right_class[graph.right[i]]] += 1;
    }
  }
  return met;
}

template <typename Meetings>
bool all_alike(const std::vector<std::uint32_t>& classes, const std::vector<std::uint64_t>& colours,
               const Meetings& met) {
  std::map<std::uint32_t, std::size_t> first;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const std::size_t other = first.emplace(classes[i], i).first->second;
    if (met[i] != met[other] || colours[i] != colours[other]) return false;
  }
  return true;
}

Bipartite random_graph(Rng& rng) {
  Bipartite graph;
  const std::uint64_t links = 1 + rng.below(20);
  for (std::uint64_t l = 0; l < links; ++l) graph.right_colour.push_back(rng.below(2));
  for (std::uint64_t f = rng.below(30); f > 0; --f) {
    for (std::uint64_t hops = rng.below(3); hops > 0; --hops) {
      graph.right.push_back(static_cast<std::uint32_t>(rng.below(links)));
    }
    graph.first.push_back(static_cast<std::uint32_t>(graph.right.size()));
    graph.left_colour.push_back(rng.below(2));
    graph.left_count.push_back(1 + static_cast<double>(rng.below(2)));
  }
  return graph;
}

// The same by brute force: full rounds with exact signatures until the number of classes stays.
std::size_t num_classes_by_rounds(const Bipartite& graph) {
  Partition p;
  p.left_class.assign(graph.left_colour.begin(), graph.left_colour.end());
  p.right_class.assign(graph.right_colour.begin(), graph.right_colour.end());
  std::size_t before = 0;
  while (true) {
    const auto met_left = meetings_of_left(graph, p);
    const auto met_right = meetings_of_right(graph, p);
    std::map<std::pair<std::uint32_t, std::map<std::uint32_t, double>>, std::uint32_t> left_names;
    std::map<std::pair<std::uint32_t, std::map<std::uint32_t, double>>, std::uint32_t> right_names;
    for (std::size_t i = 0; i < p.left_class.size(); ++i) {
      const auto name = static_cast<std::uint32_t>(left_names.size());
      p.left_class[i] = left_names.emplace(std::pair(p.left_class[i], met_left[i]), name).first->second;
    }
    for (std::size_t i = 0; i < p.right_class.size(); ++i) {
      const auto name = static_cast<std::uint32_t>(right_names.size());
      p.right_class[i] = right_names.emplace(std::pair(p.right_class[i], met_right[i]), name).first->second;
    }
    if (left_names.size() + right_names.size() == before) return before;
    before = left_names.size() + right_names.size();
  }
}

TEST(Fold, FlowsOverLinksOfOneColourAreAlike) {
  const Partition p = refine(graph_of({{0, 1}, {2, 1}}, {7, 9, 7}));
  EXPECT_EQ(p.num_left, 1U);
  EXPECT_EQ(p.num_right, 2U);
}

TEST(Fold, OneSlowLinkSplitsItsOwnFlowOnly) {
  const Partition p = refine(graph_of({{0}, {1}, {2}, {3}}, {7, 7, 8, 7}));
  EXPECT_EQ(p.num_left, 2U);
  EXPECT_NE(p.left_class[2], p.left_class[0]);
}

TEST(Fold, ASlowLinkIsFeltAlongAChain) {
  // Flows over links i and i+1: what lies at different distances from the slow end is not alike.
  std::vector<std::vector<std::uint32_t>> paths;
  for (std::uint32_t i = 0; i < 9; ++i) paths.push_back({i, i + 1});
  std::vector<std::uint64_t> links(10, 1);
  links[0] = 2;
  EXPECT_EQ(refine(graph_of(paths, links)).num_left, 9U);
}

TEST(Fold, AChainOfEqualLinksIsAlikeFromBothEnds) {
  std::vector<std::vector<std::uint32_t>> paths;
  for (std::uint32_t i = 0; i < 9; ++i) paths.push_back({i, i + 1});
  EXPECT_EQ(refine(graph_of(paths, std::vector<std::uint64_t>(10, 1))).num_left, 5U);
}

TEST(Fold, CountsOfBundlesAddUp) {
  Bipartite graph = graph_of({{0}, {0}, {1}}, {1, 1});  // two flows on link 0, a bundle of two on link 1
  graph.left_count = {1, 1, 2};
  EXPECT_EQ(refine(graph).num_left, 1U);
}

TEST(Fold, RandomPartitionsAreEquitable) {
  Rng rng(1);
  for (int i = 0; i < 500; ++i) {
    const Bipartite graph = random_graph(rng);
    const Partition p = refine(graph);
    EXPECT_TRUE(all_alike(p.left_class, graph.left_colour, meetings_of_left(graph, p))) << i;
    EXPECT_TRUE(all_alike(p.right_class, graph.right_colour, meetings_of_right(graph, p))) << i;
  }
}

TEST(Fold, RandomPartitionsAreTheCoarsest) {
  Rng rng(2);
  for (int i = 0; i < 500; ++i) {
    const Bipartite graph = random_graph(rng);
    const Partition p = refine(graph);
    EXPECT_EQ(p.num_left + p.num_right, num_classes_by_rounds(graph)) << i;
  }
}

TEST(Fold, ClassesAreNumberedWithoutGaps) {
  Rng rng(3);
  for (int i = 0; i < 100; ++i) {
    const Partition p = refine(random_graph(rng));
    EXPECT_EQ(std::set<std::uint32_t>(p.right_class.begin(), p.right_class.end()).size(), p.num_right) << i;
  }
}

}  // namespace
}  // namespace twinpod::sim
