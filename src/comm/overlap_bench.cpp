// How much of a non-blocking all-reduce is hidden behind matrix products on the same ranks, where a core is free for
// it: two ranks compute on the first core, their communication has the last one.
//
//     hidden = 1 - (time of both at once - time of the products alone) / time of the all-reduce alone
//
// The three take turns, and the median of what neighbours differ by counts: the machine's own speed moves by more, from
// one second to the next, than an all-reduce takes. For the same reason the products take only three to four times as
// long as the all-reduce: of more, what they vary by is more than what is to be seen.
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
constexpr int kTries = 100;

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

// Pipes on which the two ranks wait for each other. A barrier of comm's looks on for a while before it sleeps, on the
// core on which the other rank computes: products alone took 10 to 17 ms with it, by luck.
struct Pipes {
  int ends[2][2];  // of the pipe that a rank reads: where it does, and where the other writes
};

struct Span {
  double begin_s = 0;
  double end_s = 0;
};

Result<Span> exchange(const Pipes& pipes, int rank, Span own) {
  Span other;
  if (write(pipes.ends[1 - rank][1], &own, sizeof own) != sizeof own ||
      read(pipes.ends[rank][0], &other, sizeof other) != sizeof other) {
    return infeasible("the other rank is gone");
  }
  return other;
}

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// From the first beginning to the last end of both ranks.
template <typename Work>
Result<double> seconds_of(const Pipes& pipes, int rank, const Work& work) {
  if (const Result<Span> ready = exchange(pipes, rank, {}); !ready) return tl::unexpected(ready.error());
  Span own{.begin_s = now_s()};
  if (Result<void> done = work(); !done) return tl::unexpected(done.error());
  own.end_s = now_s();
  const Result<Span> other = exchange(pipes, rank, own);
  if (!other) return tl::unexpected(other.error());
  return std::max(own.end_s, other->end_s) - std::min(own.begin_s, other->begin_s);
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Seconds of the all-reduce, of the products, and what both at once take longer than the products.
Result<std::string> measure_overlap(Communicator& world, const Pipes& pipes, std::size_t count, int products) {
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
  const int rank = rank_of(world);
  std::vector<double> reduced;
  std::vector<double> computed;
  std::vector<double> added;  // to the products, by the all-reduce beside them
  for (int i = 0; i < kTries; ++i) {
    const Result<double> seconds[] = {seconds_of(pipes, rank, reduce_only), seconds_of(pipes, rank, compute_only),
                                      seconds_of(pipes, rank, both)};
    for (const Result<double>& one : seconds) {
      if (!one) return tl::unexpected(one.error());
    }
    reduced.push_back(*seconds[0]);
    computed.push_back(*seconds[1]);
    added.push_back(*seconds[2] - *seconds[1]);
  }
  release(world, buffer);
  return fmt::format("{} {} {}", median_of(reduced), median_of(computed), median_of(added));
}

void overlap(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0)) / sizeof(float);
  const auto products = static_cast<int>(state.range(1));
  for (auto unused : state) {
    Pipes pipes;
    if (pipe(pipes.ends[0]) != 0 || pipe(pipes.ends[1]) != 0) return state.SkipWithError("no pipe");
    const Result<std::string> answer =
        run_processes(2, {}, [&](Communicator& world) { return measure_overlap(world, pipes, count, products); });
    for (const auto& ends : pipes.ends) {
      close(ends[0]);
      close(ends[1]);
    }
    if (!answer) {
      state.SkipWithError(answer.error().message.c_str());
      return;
    }
    char* rest = nullptr;
    const double reduced = std::strtod(answer->c_str(), &rest);
    const double computed = std::strtod(rest, &rest);
    const double added = std::strtod(rest, nullptr);
    state.SetIterationTime(computed + added);
    state.counters["all_reduce_s"] = reduced;
    state.counters["products_s"] = computed;
    state.counters["both_s"] = computed + added;
    state.counters["hidden"] = 1 - added / reduced;
  }
}
BENCHMARK(overlap)
    ->Args({16 << 20, 20})
    ->Args({64 << 20, 60})
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace twinpod::comm
