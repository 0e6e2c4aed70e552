// The shifts of an all-to-all between blocks of ranks, without writing down each of the n·(n-1) transfers.
//
// In shift s rank i sends to rank (i + s) mod n; the next shift starts when all have ended. Ranks of a block (those of
// a leaf switch) share links from there on, so only the number of transfers from block to block matters:
//
//     ShiftBlocks blocks;
//     blocks.block_of_rank = {0, 0, 1, 1};                      // two leaves of two
//     blocks.path = [&](int from, int to, std::vector<int>& path) { if (from != to) path = {up[from], down[to]}; };
//     blocks.max_bytes_per_s = 25e9;                            // of a rank's own link, which carries one flow at a
//     time Program all_to_all = shift_program(blocks, bytes_of_a_transfer);
//
// This is exact when all transfers from one block to another cross the same shared links, that is when parallel cables
// are used evenly (adaptive routing; give them as one link with their capacity added up), and when the links of a rank
// that are not shared are the same for all ranks. Otherwise list the flows of each shift.
#pragma once

#include <functional>
#include <vector>

#include "sim/flow.hpp"

namespace twinpod::sim {

struct ShiftBlocks {
  std::vector<int> block_of_rank;                                                  // numbers from 0
  std::function<void(int from_block, int to_block, std::vector<int>& path)> path;  // shared links; appends
  double max_bytes_per_s = std::numeric_limits<double>::infinity();                // the slowest link of a rank's own
  double delay_s = 0;  // of a message, and the latencies of a rank's own links
};

// Phases 1 .. n-1. REQUIRES: block_of_rank has no negative number; path is there.
Program shift_program(const ShiftBlocks& blocks, double bytes);

}  // namespace twinpod::sim
