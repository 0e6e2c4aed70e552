// Every verb with every algorithm, for the tests that sweep them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "collective/schedule.hpp"

namespace twinpod::collective {

inline constexpr int kProvedRanks = 33;

// Ways to write n as a product of three extents, so that tori are lines, rectangles and boxes: all orders of small
// ones, the ascending order of larger ones.
inline std::vector<std::vector<int>> tori(int n) {
  std::vector<std::vector<int>> all;
  for (int x = 1; x <= n; ++x) {
    for (int y = 1; n % x == 0 && y <= n / x; ++y) {
      const bool ascending = x <= y && y <= n / x / y;
      if (n / x % y == 0 && (n <= 12 || ascending)) all.push_back({x, y, n / x / y});
    }
  }
  return all;
}

inline std::vector<int> roots(Verb verb, int n) {
  const bool has_root = verb == Verb::broadcast || verb == Verb::reduce || verb == Verb::scatter ||
                        verb == Verb::gather || verb == Verb::send;
  if (!has_root) return {0};
  std::vector<int> all;
  for (int root = 0; root < n; ++root) {
    if (n <= 9 || root == 0 || root == n / 2 || root == n - 1) all.push_back(root);
  }
  return all;
}

// The shapes that matter to the algorithm.
inline std::vector<Shape> shapes(Verb verb, Algorithm algorithm, int n) {
  std::vector<Shape> all;
  for (const int root : roots(verb, n)) {
    Shape shape{.root = root, .peer = (root + 1) % n};
    if (verb == Verb::send && n == 1) continue;
    if (algorithm == Algorithm::torus) {
      for (const std::vector<int>& torus : tori(n)) {
        for (const bool split : {false, true}) all.push_back({.torus = torus, .split_axes = split});
      }
    } else if (algorithm == Algorithm::hierarchical || algorithm == Algorithm::rail) {
      for (const int per_node : {1, 2, 3, 4, 8, 40}) {
        if (per_node < n || n <= 12) all.push_back({.ranks_per_node = per_node});  // larger: one node
      }
    } else {
      for (const int pieces : {1, 2, 5}) {
        shape.pieces = pieces;
        all.push_back(shape);
      }
      shape.all_pairs = true;
      if (verb == Verb::all_to_all) all.push_back(shape);
    }
  }
  return all;
}

struct Pair {
  Verb verb = Verb::all_reduce;
  Algorithm algorithm = Algorithm::ring;
};

inline std::vector<Pair> pairs() {
  std::vector<Pair> all;
  for (const auto& [verb_name, verb] : kVerbNames) {
    for (const Algorithm algorithm : algorithms_of(verb)) all.push_back({verb, algorithm});
  }
  return all;
}

inline std::string test_name(const testing::TestParamInfo<Pair>& info) {
  return std::string(name_of(info.param.verb)) + "_by_" + std::string(name_of(info.param.algorithm));
}

// For a message when a test fails.
inline std::string described(const Pair& pair, int n, const Shape& shape) {
  std::string text = std::string(name_of(pair.verb)) + " by " + std::string(name_of(pair.algorithm)) + ", ranks " +
                     std::to_string(n) + ", root " + std::to_string(shape.root) + ", per node " +
                     std::to_string(shape.ranks_per_node) + ", pieces " + std::to_string(shape.pieces) + ", torus";
  for (const int extent : shape.torus) text += " " + std::to_string(extent);
  return text + (shape.split_axes ? " split" : "") + (shape.all_pairs ? " all pairs" : "");
}

}  // namespace twinpod::collective
