// The Timeline of a step of all ranks, and how much of it was arithmetic.
#pragma once

#include "program/timeline.hpp"
#include "train/rank.hpp"

namespace twinpod::train {

// One number of every rank, on every rank.
Result<std::vector<double>> gather(comm::Communicator& world, double own);

// Ranks other than 0 send what they recorded in a step of step_s seconds.
template <typename T>
Result<void> gather_timeline(Rank<T>& rank, double step_s, program::Timeline& timeline);

// Seconds of arithmetic in a step, of all ranks together: what one rank alone would need for the whole batch. An
// update that copies of the model all do counts once.
double arithmetic_seconds(const spec::Job& job, const program::Program& program, const program::Timeline& timeline);

}  // namespace twinpod::train
