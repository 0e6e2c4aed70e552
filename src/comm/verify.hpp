// Buffers with a known content, and what a collective must make of them, exactly.
//
// Rank r has at index i of the whole buffer a small whole number that depends on r and i and repeats every 8 indices,
// so that sums of 31 ranks are exact even in bf16 and a wrong rank, chunk or shift shows.
//
//     fill_input(call, 2, 4, input);                      // the input of rank 2 of 4
//     run(world, call);
//     num_wrong(call, 2, 4, output) == 0
#pragma once

#include <cstddef>

#include "comm/communicator.hpp"

namespace twinpod::comm {

// Elements of the buffers of a rank; 0 for those that it does not have.
std::size_t input_elements(const Call& call, int rank, int ranks);
std::size_t output_elements(const Call& call, int rank, int ranks);

void fill_input(const Call& call, int rank, int ranks, void* input);
// Elements of an output that are not what they must be.
std::size_t num_wrong(const Call& call, int rank, int ranks, const void* output);

}  // namespace twinpod::comm
