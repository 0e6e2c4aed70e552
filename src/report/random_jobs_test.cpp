// Random layouts of real models on real clusters, through everything that an estimate does: each is refused with a
// reason and a way out, or gives numbers that make sense.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "core/rng.hpp"
#include "layout/check.hpp"
#include "plan/fits.hpp"
#include "report/json.hpp"
#include "report/tables.hpp"
#include "spec/read.hpp"

namespace twinpod::report {
namespace {

constexpr int kJobs = 4000;

template <typename T, std::size_t N>
T one_of(const std::array<T, N>& values, Rng& rng) {
  return values[static_cast<std::size_t>(rng.below(N))];
}

// Mostly powers of two, which divide; now and then a number that does not.
int axis(Rng& rng, int most) {
  if (rng.below(12) == 0) return 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(most)));
  int size = 1;
  while (size * 2 <= most && rng.below(2) == 0) size *= 2;
  return size;
}

spec::Layout random_layout(Rng& rng) {
  using spec::Recompute;
  using spec::Schedule;
  spec::Layout layout;
  layout.tp = axis(rng, 16);
  layout.pp = axis(rng, 32);
  layout.virtual_stages = rng.below(3) == 0 ? axis(rng, 4) : 1;
  layout.cp = rng.below(4) == 0 ? axis(rng, 8) : 1;
  layout.ep = rng.below(3) == 0 ? axis(rng, 16) : 1;
  layout.etp = rng.below(3) == 0 ? 1 : 0;
  layout.sequence_parallel = rng.below(2) == 0;
  layout.zero = static_cast<int>(rng.below(4));
  layout.shard_group = rng.below(6) == 0 ? axis(rng, 64) : 0;
  layout.micro_batch = axis(rng, 16);
  layout.recompute = one_of(std::array{Recompute::none, Recompute::selective, Recompute::full}, rng);
  layout.recompute_layers = layout.recompute == Recompute::full && rng.below(3) == 0 ? axis(rng, 8) : 0;
  layout.schedule =
      one_of(std::array{Schedule::one_f_one_b, Schedule::one_f_one_b, Schedule::gpipe, Schedule::interleaved,
                        Schedule::zb_1p, Schedule::zb_2p, Schedule::zb_v, Schedule::dualpipe},
             rng);
  layout.offload_optimizer = rng.below(8) == 0;
  layout.offload_activations = rng.below(8) == 0;
  layout.uneven_ends = rng.below(8) == 0;
  layout.async_tp = rng.below(8) == 0;
  return layout;
}

class RandomJobs : public testing::Test {
 protected:
  // Names from the catalog's shelves; a stack is resolved for the device.
  spec::Job next() {
    spec::Job job;
    job.model = *catalog_.model(any(spec::Shelf::models));
    job.cluster = *catalog_.cluster(any(spec::Shelf::clusters));
    job.stack = *catalog_.stack(any(spec::Shelf::stacks), job.cluster.device.family);
    job.cluster.devices = std::min(job.cluster.devices, axis(rng_, 4096));
    job.layout = random_layout(rng_);
    job.training.sequence = 1 << (9 + rng_.below(9));
    job.training.global_batch = axis(rng_, 4096);
    job.training.precision = one_of(std::array{spec::Precision::bf16, spec::Precision::fp8}, rng_);
    job.training.tokens = 1e12;
    return job;
  }

  std::string any(spec::Shelf shelf) {
    const std::vector<std::string> names = catalog_.names(shelf);
    return names[static_cast<std::size_t>(rng_.below(names.size()))];
  }

  spec::Catalog catalog_{TWINPOD_CATALOG_DIR};
  Rng rng_{2026};
};

void expect_sensible(const spec::Job& job) {
  const plan::Assessment a = plan::assess(job, {});
  EXPECT_TRUE(std::isfinite(a.step.total_s) && a.step.total_s > 0) << layout_text(job);
  for (const double seconds : a.step.parts.seconds) EXPECT_GE(seconds, 0) << layout_text(job);
  EXPECT_NEAR(a.step.parts.total(), a.step.total_s, 1e-9 * a.step.total_s);
  for (const plan::MemoryUse& use : a.stages) {
    for (const auto& [name, bytes] : plan::memory_parts(use)) {
      EXPECT_TRUE(std::isfinite(bytes) && bytes >= 0) << name << ": " << layout_text(job);
    }
    EXPECT_LE(use.needed(), a.memory.needed() * (1 + 1e-9)) << "stage " << use.stage << ": " << layout_text(job);
  }
  EXPECT_GT(a.metrics.mfu, 0);
  EXPECT_LT(a.metrics.mfu, 1) << layout_text(job);
  EXPECT_LT(a.metrics.hfu, 1) << layout_text(job);
  EXPECT_FALSE(estimate_text(job, a, {true, true}).empty());
  EXPECT_FALSE(estimate_json(job, a, {true, true}).empty());
}

TEST_F(RandomJobs, AreRefusedWithAReasonOrGiveSensibleNumbers) {
  int valid = 0;
  int fitting = 0;
  for (int i = 0; i < kJobs; ++i) {
    const spec::Job job = next();
    const Result<void> checked = layout::check(job);
    if (!checked) {
      EXPECT_EQ(checked.error().message.rfind("layout: ", 0), 0U);
      EXPECT_FALSE(checked.error().hint.empty()) << checked.error().message;
      continue;
    }
    ++valid;
    const Result<void> fits = plan::check_memory(job);
    if (!fits) {
      EXPECT_FALSE(fits.error().hint.empty());
      continue;
    }
    ++fitting;
    expect_sensible(job);
  }
  EXPECT_GT(valid, kJobs / 20);
  EXPECT_GT(fitting, kJobs / 100);
}

}  // namespace
}  // namespace twinpod::report
