// Inside of op_times: what its parts share.
#pragma once

#include <vector>

#include "cluster/network.hpp"
#include "plan/step_pieces.hpp"
#include "program/program.hpp"
#include "sim/op_time.hpp"

namespace twinpod::plan {

using BlockTimes = std::vector<sim::OpTime>;  // in the order of the block's ops

struct OpTimer {
  const spec::Job& job;
  const program::Program& program;
  PassTimes pass;
  StepSum sum;
  std::vector<double> work_s;  // of each work of the Program
};

// A transfer with nothing hidden. REQUIRES: a collective or a send.
sim::OpTime transfer_time(const OpTimer& timer, const program::Op& op);

// As long as asked, its bytes no slower than before.
sim::OpTime stretched(const sim::OpTime& time, double seconds);

// Gradients or updated parameters on their way beside the passes of a stack that overlaps them.
bool is_overlapped_bucket(const program::Op& op);

// The times of a pass, without gradient buckets.
BlockTimes pass_times_of(const OpTimer& timer, const program::Block& block);

// Brings it to `target` seconds, from the start of its computation to the end.
void fit_pass(const OpTimer& timer, const program::Block& block, double target, BlockTimes& times);

// Gradient buckets, and what ends the step.
void add_step_times(const OpTimer& timer, sim::StepTimes& times);

// Blocks one after another on lanes that are free at first, without waiting for other stages.
struct Ends {
  double chain_s = 0;  // of computation and of communication inside layers
  double all_s = 0;
};
struct TimedBlock {
  const program::Block* block;
  const BlockTimes* times;
};
Ends run_blocks(const std::vector<TimedBlock>& blocks);

}  // namespace twinpod::plan
