// How fast values get to a server and back, between two processes: bytes a second of push and pull, beside what comm's
// own point-to-point does in the same run; and small updates a second.
#include <benchmark/benchmark.h>

#include "ps/measure.hpp"

namespace twinpod::ps {
namespace {

void large_values(benchmark::State& state, Optimizer optimizer) {
  for (auto unused : state) {
    const Result<Exchange> one =
        measure_exchange({.bytes = state.range(0), .shards = state.range(1), .optimizer = optimizer});
    if (!one) return state.SkipWithError(one.error().message.c_str());
    state.SetIterationTime(one->exchange_s);
    state.counters["ps_GB_s"] = one->bytes_per_s() * 1e-9;
    state.counters["comm_GB_s"] = one->moved_bytes / one->ordinary_s * 1e-9;
    state.counters["comm_shared_GB_s"] = one->moved_bytes / one->registered_s * 1e-9;
    state.counters["ratio"] = one->ordinary_s / one->exchange_s;
    state.counters["ratio_shared"] = one->ratio();
    state.counters["ratio_copied"] = one->copied_ratio();
  }
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->Args({4 << 20, 4})->Args({16 << 20, 1})->Args({16 << 20, 16})->Args({64 << 20, 64});
  bench->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
}
// The server keeps what comes: what the protocol and its transport can do.
BENCHMARK_CAPTURE(large_values, stored, Optimizer::replace)->Apply(sizes);
// The server adds it to its values, or runs an optimizer.
BENCHMARK_CAPTURE(large_values, added, Optimizer::add)->Apply(sizes);
BENCHMARK_CAPTURE(large_values, adamw, Optimizer::adamw)->Apply(sizes);

void small_updates(benchmark::State& state) {
  for (auto unused : state) {
    const Result<double> rate = measure_updates(state.range(0));
    if (!rate) return state.SkipWithError(rate.error().message.c_str());
    state.SetIterationTime(1 / *rate);
    state.counters["updates_per_s"] = *rate;
  }
}
BENCHMARK(small_updates)->Arg(1)->Arg(64)->UseManualTime()->Iterations(1)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace twinpod::ps
