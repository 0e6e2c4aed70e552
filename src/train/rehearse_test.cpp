#include "train/rehearse.hpp"

#include <bit>

#include "train/test_job.hpp"

namespace twinpod::train {
namespace {

using program::OpKind;

const TestLayout kLayouts[] = {
    {},
    {.micro_batch = 2},
    {.dp = 2},
    {.dp = 2, .overlap = true},
    {.dp = 2, .zero = 1},
    {.dp = 2, .zero = 2},
    {.dp = 2, .zero = 3},
    {.tp = 2},
    {.tp = 2, .sp = true},
    {.pp = 2},
    {.recompute = spec::Recompute::full},
    {.dp = 2, .tp = 2, .pp = 2},
};

// Bits of losses and of rank 0's parameters behind some steps.
template <typename T>
std::string bits_of(const TestLayout& layout, spec::Optimizer optimizer, bool rehearses) {
  spec::Job job = with_layout(small_job(), layout);
  job.training.optimizer = optimizer;
  if (std::is_same_v<T, Bf16>) job.training.precision = spec::Precision::bf16;
  job.stack.memory.runtime_bytes = static_cast<double>(runtime_bytes<T>(job));
  const Result<program::Program> program = program::generate(job);
  if (!program) {
    ADD_FAILURE() << program.error().message;
    return {};
  }
  kernel::tune_gemm(false);
  const Result<std::string> bits =
      comm::run_threads(job.cluster.devices, {.timeout_s = 20}, [&](comm::Communicator& world) -> Result<std::string> {
        kernel::set_threads(1);
        Rank<T> rank(job, *program, world);
        if (Result<void> ready = set_up(rank, 7); !ready) return tl::unexpected(ready.error());
        if (rehearses) {
          if (const auto done = rehearse(rank); !done) return tl::unexpected(done.error());
        }
        std::string text;
        for (int step = 0; step < 3; ++step) {
          fill_batch(rank, step);
          StepSettings settings;
          settings.sgd = optimizer != spec::Optimizer::adam;
          settings.adamw = {.rate = 3e-3, .decay = 0.1, .step = step + 1};
          settings.momentum = {.rate = 1e-2, .momentum = optimizer == spec::Optimizer::sgd ? 0 : 0.9};
          const Result<StepResult> done = run_step(rank, settings);
          if (!done) return tl::unexpected(done.error());
          text += fmt::format("{:x} {:x} ", std::bit_cast<std::uint64_t>(done->loss),
                              std::bit_cast<std::uint64_t>(done->gradient_norm));
        }
        return text + fmt::format("{}", rank.memory.peak_bytes());
      });
  kernel::tune_gemm(true);
  if (!bits) ADD_FAILURE() << bits.error().message;
  return bits ? *bits : std::string();
}

TEST(Rehearse, LeavesEveryLossAndThePeakOfMemoryAsTheyWere) {
  for (const TestLayout& one : kLayouts) {
    EXPECT_EQ(bits_of<float>(one, spec::Optimizer::adam, true), bits_of<float>(one, spec::Optimizer::adam, false))
        << text_of(one);
  }
}

TEST(Rehearse, LeavesMastersAndMomentaAsTheyWere) {
  EXPECT_EQ(bits_of<Bf16>({.dp = 2}, spec::Optimizer::adam, true),
            bits_of<Bf16>({.dp = 2}, spec::Optimizer::adam, false));
  for (const spec::Optimizer optimizer : {spec::Optimizer::sgd, spec::Optimizer::sgd_momentum}) {
    EXPECT_EQ(bits_of<float>({}, optimizer, true), bits_of<float>({}, optimizer, false));
  }
}

program::OpSeconds rehearsed(const spec::Job& job, const program::Program& program) {
  program::OpSeconds seconds;
  const Result<std::string> done =
      comm::run_threads(job.cluster.devices, {.timeout_s = 20}, [&](comm::Communicator& world) -> Result<std::string> {
        kernel::set_threads(1);
        Rank<float> rank(job, program, world);
        if (Result<void> ready = set_up(rank, 7); !ready) return tl::unexpected(ready.error());
        Result<program::OpSeconds> own = rehearse(rank);
        if (!own) return tl::unexpected(own.error());
        if (comm::rank_of(world) == 0) seconds = std::move(*own);
        return std::string();
      });
  if (!done) ADD_FAILURE() << done.error().message;
  return seconds;
}

TEST(Rehearse, KnowsTheSecondsOfAllComputationAndOfAllThatItWaitsFor) {
  for (const TestLayout& layout : kLayouts) {
    spec::Job job = with_layout(small_job(), layout);
    job.stack.memory.runtime_bytes = static_cast<double>(runtime_bytes<float>(job));
    const Result<program::Program> program = program::generate(job);
    ASSERT_TRUE(program);
    const program::OpSeconds seconds = rehearsed(job, *program);
    ASSERT_EQ(seconds.size(), program->blocks.size());
    for (std::size_t b = 0; b < seconds.size(); ++b) {
      const std::vector<program::Op>& ops = program->blocks[b].ops;
      for (std::size_t i = 0; i < ops.size(); ++i) {
        const bool waits = ops[i].kind == OpKind::compute || ops[i].lane == program::Lane::tensor;
        if (waits) {
          EXPECT_GE(seconds[b][i], 0) << text_of(layout) << ", block " << b << ", op " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace twinpod::train
