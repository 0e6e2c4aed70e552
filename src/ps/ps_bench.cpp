// How fast values get to a server and back, between two processes: bytes a second of push and pull, beside what comm's
// own point-to-point does in the same run; and small updates a second.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>

#include "comm/communicator.hpp"
#include "ps/launch.hpp"

namespace twinpod::ps {
namespace {

constexpr int kTries = 30;  // the best counts: whatever else runs makes a program slower, never faster

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

LaunchOptions options_of(std::int64_t count, std::int64_t shards, Optimizer optimizer) {
  LaunchOptions options{.pins = true};
  options.settings = {.mode = Mode::async, .optimizer = optimizer};
  options.shards = shards_of({.counts = {count}, .most = count / shards});
  return options;
}

std::vector<Payload> gradients_of(const Client& client, const std::vector<Shard>& shards) {
  std::vector<Payload> gradients;
  for (const Shard& shard : shards) {
    const auto count = static_cast<std::size_t>(shard.count);
    gradients.push_back(payload_of(std::make_shared<const Values>(count, 1e-3F, client.link.memory)));
  }
  return gradients;
}

Result<void> join_with_zeros(Client& client, const std::vector<Shard>& shards) {
  return join(client, [&](ShardId shard) {
    return payload_of(std::vector<float>(static_cast<std::size_t>(shards[static_cast<std::size_t>(shard)].count)));
  });
}

// Seconds of the best push and pull of everything.
Result<std::string> push_and_pull(Client& client, const std::vector<Shard>& shards) {
  if (Result<void> joined = join_with_zeros(client, shards); !joined) return tl::unexpected(joined.error());
  const std::vector<Payload> gradients = gradients_of(client, shards);
  double best = 1e9;
  for (int i = 0; i < kTries; ++i) {
    const double start = now_s();
    push_all(client, gradients, 0);
    if (const auto values = pull_all(client); !values) return tl::unexpected(values.error());
    best = std::min(best, now_s() - start);
  }
  if (Result<void> left = leave(client); !left) return tl::unexpected(left.error());
  return fmt::format("{}", best);
}

// Seconds of the best there and back, of buffers that are shared or not.
Result<std::string> there_and_back(comm::Communicator& world, std::size_t bytes, bool shared) {
  std::vector<std::byte> own(shared ? 0 : 2 * bytes, std::byte{1});
  void* const out = shared ? comm::allocate(world, bytes).value() : own.data();
  void* const in = shared ? comm::allocate(world, bytes).value() : own.data() + bytes;
  const int rank = comm::rank_of(world);
  double best = 1e9;
  for (int i = 0; i < kTries; ++i) {
    const double start = now_s();
    for (int turn = 0; turn < 2; ++turn) {
      if (turn == rank) {
        if (const auto sent = comm::send(world, out, bytes, 1 - rank); !sent) return tl::unexpected(sent.error());
      } else if (const auto got = comm::receive(world, in, bytes, 1 - rank); !got) {
        return tl::unexpected(got.error());
      }
    }
    best = std::min(best, now_s() - start);
  }
  return fmt::format("{}", best);
}

void large_values(benchmark::State& state, Optimizer optimizer) {
  const std::int64_t bytes = state.range(0);
  const LaunchOptions options = options_of(bytes / 4, state.range(1), optimizer);
  for (auto unused : state) {
    double seconds[3] = {};
    const Result<LaunchReport> report =
        launch(options, [&](Client& client) { return push_and_pull(client, options.shards); });
    if (!report) return state.SkipWithError(report.error().message.c_str());
    seconds[0] = std::strtod(report->answers.begin()->second.c_str(), nullptr);
    for (const bool shared : {false, true}) {
      const Result<std::string> answer = comm::run_processes(2, {}, [&](comm::Communicator& world) {
        return there_and_back(world, static_cast<std::size_t>(bytes), shared);
      });
      if (!answer) return state.SkipWithError(answer.error().message.c_str());
      seconds[shared ? 2 : 1] = std::strtod(answer->c_str(), nullptr);
    }
    const double moved = 2 * static_cast<double>(bytes);
    state.SetIterationTime(seconds[0]);
    state.counters["ps_GB_s"] = moved / seconds[0] * 1e-9;
    state.counters["comm_GB_s"] = moved / seconds[1] * 1e-9;
    state.counters["comm_shared_GB_s"] = moved / seconds[2] * 1e-9;
    state.counters["ratio"] = seconds[1] / seconds[0];
    state.counters["ratio_shared"] = seconds[2] / seconds[0];
  }
}
// The server keeps what comes: what the protocol and its transport can do.
BENCHMARK_CAPTURE(large_values, stored, Optimizer::replace)
    ->Args({4 << 20, 4})
    ->Args({16 << 20, 1})
    ->Args({16 << 20, 16})
    ->Args({64 << 20, 64})
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
// The server adds it to its values: three more ways through memory.
BENCHMARK_CAPTURE(large_values, added, Optimizer::add)
    ->Args({4 << 20, 4})
    ->Args({16 << 20, 1})
    ->Args({16 << 20, 16})
    ->Args({64 << 20, 64})
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

// Updates a second of the best of several bursts, each acknowledged to the last.
Result<std::string> small_bursts(Client& client, const std::vector<Shard>& shards, int clocks) {
  if (Result<void> joined = join_with_zeros(client, shards); !joined) return tl::unexpected(joined.error());
  const std::vector<Payload> gradients = gradients_of(client, shards);
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const double start = now_s();
    for (int clock = 0; clock < clocks; ++clock) push_all(client, gradients, 0);
    if (Result<void> all = wait_for_acks(client); !all) return tl::unexpected(all.error());
    best = std::max(best, static_cast<double>(shards.size()) * clocks / (now_s() - start));
  }
  if (Result<void> left = leave(client); !left) return tl::unexpected(left.error());
  return fmt::format("{}", best);
}

void small_updates(benchmark::State& state) {
  const LaunchOptions options = options_of(8 * state.range(0), state.range(0), Optimizer::add);
  for (auto unused : state) {
    const Result<LaunchReport> report =
        launch(options, [&](Client& client) { return small_bursts(client, options.shards, 200); });
    if (!report) return state.SkipWithError(report.error().message.c_str());
    const double rate = std::strtod(report->answers.begin()->second.c_str(), nullptr);
    state.SetIterationTime(1 / rate);
    state.counters["updates_per_s"] = rate;
  }
}
BENCHMARK(small_updates)->Arg(1)->Arg(64)->UseManualTime()->Iterations(1)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace twinpod::ps
