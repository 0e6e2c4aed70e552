// A job: what to train, on what, and how. Plain structs with their defaults beside them.
#pragma once

#include <cstdint>
#include <string>

#include "spec/cluster.hpp"
#include "spec/model.hpp"
#include "spec/stack.hpp"

namespace twinpod::spec {

enum class Recompute { none, selective, full };
enum class Schedule { gpipe, one_f_one_b, interleaved, zb_1p, zb_2p, zb_v, dualpipe };

// How the ranks are divided. dp is not a choice: it is devices / (tp * pp * cp).
struct Layout {
  int tp = 1;              // tensor parallel
  int pp = 1;              // pipeline stages
  int virtual_stages = 1;  // model chunks of one stage (interleaving)
  int cp = 1;              // context parallel
  int ep = 1;              // expert parallel: experts are spread over this many of the dp * cp ranks
  int etp = 0;             // tensor parallel inside an expert; 0: as tp
  bool sequence_parallel = false;
  int zero = 0;         // 0: none, 1: optimizer state, 2: and gradients, 3: and parameters
  int shard_group = 0;  // ranks over which ZeRO shards; 0: all data-parallel ranks
  int micro_batch = 1;  // sequences
  Recompute recompute = Recompute::none;
  int recompute_layers = 0;  // with full: layers of a stage that are recomputed; 0: all
  Schedule schedule = Schedule::one_f_one_b;
  bool offload_optimizer = false;    // optimizer state and update on the host
  bool offload_activations = false;  // activations parked in host memory between forward and backward
  bool remainder_last = false;       // layers that do not divide go to the last stages, not to the first
  bool uneven_ends = false;          // first and last stage hold one layer less (embedding and head are layers)
  bool async_tp = false;             // products cut in pieces so that their collectives hide behind them
  int dp = 0;                        // as the user wrote it, to be checked; 0: not written
};

enum class Optimizer { adam, sgd_momentum, sgd, adafactor };

struct Training {
  double global_batch = 0;                // sequences in a step
  int sequence = 0;                       // tokens; 0: the model's max_sequence
  Precision precision = Precision::bf16;  // of the matrix products
  bool rowwise_scaling = false;           // FP8 with one scale for each row: slower products
  bool pure_low_precision = false;        // parameters and optimizer state in the 16-bit type too
  Optimizer optimizer = Optimizer::adam;
  double gradient_bytes = 0;   // of one gradient while it is accumulated; 0: as the stack does
  double tokens = 0;           // of the whole run; 0: not asked
  double target_loss = 0;      // 0: not asked
  double bytes_per_token = 2;  // in the data files
};

struct Job {
  std::string name;
  Model model;
  Cluster cluster;  // cluster.devices is the number of devices that the job uses
  Layout layout;
  Training training;
  Stack stack;
};

// Ranks that hold copies of the same parameters: devices / (tp * pp * cp).
inline int data_parallel(const Job& job) {
  const std::int64_t model_ranks = std::int64_t{job.layout.tp} * job.layout.pp * job.layout.cp;
  return static_cast<int>(job.cluster.devices / model_ranks);
}

}  // namespace twinpod::spec
