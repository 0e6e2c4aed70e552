// How fast this rank multiplies, while all of them do.
#include <algorithm>
#include <span>
#include <vector>

#include "core/half.hpp"
#include "kernel/gemm.hpp"
#include "kernel/processor.hpp"
#include "kernel/product.hpp"
#include "kernel/sample.hpp"
#include "train/loop.hpp"
#include "train/loop_timeline.hpp"

namespace twinpod::train {

Result<double> measured_peak(comm::Communicator& world, spec::Precision precision) {
  constexpr std::int64_t kShapes[][3] = {{1024, 1024, 1024}, {2048, 1536, 384}, {3072, 3072, 384}, {1536, 1536, 1536}};
  constexpr int kRounds = 4;
  kernel::flush_denormals();
  kernel::set_threads(1);
  double best = 0;
  for (const auto& shape : kShapes) {
    const kernel::Gemm gemm{.m = shape[0], .n = shape[1], .k = shape[2]};
    const auto measure = [&]<typename T>(T) {
      std::vector<T> a(static_cast<std::size_t>(gemm.m * gemm.k));
      std::vector<T> b(static_cast<std::size_t>(gemm.k * gemm.n));
      kernel::fill_sample(std::as_writable_bytes(std::span(a)));
      kernel::fill_sample(std::as_writable_bytes(std::span(b)));
      std::vector<T> c(static_cast<std::size_t>(gemm.m * gemm.n));
      for (int round = 0; round < kRounds; ++round) {
        const Clock::time_point begin = Clock::now();
        kernel::gemm<T>(gemm, a.data(), b.data(), c.data());
        best = std::max(best, 2.0 * static_cast<double>(gemm.m * gemm.n * gemm.k) / seconds_since(begin));
      }
    };
    precision == spec::Precision::bf16 ? measure(Bf16{}) : measure(0.0F);
  }
  const Result<std::vector<double>> all = gather(world, best);
  if (!all) return tl::unexpected(all.error());
  double sum = 0;
  for (const double one : *all) sum += one;
  return sum / static_cast<double>(all->size());
}

}  // namespace twinpod::train
