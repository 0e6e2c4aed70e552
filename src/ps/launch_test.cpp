// Real processes, killed for real.
#include "ps/launch.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>

#include "core/rng.hpp"

namespace twinpod::ps {
namespace {

// In memory that servers read where it lies, if it is large.
std::vector<Payload> gradients_of(const Client& client, float value) {
  std::vector<Payload> gradients;
  for (const Shard& shard : client.worker.shards) {
    const auto count = static_cast<std::size_t>(shard.count);
    gradients.push_back(payload_of(std::make_shared<const Values>(count, value, client.link.memory)));
  }
  return gradients;
}

Payload zeros(const std::vector<Shard>& shards, ShardId shard) {
  return payload_of(std::vector<float>(static_cast<std::size_t>(shards[static_cast<std::size_t>(shard)].count)));
}

// Adds 1 to everything in each clock; its answer is how often it did, and what it read last.
Result<std::string> count_up(Client& client, const std::vector<Shard>& shards, std::int64_t steps) {
  Result<void> joined = join(client, [&](ShardId shard) { return zeros(shards, shard); });
  if (!joined) return tl::unexpected(joined.error());
  int pushes = 0;
  while (client.worker.clock < steps) {
    const Result<std::vector<Arrival>> values = pull_all(client);
    if (!values) return tl::unexpected(values.error());
    push_all(client, gradients_of(client, 1), 0, pushes % 2 == 0 ? Then::pull : Then::nothing);
    ++pushes;
  }
  const Result<std::vector<Arrival>> last = pull_all(client);
  if (!last) return tl::unexpected(last.error());
  Result<void> left = leave(client);
  if (!left) return tl::unexpected(left.error());
  return fmt::format("{} {}", pushes, floats_of(last->back().values).back());
}

LaunchOptions options_for(const char* mode, int servers, int workers, int copies) {
  LaunchOptions options{.servers = servers, .workers = workers, .copies = copies, .settings = *parse_mode(mode)};
  options.settings.optimizer = Optimizer::add;
  options.settings.mean = false;
  options.shards = shards_of({.counts = {10, 5000, 100}, .most = 2000});
  options.client.tick_s = 0.02;
  return options;
}

TEST(PsLaunch, SyncWorkersAllReadTheSame) {
  const LaunchOptions options = options_for("sync", 2, 2, 2);
  const Result<LaunchReport> report =
      launch(options, [&](Client& client) { return count_up(client, options.shards, 20); });
  ASSERT_TRUE(report) << to_string(report.error());
  ASSERT_EQ(report->answers.size(), 2U);
  for (const auto& [id, answer] : report->answers) EXPECT_EQ(answer, "20 40");
  EXPECT_EQ(report->updates.applied, 2 * 20 * options.shards.size());
}

TEST(PsLaunch, ANormThatIsNotFiniteEndsTheJob) {
  LaunchOptions options = options_for("sync", 1, 2, 1);
  options.settings.clip = 1;
  options.shards = {{.count = 1}};
  const Result<LaunchReport> report = launch(options, [&](Client& client) -> Result<std::string> {
    Result<void> joined = join(client, [&](ShardId shard) { return zeros(options.shards, shard); });
    if (!joined) return tl::unexpected(joined.error());
    push_all(client, {payload_of(std::vector<float>{3e38F})}, 0);
    const Result<std::vector<Arrival>> values = pull_all(client);
    return values ? Result<std::string>("values") : tl::unexpected(values.error());
  });
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().message, "the norm of the gradients of clock 0 is inf");
}

TEST(PsLaunch, AFailingWorkerEndsTheJob) {
  const LaunchOptions options = options_for("async", 1, 2, 1);
  const Result<LaunchReport> report =
      launch(options, [&](Client&) -> Result<std::string> { return infeasible("no data"); });
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().message, "no data");
}

TEST(PsLaunch, TheLossOfTheOnlyCopyEndsTheJob) {
  const LaunchOptions options = options_for("async", 1, 1, 1);
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* const trains = new (page) std::atomic<bool>(false);
  const Result<LaunchReport> report = launch(
      options,
      [&](Client& client) -> Result<std::string> {
        Result<void> joined = join(client, [&](ShardId shard) { return zeros(options.shards, shard); });
        if (!joined) return tl::unexpected(joined.error());
        *trains = true;
        while (true) {
          if (const auto values = pull_all(client); !values) return tl::unexpected(values.error());
        }
      },
      [&](const std::vector<Process>& processes) {
        if (*trains && processes.front().role == Role::server) kill(processes.front().pid, SIGKILL);
      });
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("are lost"), std::string::npos) << report.error().message;
  munmap(page, 4096);
}

