// Checkpoints as ops: several steps of a Program, one behind the other, with a checkpoint behind some of them.
//
//     const CheckpointBytes bytes = checkpoint_bytes(job, *program);
//     const Steps steps = with_checkpoints(*program, bytes, {.steps = 4, .beside = false, .tiers = {Tier::local_disk,
//     Tier::storage}}); steps.program.kinds[0].instances[steps.boundary(0, 1)]        // where step 1 ends on the first
//     stage
//
// A step ends at a boundary: all ranks have come to its end (unless the norm of the gradients is looked at later), and
// none of the next step's ops has begun. A checkpoint begins there:
//   - the snapshot: parameters and optimizer state are copied to the host's memory, on the lane `host`. Our trainer
//   does
//     it beside the passes of the next step, and its update waits, because only that changes what is copied; other
//     software copies before it goes on.
//   - the drain: from there to one tier after the other, the fastest first, on the lane `drain`. Training goes on.
//   - the snapshot of the next checkpoint waits until the drain has ended: its memory is taken until then.
#pragma once

#include <vector>

#include "program/program.hpp"
#include "spec/job.hpp"

namespace twinpod::program {

// Each parameter and its optimizer state once: ranks that hold the same divide the work evenly among them.
struct CheckpointBytes {
  std::vector<double> of_rank;  // by kind
  double all = 0;               // all ranks together
};

// REQUIRES: a Program of the job.
CheckpointBytes checkpoint_bytes(const spec::Job& job, const Program& program);

struct CheckpointSteps {
  int steps = 2;
  int every = 0;                 // steps from one checkpoint to the next; 0: one, behind the first step
  bool beside = false;           // the snapshot runs beside the next step's passes, and its update waits
  std::vector<Tier> tiers = {};  // that the drain writes to, in this order; none: it ends in the host's memory
};

// The blocks of the step keep their numbers; those of boundaries and checkpoints follow.
struct Steps {
  Program program;
  int num_step_blocks = 0;
  std::vector<int> num_instances;  // of a step, by kind
  std::vector<int> checkpoints;    // steps behind which there is one, in order
  int num_steps = 0;
  bool drains = false;

  // Instances of a kind: the one that ends step s; of checkpoint c the snapshot, and the drain if there is one.
  int boundary(int kind, int step) const;
  int snapshot(int kind, int checkpoint) const;
  int drain(int kind, int checkpoint) const { return snapshot(kind, checkpoint) + 1; }
};

// REQUIRES: steps > 0, bytes for each kind.
Steps with_checkpoints(const Program& step, const CheckpointBytes& bytes, const CheckpointSteps& what);

}  // namespace twinpod::program
