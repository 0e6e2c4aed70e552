// How much of a non-blocking all-reduce is hidden behind matrix products on the same ranks, where a core is free for
// it: two ranks compute on the first core, their communication has the last one.
//
//     hidden = 1 - (time of both at once - time of the products alone) / time of the all-reduce alone
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "comm/communicator.hpp"

namespace twinpod::comm {
namespace {

constexpr int kSide = 96;
constexpr int kTries = 100;  // in turn; the best of each counts. With 30 it moved by a third of the all-reduce

void keep_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);
}

// c += a b, of a size that stays in the first caches.
void multiply(const std::vector<float>& a, const std::vector<float>& b, std::vector<float>& c) {
  for (int i = 0; i < kSide; ++i) {
    for (int k = 0; k < kSide; ++k) {
      for (int j = 0; j < kSide; ++j) c[i * kSide + j] += a[i * kSide + k] * b[k * kSide + j];
    }
  }
}

void compute(int products) {
  static const std::vector<float> a(kSide * kSide, 0.5F);
  static const std::vector<float> b(kSide * kSide, 0.25F);
  static std::vector<float> c(kSide * kSide);
  for (int i = 0; i < products; ++i) multiply(a, b, c);
  benchmark::DoNotOptimize(c.data());
}

template <typename Work>
Result<double> seconds_of(Communicator& world, const Work& work) {
  for (int i = 0; i < 2; ++i) {
    if (Result<void> together = run(world, {.verb = Verb::barrier}); !together) return tl::unexpected(together.error());
  }
  const auto start = std::chrono::steady_clock::now();
  if (Result<void> done = work(); !done) return tl::unexpected(done.error());
  if (Result<void> all = run(world, {.verb = Verb::barrier}); !all) return tl::unexpected(all.error());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Seconds of the all-reduce, of the products, and of both at once, as rank 0 sees them.
Result<std::string> measure_overlap(Communicator& world, std::size_t count, int products) {
  auto* const buffer = static_cast<float*>(allocate(world, count * sizeof(float)).value());
  const Call call{.input = buffer, .output = buffer, .count = count};
  keep_to(static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) - 1);
  if (Result<void> first = start(world, call)->wait(); !first)
    return tl::unexpected(first.error());  // makes the worker
  keep_to(0);
  const auto reduce_only = [&] { return start(world, call)->wait(); };
  const auto compute_only = [&]() -> Result<void> {
    compute(products);
    return {};
  };
  const auto both = [&]() -> Result<void> {
    Result<Handle> handle = start(world, call);
    compute(products);
    return handle->wait();
  };
  double best[3] = {};
  for (int i = 0; i < kTries; ++i) {
    const Result<double> seconds[] = {seconds_of(world, reduce_only), seconds_of(world, compute_only),
                                      seconds_of(world, both)};
    for (int kind = 0; kind < 3; ++kind) {
      if (!seconds[kind]) return tl::unexpected(seconds[kind].error());
      best[kind] = i == 0 ? *seconds[kind] : std::min(best[kind], *seconds[kind]);
    }
  }
  release(world, buffer);
  return fmt::format("{} {} {}", best[0], best[1], best[2]);
}

void overlap(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0)) / sizeof(float);
  const auto products = static_cast<int>(state.range(1));
  for (auto unused : state) {
    const Result<std::string> answer =
        run_processes(2, {}, [&](Communicator& world) { return measure_overlap(world, count, products); });
    if (!answer) {
      state.SkipWithError(answer.error().message.c_str());
      return;
    }
    char* rest = nullptr;
    const double reduced = std::strtod(answer->c_str(), &rest);
    const double computed = std::strtod(rest, &rest);
    const double together = std::strtod(rest, nullptr);
    state.SetIterationTime(together);
    state.counters["all_reduce_s"] = reduced;
    state.counters["products_s"] = computed;
    state.counters["both_s"] = together;
    state.counters["hidden"] = 1 - (together - computed) / reduced;
  }
}
BENCHMARK(overlap)
    ->Args({16 << 20, 60})
    ->Args({64 << 20, 150})
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace twinpod::comm
