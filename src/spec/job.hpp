// A job: what to train, on what, and how. Plain structs with their defaults beside them.
#pragma once

#include <cstdint>
#include <string>

#include "spec/checkpoint.hpp"
#include "spec/cluster.hpp"
#include "spec/layout.hpp"
#include "spec/model.hpp"
#include "spec/recipe.hpp"
#include "spec/stack.hpp"

namespace twinpod::spec {

enum class Optimizer { adam, sgd_momentum, sgd, adafactor };

struct Training {
  double global_batch = 0;                // sequences in a step
  double batch_tokens = 0;                // near which it was chosen; 0: the number of sequences was written
  int sequence = 0;                       // tokens; 0: the model's max_sequence
  Precision precision = Precision::bf16;  // of the matrix products
  bool rowwise_scaling = false;           // FP8 with one scale for each row: slower products
  bool pure_low_precision = false;        // parameters and optimizer state in the 16-bit type too
  Optimizer optimizer = Optimizer::adam;
  double gradient_bytes = 0;   // of one gradient while it is accumulated; 0: as the stack does
  double tokens = 0;           // of the whole run; 0: not asked
  double target_loss = 0;      // 0: not asked
  double bytes_per_token = 2;  // in the data files
  Recipe recipe;
};

struct Job {
  std::string name;
  Model model;
  Cluster cluster;  // cluster.devices is the number of devices that the job uses
  Layout layout;
  Training training;
  Data data;
  Checkpoint checkpoint;
  Stack stack;
  std::string schedule_file;  // with Schedule::custom: who does what when (docs/program.md)
  // What the job itself says; the rest are defaults, which a planner may choose better.
  bool names_stack = false;
  bool has_layout = false;
  bool names_devices = false;
  int idle_devices = 0;  // of the cluster, when nobody named a number and not all can be used (layout/whole_copies.hpp)
};

// Ranks that hold copies of the same parameters: devices / (tp * pp * cp).
inline int data_parallel(const Job& job) {
  const std::int64_t model_ranks = std::int64_t{job.layout.tp} * job.layout.pp * job.layout.cp;
  return static_cast<int>(job.cluster.devices / model_ranks);
}

// Micro-batches that each rank works on in a step; a whole number of them in a job that passed layout::check.
inline double micro_batches(const Job& job) {
  return job.training.global_batch / (static_cast<double>(data_parallel(job)) * job.layout.micro_batch);
}

// The nearest number of sequences to so many tokens that every data-parallel rank can share, at least one micro-batch
// each.
double shared_batch(const Job& job, double tokens);

}  // namespace twinpod::spec
