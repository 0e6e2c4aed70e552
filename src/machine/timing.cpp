// Seconds of calls on all ranks at once.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "kernel/sample.hpp"
#include "machine/machine.hpp"
#include "machine/parts.hpp"

namespace twinpod::machine {
namespace {

using comm::Communicator;

// Short blocks: on a machine that does other things too, some are undisturbed.
constexpr double kBlockSeconds = 0.003;
constexpr int kLeastBlocks = 4;
constexpr std::size_t kHugePage = std::size_t{2} << 20U;

// Of a rank with one thread and a core of its own: the time that it had the core, so that other work on the machine
// does not count. Otherwise that of the wall.
double now_s(bool own_core) {
  timespec time{};
  clock_gettime(own_core ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// A product goes each way that is known in the first calls of its shape (kernel/gemm.hpp).
void warm_up(bool own_core, const std::function<void()>& call) {
  constexpr int kCalls = 12;
  constexpr double kMostSeconds = 0.06;
  const double start = now_s(own_core);
  for (int i = 0; i < kCalls && (i == 0 || now_s(own_core) - start < kMostSeconds); ++i) call();
}

}  // namespace

Ring::Ring(std::size_t bytes) : bytes_((bytes + kHugePage - 1) / kHugePage * kHugePage), turn_(bytes_) {
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kHugePage, bytes_)));
  if (!memory_) return;
  madvise(memory_.get(), bytes_, MADV_HUGEPAGE);  // as the trainer's
  kernel::fill_sample({memory_.get(), bytes_});
}

std::byte* Ring::next_bytes(std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  if (next_ + bytes > turn_) next_ = 0;
  std::byte* at = memory_.get() + next_;
  next_ += (bytes + kLine - 1) / kLine * kLine;
  return at;
}

void Ring::Free::operator()(std::byte* memory) const { std::free(memory); }

Timing timing_of(const Communicator& world, const RankRequest& request, const Machine& machine) {
  return {request.threads == 1 && comm::size_of(world) <= machine.cores * machine.hosts, request.blocks, request.most_s,
          request.typical};
}

Result<double> largest_of_ranks(Communicator& world, double value) {
  const Result<void> done = comm::run(world, {.verb = comm::Verb::all_reduce,
                                              .input = &value,
                                              .output = &value,
                                              .count = 1,
                                              .type = comm::ElementType::f64,
                                              .op = comm::ReduceOp::max});
  if (!done) return tl::unexpected(done.error());
  return value;
}

Result<double> seconds_of_call(Communicator& world, const Timing& timing, const std::function<void()>& call) {
  const bool own_core = timing.own_core;
  warm_up(own_core, call);
  const double start = now_s(own_core);
  call();
  Result<double> once = largest_of_ranks(world, now_s(own_core) - start);
  if (!once) return once;
  const int calls = std::clamp(static_cast<int>(kBlockSeconds / *once), 1, 20000);
  std::vector<double> blocks;
  double spent = 0;  // the same on all ranks, so that they stop together
  for (int block = 0; block < timing.blocks && (block < kLeastBlocks || spent < timing.most_s); ++block) {
    if (Result<void> together = comm::run(world, {.verb = comm::Verb::barrier}); !together) {
      return tl::unexpected(together.error());
    }
    const double begin = now_s(own_core);
    for (int i = 0; i < calls; ++i) call();
    const Result<double> seconds = largest_of_ranks(world, (now_s(own_core) - begin) / calls);
    if (!seconds) return seconds;
    blocks.push_back(*seconds);
    spent += calls * *seconds;
  }
  if (!timing.typical) return *std::min_element(blocks.begin(), blocks.end());
  const auto middle = blocks.begin() + static_cast<std::ptrdiff_t>(blocks.size() / 2);
  std::nth_element(blocks.begin(), middle, blocks.end());
  return *middle;
}

}  // namespace twinpod::machine
