// The same job twice gives the same bits, with ranks as threads and as processes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>

#include "kernel/product.hpp"
#include "train/test_job.hpp"

namespace twinpod::train {
namespace {

constexpr int kSteps = 10;

struct Case {
  const char* name;
  int dp = 1;
  int tp = 1;
  int pp = 1;
  int zero = 0;
  bool overlap = false;
};

const Case kCases[] = {
    {.name = "one rank"},
    {.name = "dp 2", .dp = 2},
    {.name = "dp 2, reduced beside the passes", .dp = 2, .overlap = true},
    {.name = "tp 2", .tp = 2},
    {.name = "pp 2", .pp = 2},
    {.name = "zero 1", .dp = 2, .zero = 1},
    {.name = "zero 3", .dp = 2, .zero = 3},
    {.name = "dp 2, tp 2, pp 2", .dp = 2, .tp = 2, .pp = 2},
};

spec::Job job_of(const Case& one) {
  spec::Job job = small_job();
  job.cluster.devices = one.dp * one.tp * one.pp;
  job.layout.tp = one.tp;
  job.layout.pp = one.pp;
  job.layout.zero = one.zero;
  job.layout.overlap = one.overlap;
  job.stack.memory.runtime_bytes = static_cast<double>(runtime_bytes<float>(job));
  return job;
}

// Losses and norms of gradients as hexadecimal digits of their bits, and a sum over the bits of rank 0's parameters.
Result<std::string> bits_of_training(const spec::Job& job, const program::Program& program, comm::Communicator& world) {
  kernel::set_threads(1);  // more would wait for each other
  Rank<float> rank(job, program, world);
  if (Result<void> ready = set_up(rank, 7); !ready) return tl::unexpected(ready.error());
  std::string text;
  for (int step = 0; step < kSteps; ++step) {
    fill_batch(rank, step);
    StepSettings settings;
    settings.adamw = {.rate = 3e-3, .decay = 0.1, .step = step + 1};
    settings.clip = 1;
    const Result<StepResult> done = run_step(rank, settings);
    if (!done) return tl::unexpected(done.error());
    text += fmt::format("{:x} {:x}\n", std::bit_cast<std::uint64_t>(done->loss),
                        std::bit_cast<std::uint64_t>(done->gradient_norm));
  }
  const std::int64_t count = rank.pieces.elements / (rank.shards_parameters ? rank.pieces.shards : 1);
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum = sum * 31 + std::bit_cast<std::uint32_t>(rank.parameters[i]);
  return text + fmt::format("{:x}", sum);
}

using Start = Result<std::string> (*)(int, const comm::Options&, const comm::Body&);

std::string bits_of(const Case& one, Start start) {
  const spec::Job job = job_of(one);
  const Result<program::Program> program = program::generate(job);
  if (!program) {
    ADD_FAILURE() << program.error().message;
    return {};
  }
  const Result<std::string> bits = start(job.cluster.devices, {.timeout_s = 20}, [&](comm::Communicator& world) {
    return bits_of_training(job, *program, world);
  });
  if (!bits) ADD_FAILURE() << bits.error().message;
  return bits ? *bits : std::string();
}

void expect_equal_bits(Start start) {
  const FirstWays first_ways;
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.name);
    const std::string first = bits_of(one, start);
    EXPECT_FALSE(first.empty());
    for (int again = 0; again < 2; ++again) EXPECT_EQ(bits_of(one, start), first);
  }
}

TEST(Repeat, RanksAsThreadsGiveTheSameBits) { expect_equal_bits(comm::run_threads); }

TEST(Repeat, RanksAsProcessesGiveTheSameBits) { expect_equal_bits(comm::run_processes); }

}  // namespace
}  // namespace twinpod::train
