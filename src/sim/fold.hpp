// Which flows and links are alike: partition refinement on a graph with two sides.
//
// Nodes of the left (flows) are joined to nodes of the right (the links that they cross). Nodes of a class have the
// same colour, and meet the same number of nodes of each class of the other side: the partition is equitable, and the
// coarsest such. Progressive filling cannot tell the members of such a class apart, so one of each is enough to
// simulate.
//
//     Bipartite graph;                       // two flows over links 0,1 and 2,1
//     graph.right_colour = {7, 9, 7};
//     graph.first = {0, 2, 4}, graph.right = {0, 1, 2, 1}, graph.left_colour = {5, 5}, graph.left_count = {1, 1};
//     refine(graph).left_class               // {0, 0}: alike
//
// Cost: a node is looked at again only when the class of one that it is joined to has split, and the part that nothing
// touched keeps its name, so the work is near-linear in the number of joints. Classes are told apart by 64-bit sums of
// hashes (colour refinement as in McKay and Piperno, "Practical graph isomorphism, II", 2014,
// https://arxiv.org/abs/1301.1493, section 2): two that differ are taken for one with a chance of about nodes² / 2^64.
#pragma once

#include <cstdint>
#include <vector>

namespace twinpod::sim {

struct Bipartite {
  std::vector<std::uint32_t> first = {0};  // of left node i: right[first[i]] .. right[first[i + 1] - 1]
  std::vector<std::uint32_t> right;        // a node may be joined to another several times
  std::vector<std::uint64_t> left_colour;
  std::vector<std::uint64_t> right_colour;
  std::vector<double> left_count;  // a left node stands for so many (a whole number)
};

struct Partition {
  std::vector<std::uint32_t> left_class;
  std::vector<std::uint32_t> right_class;
  std::uint32_t num_left = 0;
  std::uint32_t num_right = 0;
};

Partition refine(const Bipartite& graph);

// Every node in a class of its own.
Partition all_different(const Bipartite& graph);

}  // namespace twinpod::sim
