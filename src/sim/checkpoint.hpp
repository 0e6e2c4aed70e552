// What checkpoints cost: the step is simulated with a checkpoint behind it and, beside its drain, the steps that
// follow.
//
//     job.checkpoint = {.every = 100, .store = {{spec::TierKind::local, "/d"}, {spec::TierKind::shared, "/nfs"}}};
//     const Result<CheckpointRun> run = run_checkpoints({job, program, times, &graph});
//     run->stall_s; run->drain_s; run->shortest_every; run->tiers[1].peak_bytes_per_s
//
// A checkpoint is a snapshot in the host's memory, for which computation or the next update waits, and a drain to one
// tier after the other, beside which training goes on (program/checkpoint.hpp). What the drain writes are flows: all
// ranks of a node share its disks and its way to storage, all nodes share the file system; replicas for a peer, and
// storage that hangs on the training's network, share its links with training.
//
// A drain of more steps than kMostSteps is simulated with a share of its bytes, and its times are multiplied: between
// its begin and its end every step is like the others.
#pragma once

#include <map>
#include <vector>

#include "program/checkpoint.hpp"
#include "sim/step.hpp"
#include "spec/job.hpp"

namespace twinpod::sim {

inline constexpr int kMostSteps = 12;  // that are simulated

struct CheckpointInput {
  const spec::Job& job;  // its `checkpoint` says how often, and where to
  const program::Program& program;
  const StepTimes& times;
  const cluster::Graph* graph = nullptr;
  cluster::Routing routing = cluster::Routing::rail;
  std::vector<int> device_of_rank = {};
  std::map<int, double> slow = {};
  bool fold = true;
};

struct TierRun {
  spec::TierKind kind = spec::TierKind::shared;
  int every = 1;                // takes every so-manieth checkpoint
  double bytes = 0;             // of one checkpoint, all ranks together
  double seconds = 0;           // from the first byte to the last
  double bytes_per_s = 0;       // bytes / seconds
  double peak_bytes_per_s = 0;  // most at a moment
  double mean_bytes_per_s = 0;  // over the whole run
};

struct CheckpointRun {
  int every = 0;
  double step_s = 0;           // without a checkpoint
  double bytes = 0;            // of one checkpoint, all ranks together
  double rank_bytes = 0;       // of the rank that saves most
  double snapshot_s = 0;       // of that rank
  double stall_s = 0;          // that the next step begins later: what of the snapshot nothing hides
  double drain_s = 0;          // behind the snapshot, until the last tier has it
  double wait_s = 0;           // for the drain before, mean of all checkpoints
  double slowed_s = 0;         // that steps beside a drain take longer, all of them together, mean of all checkpoints
  double slowest_step_s = 0;   // beside a drain
  double stall_share = 0;      // of the run's time: stall, waiting and slower steps
  int shortest_every = 1;      // steps between checkpoints, so that none waits
  double drawn_share = 1;      // of the drain's bytes that were simulated
  std::vector<TierRun> tiers;  // memory first
  program::Steps steps;        // what was simulated
  StepRun run;
};

// Refused (input): a tier whose rate the cluster does not say. Refused (infeasible): a replica for a peer when there is
// one host, more than the host's memory holds, parameter servers.
Result<CheckpointRun> run_checkpoints(const CheckpointInput& input);

}  // namespace twinpod::sim
