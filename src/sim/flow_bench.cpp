// How long flows take to simulate, folded, everything included from links and routes to the end time. The bars, on one
// core: a ring all-reduce of 1 GB over 4,096 ranks 10 ms, over 1,048,576 ranks 1 s; an all-reduce on a 16×16×16 torus
// 20 ms; an all-to-all over 4,096 ranks of a fat tree 200 ms.
#include <benchmark/benchmark.h>

#include <cstdlib>

#include "sim/flow.hpp"
#include "sim/flow_shifts.hpp"

namespace {

using namespace twinpod;
using sim::Flow;
using sim::FlowLink;

// A fat tree of leaves with 32 ranks and 32 spines. A rank has a NIC: device-nic, nic-leaf, leaf-spine and back are the
// six links of a path.
struct FatTree {
  explicit FatTree(int num_ranks) : ranks(num_ranks) {
    links.assign(4 * static_cast<std::size_t>(ranks), FlowLink{50e9, 0.5e-6});
    links.resize(6 * static_cast<std::size_t>(ranks), FlowLink{25e9, 1e-6});
  }
  void path(int from, int to, std::vector<int>& path) const {
    const int spine = to % kRanksOfLeaf;
    path = {from, ranks + from};
    if (from / kRanksOfLeaf != to / kRanksOfLeaf) {
      path.push_back(4 * ranks + from / kRanksOfLeaf * kRanksOfLeaf + spine);
      path.push_back(5 * ranks + to / kRanksOfLeaf * kRanksOfLeaf + spine);
    }
    path.push_back(2 * ranks + to);
    path.push_back(3 * ranks + to);
  }
  static constexpr int kRanksOfLeaf = 32;
  int ranks;
  std::vector<FlowLink> links;
};

// Neighbours in the ring are on different leaves, so that every transfer crosses six links; `slow` makes one link slow.
void ring_all_reduce(benchmark::State& state, bool slow) {
  const int ranks = static_cast<int>(state.range(0));
  const int leaves = ranks / FatTree::kRanksOfLeaf;
  for (auto _ : state) {
    FatTree tree(ranks);
    if (slow) tree.links[7].bytes_per_s = 10e9;
    const auto device = [&](int rank) { return rank % leaves * FatTree::kRanksOfLeaf + rank / leaves; };
    sim::Program program;
    program.phases.resize(1);
    program.phases[0].repeats = 2.0 * (ranks - 1);
    program.phases[0].num_drawn = static_cast<std::size_t>(ranks);
    program.phases[0].draw = [&](std::size_t i, Flow& flow) {
      const int rank = static_cast<int>(i);
      tree.path(device(rank), device((rank + 1) % ranks), flow.path);
      flow.bytes = 1e9 / ranks;
    };
    const auto result = sim::run(tree.links, {program});
    state.counters["kinds"] = static_cast<double>(result->flow_kinds);
    state.counters["time_s"] = result->end_s;
  }
}

// Reduce-scatter over x, y, z and all-gather back, in both directions of each axis: six phases.
void torus_all_reduce(benchmark::State& state) {
  constexpr int kSide = 16;
  constexpr int kRanks = kSide * kSide * kSide;
  for (auto _ : state) {
    const std::vector<FlowLink> links(6 * kRanks, FlowLink{50e9, 1e-6});
    const int stride[] = {1, kSide, kSide * kSide};
    sim::Program program;
    for (int phase = 0; phase < 6; ++phase) {
      const int axis = phase < 3 ? phase : 5 - phase;
      sim::PhaseFlows flows;
      flows.repeats = kSide - 1;
      for (int i = 0; i < 2 * kRanks; ++i) {
        Flow flow;
        flow.path = {6 * (i % kRanks) + 2 * axis + i / kRanks};
        flow.bytes = 1e9 / 2 / kSide / stride[axis];
        flows.flows.push_back(std::move(flow));
      }
      program.phases.push_back(std::move(flows));
    }
    const auto result = sim::run(links, {program});
    state.counters["kinds"] = static_cast<double>(result->flow_kinds);
    state.counters["time_s"] = result->end_s;
  }
}

// Shifts by blocks: the 32 cables of a leaf up and down as one link each (adaptive routing).
void all_to_all_blocks(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  const int leaves = ranks / FatTree::kRanksOfLeaf;
  for (auto _ : state) {
    const std::vector<FlowLink> links(static_cast<std::size_t>(2 * leaves), FlowLink{32 * 25e9, 1e-6});
    sim::ShiftBlocks blocks;
    for (int i = 0; i < ranks; ++i) blocks.block_of_rank.push_back(i / FatTree::kRanksOfLeaf);
    blocks.path = [&](int from, int to, std::vector<int>& path) {
      if (from != to) path = {from, leaves + to};
    };
    blocks.max_bytes_per_s = 50e9;
    blocks.delay_s = 2e-6;
    const auto result = sim::run(links, {sim::shift_program(blocks, 1e9 / ranks)});
    state.counters["kinds"] = static_cast<double>(result->flow_kinds);
    state.counters["time_s"] = result->end_s;
  }
}

// The same with every transfer drawn, and static routes.
void all_to_all_transfers(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  for (auto _ : state) {
    const FatTree tree(ranks);
    sim::Program program;
    for (int shift = 1; shift < ranks; ++shift) {
      sim::PhaseFlows phase;
      phase.num_drawn = static_cast<std::size_t>(ranks);
      phase.draw = [&tree, shift](std::size_t i, Flow& flow) {
        tree.path(static_cast<int>(i), (static_cast<int>(i) + shift) % tree.ranks, flow.path);
        flow.bytes = 1e9 / tree.ranks;
      };
      program.phases.push_back(std::move(phase));
    }
    const auto result = sim::run(tree.links, {program});
    state.counters["kinds"] = static_cast<double>(result->flow_kinds);
    state.counters["time_s"] = result->end_s;
  }
}

// Rings of all data-parallel groups at once, over the shared links of a fat tree with half the spines.
void many_rings(benchmark::State& state) {
  constexpr int kRanks = 4096;
  const int groups = static_cast<int>(state.range(0));
  const int ranks_of_group = kRanks / groups;
  for (auto _ : state) {
    const FatTree tree(kRanks);
    std::vector<sim::Program> programs(static_cast<std::size_t>(groups));
    for (int g = 0; g < groups; ++g) {
      sim::PhaseFlows phase;
      phase.repeats = 2.0 * (ranks_of_group - 1);
      for (int i = 0; i < ranks_of_group; ++i) {
        Flow flow;
        tree.path(g + groups * i, g + groups * ((i + 1) % ranks_of_group), flow.path);
        for (int& link : flow.path) {
          if (link >= 4 * kRanks) link = link / 2 * 2;
        }
        flow.bytes = 1e9 / ranks_of_group;
        phase.flows.push_back(std::move(flow));
      }
      programs[static_cast<std::size_t>(g)].phases.push_back(std::move(phase));
    }
    const auto result = sim::run(tree.links, programs);
    state.counters["kinds"] = static_cast<double>(result->flow_kinds);
    state.counters["time_s"] = result->end_s;
  }
}

BENCHMARK_CAPTURE(ring_all_reduce, alike, false)->Arg(4096)->Arg(1 << 20)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ring_all_reduce, slow_link, true)->Arg(4096)->Arg(1 << 20)->Unit(benchmark::kMillisecond);
BENCHMARK(torus_all_reduce)->Unit(benchmark::kMillisecond);
BENCHMARK(all_to_all_blocks)->Arg(4096)->Unit(benchmark::kMillisecond);
BENCHMARK(all_to_all_transfers)->Arg(512)->Arg(4096)->Unit(benchmark::kMillisecond);
BENCHMARK(many_rings)->Arg(128)->Arg(1024)->Unit(benchmark::kMillisecond);

}  // namespace
