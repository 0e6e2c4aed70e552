// What the rules of check() have in common.
#pragma once

#include <fmt/format.h>

#include <string>

#include "core/error.hpp"
#include "program/program.hpp"

namespace twinpod::program {

inline std::size_t at(int i) { return static_cast<std::size_t>(i); }

inline const Block& block_of(const Program& program, const Instance& instance) {
  return program.blocks[at(instance.block)];
}

// "stage 3 (rank 24)": the first of its ranks.
inline std::string who(const Program& program, int kind) {
  return fmt::format("stage {} (rank {})", program.kinds[at(kind)].stage,
                     layout::rank_on_stage(program.mesh, 0, program.kinds[at(kind)].stage));
}

inline tl::unexpected<Error> wrong_at(const Program& program, const PlacedOp& op, const std::string& what) {
  return input_error(fmt::format("program: {}, op {} of instance {}, {}: {}", who(program, op.kind), op.index,
                                 op.instance, op_text(op), what));
}

inline Phase phase_of(const Block& block, int half) { return half == 1 ? Phase::backward : block.phase; }
inline bool is_input_backward(Phase phase) { return phase == Phase::backward || phase == Phase::backward_input; }

// Every recv has its send (program/check_transfers.cpp).
Result<void> check_transfers(const Program& program);

}  // namespace twinpod::program
