// Does the job fit in memory, and if not: what is short, and the nearest layout that fits.
//
//     const Result<void> fits = check_memory(job);
//
//     memory: stage 0 needs 112 GB, but A100-SXM4-80GB has 80.0 GB: 32.0 GB too much; the largest part is
//     optimizer, 56.1 GB
//       the nearest layout that fits: zero 1 (68.2 GB, 12.3 s a step)
//
// REQUIRES everywhere: a job that passed layout::check.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "plan/memory.hpp"
#include "spec/job.hpp"

namespace twinpod::plan {

// The parts of a rank's memory by name, in the order in which they are printed.
using MemoryParts = std::array<std::pair<std::string_view, double>, 8>;
MemoryParts memory_parts(const MemoryUse& use);

// `margin` is the share of the device's memory that must stay free.
bool fits(const spec::Job& job, const MemoryUse& use, double margin = 0);

// What a host holds: activations that wait there, optimizer state of its own devices, or as a parameter server its
// share of the whole model's, with the gradients that it adds up.
double host_bytes(const spec::Job& job, const MemoryUse& use);

// What there is too little of, with its numbers.
struct Shortage {
  bool of_host = false;     // the host's memory, for what is offloaded; else the device's
  double needed_bytes = 0;  // of one device, or of one host
  double capacity_bytes = 0;
  MemoryUse use;             // of the fullest stage
  std::string_view largest;  // name of the largest part of it
  double largest_bytes = 0;
  double over_bytes() const { return needed_bytes - capacity_bytes; }
};

std::optional<Shortage> shortage(const spec::Job& job);

// A layout that fits, and how it differs from the job's.
struct Fitting {
  spec::Layout layout;
  int devices = 0;
  std::vector<std::string> changes;  // "zero 1", "recompute full"
  double memory_bytes = 0;
  double step_time_s = 0;
};

// On as many devices: the fewest changes, and among those the fastest. Empty when no layout fits.
std::optional<Fitting> nearest_fitting(const spec::Job& job);

// On the fewest devices of the same kind, with everything that saves memory; empty when no number of them is enough.
std::optional<Fitting> smallest_fitting(const spec::Job& job);

// Refuses with the shortage and the nearest that fits.
Result<void> check_memory(const spec::Job& job);

}  // namespace twinpod::plan
