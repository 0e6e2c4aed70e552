// Inside of run_checkpoints: where a job's checkpoints go, how fast, and whether they can.
#pragma once

#include <vector>

#include "core/error.hpp"
#include "program/checkpoint.hpp"
#include "sim/step.hpp"
#include "spec/job.hpp"

namespace twinpod::sim {

struct CheckpointTiers {
  std::vector<spec::CheckpointTier> tiers;  // memory first, always
  std::vector<program::Tier> drains;        // of all but memory
  StorageLinks links;
  double snapshot_bytes_per_s = 0;  // of one rank
  double estimate_s = 0;            // of the drain, with nothing in its way
};

Result<CheckpointTiers> checkpoint_tiers(const spec::Job& job, const program::CheckpointBytes& bytes);

// Seconds of the ops of several steps; `drawn` is the share of the drain's bytes that moves.
StepTimes checkpoint_times(const spec::Job& job, const CheckpointTiers& tiers, const program::Steps& steps,
                           const StepTimes& step, double drawn);

}  // namespace twinpod::sim
