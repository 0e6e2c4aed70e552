// What a rank's ops take, before the first step: passes of one micro-batch through the trainer's own ops, in their
// order and in the buffers of the steps, on all ranks at once. So each op finds its operands where a step has them, and
// its products go the way that they go in steps (kernel/gemm.hpp: it is settled here).
//
//     Rank<float> rank(job, program, world); set_up(rank, seed);
//     const Result<program::OpSeconds> seconds = rehearse(rank);
//
// Each op is timed alone: ranks come together before a collective, and waiting for others does not count, nor is
// anything sent between stages. What overlaps and who waits for whom is for a simulator to say (plan/predict.hpp).
//
// It takes a second or two; of a large model only the first layers pass. Parameters and the optimizer's state are left
// as they were.
#pragma once

#include "program/timeline.hpp"
#include "train/rank.hpp"

namespace twinpod::train {

// On all ranks; what rank 0 gets is complete. REQUIRES: set_up, and no step yet.
template <typename T>
Result<program::OpSeconds> rehearse(Rank<T>& rank);

}  // namespace twinpod::train
