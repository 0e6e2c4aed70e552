// What the files of this module share.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "machine/machine.hpp"

namespace twinpod::machine {

std::string host_name();

// The same number on all ranks.
Result<double> largest_of_ranks(comm::Communicator& world, double value);

// Memory that is used in turn, so that a call finds its data where a step of training does: not in the nearest caches.
class Ring {
 public:
  explicit Ring(std::size_t bytes);
  bool is_there() const { return memory_ != nullptr; }
  // REQUIRES: is_there(), and not more than the whole.
  template <typename T>
  T* next(std::size_t count) {
    return reinterpret_cast<T*>(next_bytes(count * sizeof(T)));  // NOLINT: raw memory
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::byte* next_bytes(std::size_t bytes);
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t bytes_ = 0;
  std::size_t next_ = 0;
};
inline constexpr std::size_t kRingBytes = std::size_t{96} << 20U;

// A rank that nobody takes the core from is timed by what it had of it.
bool has_own_core(const comm::Communicator& world, const RankRequest& request, const Machine& machine);

// Seconds of one call on the slowest rank, in the best of some blocks; all ranks call at once.
Result<double> best_seconds(comm::Communicator& world, bool own_core, const std::function<void()>& call);

// The trainer's kernels beside products, on all ranks at once.
Result<void> time_kernels(comm::Communicator& world, const RankRequest& request, Machine& machine);

// A number that is looked for, above 0.
struct Unknown {
  double value = 1;
  double low = 1e-12;
  double high = 1e12;
};

// Moves the unknowns until predictions are near what was measured: the least mean of |ln(predicted / measured)|, which
// a few bad measurements do not move. Returns that mean, a typical relative error.
using Predict = std::function<double(std::span<const Unknown>, std::size_t point)>;
double fit(std::span<Unknown> unknowns, std::span<const double> measured, const Predict& predict);

}  // namespace twinpod::machine
