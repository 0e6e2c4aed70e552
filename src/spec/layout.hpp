// How the ranks of a job are divided and what they do, and which of that a software can run.
#pragma once

#include <optional>
#include <vector>

namespace twinpod::spec {

// How context-parallel ranks get each other's keys and values: round a ring while they compute, or all before it.
enum class ContextExchange { ring, gather };
enum class Recompute { none, selective, full };
enum class Schedule { gpipe, one_f_one_b, interleaved, zb_1p, zb_2p, zb_v, dualpipe, dualpipe_v, custom };

// How the ranks are divided. dp is not a choice: it is devices / (tp * pp * cp).
struct Layout {
  int tp = 1;              // tensor parallel
  int pp = 1;              // pipeline stages
  int virtual_stages = 1;  // model chunks of one stage (interleaving)
  int cp = 1;              // context parallel
  ContextExchange context_exchange = ContextExchange::ring;
  int ep = 1;   // expert parallel: experts are spread over this many of the dp * cp ranks
  int etp = 0;  // tensor parallel inside an expert; 0: as tp
  bool sequence_parallel = false;
  int zero = 0;         // 0: none, 1: optimizer state, 2: and gradients, 3: and parameters
  int shard_group = 0;  // ranks over which ZeRO shards; 0: all data-parallel ranks
  int micro_batch = 1;  // sequences
  Recompute recompute = Recompute::none;
  int recompute_layers = 0;  // with full: layers of a stage that are recomputed; 0: all
  Schedule schedule = Schedule::one_f_one_b;
  int servers =
      0;  // hosts that keep parameters and optimizer state (parameter servers); 0: ranks reduce among themselves
  bool offload_optimizer = false;    // optimizer state and update on the host
  bool offload_activations = false;  // activations parked in host memory between forward and backward
  bool remainder_last = false;       // layers that do not divide go to the last stages, not to the first
  bool uneven_ends = false;          // first and last stage hold one layer less (embedding and head are layers)
  bool async_tp = false;             // products cut in pieces so that their collectives hide behind them
  std::optional<bool> overlap = {};  // gradients are reduced beside the backward passes; empty: as the stack does
  int dp = 0;                        // as the user wrote it, to be checked; 0: not written
};

// Tensor parallel inside an expert.
inline int expert_tp(const Layout& layout) { return layout.etp > 0 ? layout.etp : layout.tp; }

// What a stack, or an engine that a launch is written for, can run. A search keeps to it unless it is told otherwise;
// an estimate does not: it answers for what could be built, too.
struct Abilities {
  std::vector<Schedule> schedules = {Schedule::one_f_one_b, Schedule::interleaved};
  std::vector<Recompute> recompute = {Recompute::none, Recompute::selective, Recompute::full};
  std::vector<int> zero = {0, 1, 2, 3};
  bool tensor_parallel = true;
  bool pipeline_parallel = true;
  bool context_parallel = true;
  bool expert_parallel = true;
  bool sequence_parallel = true;
  bool uneven_stages = true;      // layers need not divide by the stages
  bool sharded_pipeline = false;  // ZeRO 2 and 3 go with a pipeline, too
  bool offload_optimizer = false;
  bool offload_activations = false;
  bool parameter_server = false;
};

}  // namespace twinpod::spec
