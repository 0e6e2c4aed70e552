// Is a Program sound? And how much memory do its ranks need, op by op?
//
//     const Result<void> sound = check(program);           // input error: names the stage, a rank of it, and the op
//     const Result<void> fits = check_memory(program);     // infeasible: names the op, and by how much
//     memory_of(program, 3).peak_bytes                     // of the ranks of stage 3
//
// check() proves: every pass of every micro-batch is there once and in order; every recv has the send of the same
// bytes, in the same order at both ends of each channel; nobody waits for ever; collectives that join stages are the
// same on all of them; each buffer is created once, freed once, and used only in between.
#pragma once

#include <array>
#include <vector>

#include "core/error.hpp"
#include "program/program.hpp"

namespace twinpod::program {

Result<void> check(const Program& program);

using BytesByKind = std::array<double, kNumBufferKinds>;

struct MemoryOverTime {
  double resident_bytes = 0;
  double peak_bytes = 0;
  BytesByKind at_peak{};          // the parts of the peak
  PlacedOp op;                    // during which it is reached; op.op is null when that is the whole step
  std::vector<double> instances;  // peak during each instance of the kind's list
};

// Of the ranks of one kind, in the order of their list. Residents are counted from the start.
MemoryOverTime memory_of(const Program& program, int kind);

// Against the device's memory; a Program that does not know it passes.
Result<void> check_memory(const Program& program);

}  // namespace twinpod::program
