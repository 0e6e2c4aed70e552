// Random graphs with random traffic for the tests of flows: fat trees, tori and heaps of links, with few different
// capacities so that much is alike, and with what breaks likeness: slow links, stragglers, odd groups, late starts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/rng.hpp"
#include "sim/flow.hpp"

namespace twinpod::sim::test {

struct Case {
  std::vector<FlowLink> links;
  std::vector<Program> programs;
};

inline int below(Rng& rng, int count) { return static_cast<int>(rng.below(static_cast<std::uint64_t>(count))); }
inline bool chance(Rng& rng, double share) { return rng.uniform() < share; }

// Leaves and spines: device up, leaf up to a spine, spine down to a leaf, device down.
struct Tree {
  int leaves = 1, devices_of_leaf = 1, spines = 1;
  bool hashed = false;  // spine by a hash of the pair; else by the destination
  int devices() const { return leaves * devices_of_leaf; }
  int up(int device) const { return device; }
  int down(int device) const { return devices() + device; }
  int leaf_up(int leaf, int spine) const { return 2 * devices() + leaf * spines + spine; }
  int leaf_down(int leaf, int spine) const { return 2 * devices() + (leaves + leaf) * spines + spine; }
  int num_links() const { return 2 * devices() + 2 * leaves * spines; }
  std::vector<int> path(int from, int to) const {
    if (from == to) return {};
    const int a = from / devices_of_leaf;
    const int b = to / devices_of_leaf;
    if (a == b) return {up(from), down(to)};
    const int spine = (hashed ? from * 7 + to * 13 : to) % spines;
    return {up(from), leaf_up(a, spine), leaf_down(b, spine), down(to)};
  }
};

inline std::vector<FlowLink> random_links(Rng& rng, int count) {
  const double capacities[] = {1e9, 2e9, 3e9};
  const int kinds = 1 + below(rng, 3);
  const double latency_s = chance(rng, 0.5) ? 1e-6 : 0;
  std::vector<FlowLink> links;
  for (int i = 0; i < count; ++i) {
    const int kind = i * kinds / count;
    links.push_back({capacities[kind], latency_s * (1 + kind)});
  }
  for (int slow = std::max(0, below(rng, 5) - 2); slow > 0; --slow) links[rng.below(links.size())].bytes_per_s *= 0.3;
  return links;
}

// One flow of a hundred is odd in some way.
inline Flow random_details(Rng& rng, std::vector<int> path, double bytes) {
  Flow flow{std::move(path), bytes};
  if (!chance(rng, 0.01)) return flow;
  if (chance(rng, 0.3)) flow.delay_s = 1e-4;
  if (chance(rng, 0.3)) flow.bytes *= 1.5;
  if (chance(rng, 0.1)) flow.bytes = 0;
  if (chance(rng, 0.3)) flow.count = 3;
  if (chance(rng, 0.3)) flow.max_bytes_per_s = 0.4e9;
  return flow;
}

// A ring or the shifts of an all-to-all over devices first, first + step, ...
inline Program tree_program(Rng& rng, const Tree& tree, int first, int step, int ranks, double bytes) {
  Program program;
  const auto device = [&](int rank) { return (first + step * (rank % ranks)) % tree.devices(); };
  const bool ring = chance(rng, 0.6);
  for (int shift = 1; shift < (ring ? 2 : ranks); ++shift) {
    PhaseFlows phase;
    phase.repeats = ring ? 2 * (ranks - 1) : 1;
    for (int i = 0; i < ranks; ++i) {
      phase.flows.push_back(random_details(rng, tree.path(device(i), device(i + shift)), bytes));
    }
    program.phases.push_back(phase);
  }
  return program;
}

inline Case tree_case(Rng& rng) {
  const Tree tree{1 + below(rng, 4), 1 + below(rng, 5), 1 + below(rng, 3), chance(rng, 0.5)};
  Case made{random_links(rng, tree.num_links()), {}};
  const int groups = 1 + below(rng, 4);
  const bool contiguous = chance(rng, 0.5);
  const double bytes = 1e6;
  for (int g = 0; g < groups; ++g) {
    const int ranks = std::max(2, tree.devices() / groups + (chance(rng, 0.2) ? 1 : 0));
    made.programs.push_back(tree_program(rng, tree, contiguous ? g * ranks : g, contiguous ? 1 : groups, ranks, bytes));
    if (chance(rng, 0.2)) made.programs.back().start_s = 1e-3;
    if (g > 0 && chance(rng, 0.2)) made.programs.back().after = {below(rng, g)};
  }
  return made;
}

// Rings on the axes of a torus, one phase for each axis and direction.
inline Case torus_case(Rng& rng) {
  const int x = 2 + below(rng, 4);
  const int y = 2 + below(rng, 4);
  Case made{random_links(rng, 4 * x * y), {}};
  for (int p = 1 + below(rng, 2); p > 0; --p) {
    Program program;
    for (int phase = 0; phase < 3; ++phase) {
      PhaseFlows flows;
      flows.repeats = 1 + below(rng, 6);
      const int hops = 1 + below(rng, 2);
      for (int i = 0; i < x * y; ++i) {
        std::vector<int> path;
        int at = i;
        for (int h = 0; h < hops; ++h) {
          path.push_back(4 * at + phase % 2);
          at = phase % 2 == 0 ? at / x * x + (at + 1) % x : (at + x) % (x * y);
        }
        flows.flows.push_back(random_details(rng, path, 1e6 * (1 + phase)));
      }
      program.phases.push_back(flows);
    }
    made.programs.push_back(program);
  }
  return made;
}

// Flows over random links, each program one or two phases.
inline Case heap_case(Rng& rng) {
  const int num_links = 2 + below(rng, 12);
  Case made{random_links(rng, num_links), {}};
  for (int p = 1 + below(rng, 5); p > 0; --p) {
    Program program;
    program.start_s = chance(rng, 0.3) ? 1e-3 * below(rng, 3) : 0;
    for (int k = 1 + below(rng, 2); k > 0; --k) {
      PhaseFlows phase;
      phase.repeats = below(rng, 5);
      for (int f = below(rng, 6); f > 0; --f) {
        std::vector<int> path;
        for (int hops = below(rng, 4); hops > 0; --hops) path.push_back(below(rng, num_links));
        phase.flows.push_back(random_details(rng, path, 1e6 * (1 + below(rng, 2))));
      }
      program.phases.push_back(phase);
    }
    if (!made.programs.empty() && chance(rng, 0.2)) {
      program.after = {below(rng, static_cast<int>(made.programs.size()))};
    }
    made.programs.push_back(program);
  }
  return made;
}

inline Case random_case(std::uint64_t seed) {
  Rng rng(seed);
  const double which = rng.uniform();
  if (which < 0.5) return tree_case(rng);
  return which < 0.75 ? torus_case(rng) : heap_case(rng);
}

}  // namespace twinpod::sim::test
