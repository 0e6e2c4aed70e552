#include "sim/flow_shifts.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>

namespace twinpod::sim {
namespace {

// Ranks one after the other in the same block.
struct Stretch {
  std::size_t first = 0;
  int block = 0;
};

struct Bundle {
  int from = 0;
  int to = 0;
  double count = 0;
};

// What the phases of a program share.
struct Shifts {
  ShiftBlocks blocks;
  double bytes = 0;
  std::vector<Stretch> stretches;  // of two rounds of the ranks, so that a shift need not wrap
  std::vector<std::vector<int>> path_of_pair;
  std::size_t num_blocks = 0;
};

// Transfers of a shift by pair of blocks: both lists of stretches are walked side by side. The same pair may come
// again.
std::vector<Bundle> bundles_of_shift(const Shifts& shifts, std::size_t shift) {
  const std::vector<Stretch>& s = shifts.stretches;
  const std::size_t ranks = shifts.blocks.block_of_rank.size();
  std::vector<Bundle> bundles;
  std::size_t from = 0;
  std::size_t to = 0;
  while (s[to + 1].first <= shift) ++to;
  for (std::size_t rank = 0; rank < ranks;) {
    const std::size_t end = std::min({ranks, s[from + 1].first, s[to + 1].first - shift});
    bundles.push_back({s[from].block, s[to].block, static_cast<double>(end - rank)});
    rank = end;
    if (s[from + 1].first == rank) ++from;
    if (s[to + 1].first == rank + shift) ++to;
  }
  return bundles;
}

std::shared_ptr<Shifts> shared_part(const ShiftBlocks& blocks, double bytes) {
  auto shifts = std::make_shared<Shifts>();
  shifts->blocks = blocks;
  shifts->bytes = bytes;
  const std::vector<int>& block_of = blocks.block_of_rank;
  for (std::size_t i = 0; i < 2 * block_of.size(); ++i) {
    const int block = block_of[i % block_of.size()];
    if (i == 0 || shifts->stretches.back().block != block) shifts->stretches.push_back({i, block});
    shifts->num_blocks = std::max(shifts->num_blocks, static_cast<std::size_t>(block) + 1);
  }
  shifts->stretches.push_back({2 * block_of.size(), -1});
  return shifts;
}

}  // namespace

Program shift_program(const ShiftBlocks& blocks, double bytes) {
  Program program;
  const std::size_t ranks = blocks.block_of_rank.size();
  if (ranks < 2) return program;
  const std::shared_ptr<const Shifts> shifts = shared_part(blocks, bytes);
  // The bundles of the shift that is drawn at the moment.
  struct Drawn {
    std::size_t shift = 0;
    std::vector<Bundle> bundles;
  };
  const auto drawn = std::make_shared<Drawn>();
  for (std::size_t shift = 1; shift < ranks; ++shift) {
    PhaseFlows phase;
    phase.num_drawn = bundles_of_shift(*shifts, shift).size();
    phase.draw = [shifts, drawn, shift](std::size_t index, Flow& flow) {
      if (drawn->shift != shift) *drawn = {shift, bundles_of_shift(*shifts, shift)};
      const Bundle& bundle = drawn->bundles[index];
      shifts->blocks.path(bundle.from, bundle.to, flow.path);
      flow.bytes = shifts->bytes;
      flow.delay_s = shifts->blocks.delay_s;
      flow.count = bundle.count;
      flow.max_bytes_per_s = shifts->blocks.max_bytes_per_s;
    };
    program.phases.push_back(std::move(phase));
  }
  return program;
}

}  // namespace twinpod::sim
