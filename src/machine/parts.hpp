// What the files of this module share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "machine/machine.hpp"
#include "model/segment.hpp"

namespace twinpod::machine {

std::string host_name();

// The same number on all ranks.
Result<double> largest_of_ranks(comm::Communicator& world, double value);

// Memory that is used in turn, so that a call finds its data where a step of training does: not in the nearest caches.
class Ring {
 public:
  explicit Ring(std::size_t bytes);
  bool is_there() const { return memory_ != nullptr; }
  // From now on only so much of it is used, for work whose data would lie that near.
  void turn_within(std::size_t bytes) { turn_ = bytes < bytes_ ? bytes : bytes_; }
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
  std::size_t turn_ = 0;  // bytes after which it begins again
  std::size_t next_ = 0;
};
inline constexpr std::size_t kRingBytes = std::size_t{96} << 20U;

// How a figure is taken.
struct Timing {
  bool own_core = false;  // nobody takes the core from this rank, so it is timed by what it had of it
  int blocks = 15;
  double most_s = 0.4;   // no more blocks after that
  bool typical = false;  // the middle block counts, not the best
};
Timing timing_of(const comm::Communicator& world, const RankRequest& request, const Machine& machine);

// Seconds of one call on the slowest rank, in the best or the middle one of some blocks; all ranks call at once.
Result<double> seconds_of_call(comm::Communicator& world, const Timing& timing, const std::function<void()>& call);

// A product (m x k)(k x n) as a layer has it in one of three ways, which differ in what is transposed.
struct ProductShape {
  int m, n, k;
};
enum class Way { input_gradient, forward, weight_gradient };
// The mean of these ways.
Result<void> time_product(comm::Communicator& world, const RankRequest& request, const ProductShape& shape,
                          std::span<const Way> ways, spec::Precision precision, Ring& ring, Machine& machine);
// Arrays that no cache holds, where there is memory for them and if they may have so many bytes.
Result<void> time_memory(comm::Communicator& world, const RankRequest& request, double most_bytes, Machine& machine);
Result<void> time_overheads(comm::Communicator& world, const RankRequest& request, Machine& machine);

// A model on one rank, as far as it matters to kernels beside products: a layer, the rank's part of the vocabulary, and
// how many parameters it updates.
struct KernelShape {
  spec::Model model;
  model::Shard shard;
  std::int64_t parameters = 0;
};
// Of several GPTs, and of one model; on all ranks at once.
Result<void> time_kernels(comm::Communicator& world, const RankRequest& request, Machine& machine);
Result<void> time_kernels_of(comm::Communicator& world, const RankRequest& request, const KernelShape& shape,
                             spec::Precision precision, Ring& ring, Machine& machine);

// What a step of training sends: messages, and the collectives of data and tensor parallelism.
Result<void> measure_step_links(comm::Communicator& world, const std::string& transport, Machine& machine);

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
