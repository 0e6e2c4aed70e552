// Proof of a schedule, without a byte: every chunk is the set of contributions that are added up in it.
//
// A contribution is a chunk of a rank's input. The checker runs the rounds and refuses
// - a step outside of the buffers, or one that reads a chunk that nobody has written;
// - a contribution that is added twice, a chunk that a round both reads and writes, or writes twice;
// - an end at which a chunk of a result misses a contribution, or has one too many.
//
//     const Result<void> proof = check(schedule);
//     proof.error().message == "rank 3 ends without the contribution of rank 1 in chunk 2 of its output"
#pragma once

#include "collective/schedule.hpp"
#include "core/error.hpp"

namespace twinpod::collective {

// Errors are of the input, and have the line of the step when the schedule was read from a file.
Result<void> check(const Schedule& schedule);

}  // namespace twinpod::collective