// A worker pushes fives and dies, which its server has only read the head of. The other worker waits until its memory
// would have been given back, and pushes ones; who comes for the dead one pushes zeros.
TEST(PsLaunch, WhatAWorkerPushedIsReadWhenItIsDead) {
  LaunchOptions options = options_for("sync", 1, 2, 1);
  constexpr NodeId kFirstReplacement = 4;
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* const died = new (page) std::atomic<bool>(false);
  const Result<LaunchReport> report = launch(options, [&](Client& client) -> Result<std::string> {
    Result<void> joined = join(client, [&](ShardId shard) { return zeros(options.shards, shard); });
    if (!joined) return tl::unexpected(joined.error());
    if (client.place == 0 && !*died) {
      push_all(client, gradients_of(client, 5), 0);
      if (Result<void> all = wait_for_acks(client); !all) return tl::unexpected(all.error());
      *died = true;
      kill(getpid(), SIGKILL);
    }
    const auto pump_for = [&](int ms) {
      for (int i = 0; i < ms; ++i, usleep(1000)) pump(client);
    };
    while (client.place == 1 && client.worker.view.workers.back() < kFirstReplacement) pump_for(1);
    if (client.place == 1) pump_for(100);
    push_all(client, gradients_of(client, static_cast<float>(client.place)), 0);
    const Result<std::vector<Arrival>> values = pull_all(client);
    if (!values) return tl::unexpected(values.error());
    if (Result<void> left = leave(client); !left) return tl::unexpected(left.error());
    std::string seen;
    for (const Arrival& arrival : *values) seen += fmt::format("{} ", floats_of(arrival.values).back());
    return seen;
  });
  munmap(page, 4096);
  ASSERT_TRUE(report) << to_string(report.error());
  ASSERT_EQ(report->answers.size(), 2U);
  for (const auto& [id, answer] : report->answers) EXPECT_EQ(answer, "6 6 6 6 6 ");
}

// Kills at random, one at a time, each after the wounds of the one before have healed.
struct Killer {
  Rng rng;
  int wanted;
  int done = 0;
  std::int64_t next_ns = 0;
  void look(const std::vector<Process>& processes) {
    const std::int64_t now = comm::now_ns();
    if (next_ns == 0) next_ns = now + 100'000'000;
    if (done == wanted || now < next_ns) return;
    kill(processes[rng.below(processes.size())].pid, SIGKILL);
    next_ns = now + 60'000'000 + static_cast<std::int64_t>(rng.below(60'000'000));
    ++done;
  }
};

// Each push adds 1 to all numbers, but in the first shard only to the one of its worker.
std::vector<Payload> marked_ones(const Client& client) {
  std::vector<Payload> gradients = gradients_of(client, 1);
  std::vector<float> own(static_cast<std::size_t>(client.worker.shards[0].count));
  own[static_cast<std::size_t>(client.worker.id)] = 1;
  gradients[0] = payload_of(std::move(own));
  return gradients;
}

// "" when each update is in whole, and what was read before is still there.
std::string problem_in(const std::vector<Arrival>& values, std::vector<float>& last) {
  for (std::size_t i = 1; i < values.size(); ++i) {
    const std::span<const float> now = floats_of(values[i].values);
    if (now.front() != now.back()) return "an update was applied in part";
    if (now.front() < last[i]) return fmt::format("{} after {} was read", now.front(), last[i]);
    last[i] = now.front();
  }
  return "";
}

Result<std::string> count_among_the_dying(Client& client, const std::vector<Shard>& shards, std::int64_t end) {
  Result<void> joined = join(client, [&](ShardId shard) { return zeros(shards, shard); });
  if (!joined) return tl::unexpected(joined.error());
  std::vector<float> last(shards.size());
  float pushes = 0;
  while (true) {
    const Result<std::vector<Arrival>> values = pull_all(client);
    if (!values) return tl::unexpected(values.error());
    if (const std::string problem = problem_in(*values, last); !problem.empty()) return infeasible(problem);
    const float own = floats_of(values->front().values)[static_cast<std::size_t>(client.worker.id)];
    if (own != pushes) return infeasible(fmt::format("{} of its own {} updates", own, pushes));
    if (client.worker.clock >= end) break;
    usleep(1000);
    push_all(client, marked_ones(client), 0, Then::pull);
    ++pushes;
  }
  Result<void> left = leave(client);
  if (!left) return tl::unexpected(left.error());
  return fmt::format("{}", pushes);
}

// TWINPOD_PS_KILLS=200 for the long one.
TEST(PsLaunch, KillsOfWorkersAndServersLoseNoUpdate) {
  const char* const wish = std::getenv("TWINPOD_PS_KILLS");
  Killer killer{.rng = Rng(11), .wanted = wish == nullptr ? 6 : std::atoi(wish)};
  LaunchOptions options = options_for("ssp:2", 3, 2, 2);
  options.shards = shards_of({.counts = {256, 5000, 100}, .most = 2000});
  options.replacements = killer.wanted + 4;
  const std::int64_t end = 60 * (2 + killer.wanted);
  const Result<LaunchReport> report = launch(
      options, [&](Client& client) { return count_among_the_dying(client, options.shards, end); },
      [&](const std::vector<Process>& processes) { killer.look(processes); });
  ASSERT_TRUE(report) << to_string(report.error());
  EXPECT_GE(report->answers.size(), 1U);
  EXPECT_EQ(report->deaths, killer.done);
  EXPECT_GT(killer.done, 3);
  if (wish != nullptr) {
    fmt::print("{} deaths, {} failovers, {} updates applied\n", report->deaths, report->failovers,
               report->updates.applied);
  }
}

}  // namespace
}  // namespace twinpod::ps
