#include "sim/served.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "ps/throughput.hpp"

namespace twinpod::sim {
namespace {

constexpr std::int64_t kElements = 64'000'000;

// Workers whose steps take 100 ms, one on each host, with a model of 16 equal tensors.
ServedInput small_input(const char* mode, int servers, int workers) {
  ServedInput input;
  input.choice = {.servers = servers, .workers = workers, .mode = mode, .settings = *ps::parse_mode(mode)};
  input.job.counts.assign(16, kElements / 16);
  input.job.step_s = 0.1;
  input.job.step_tokens = 1000;
  input.job.steps = 40;
  input.cluster.host_bytes_per_s = input.cluster.worker_bytes_per_s = 100e9;
  return input;
}

// Values and gradients that weigh nothing: only who waits for whom counts.
ServedInput light_input(const char* mode) {
  ServedInput input = small_input(mode, 1, 4);
  input.job.counts = {1000, 1000, 1000, 1000};
  input.job.steps = 400;
  return input;
}

ps::ServedReport report_of(const ServedInput& input) {
  const Result<ServedRun> run = run_served(input);
  EXPECT_TRUE(run) << run.error().message;
  return run ? run->report : ps::ServedReport{};
}

double rate_of(const ServedInput& input) { return ps::steady_tokens_per_second(report_of(input)); }

TEST(SimServed, AStepOfOneWorkerIsItsPartsOneAfterTheOther) {
  ServedInput input = small_input("sync", 1, 1);
  input.job.counts = {kElements};
  input.cluster.workers_per_host = 1;
  input.choice.servers = 1;
  const ps::ServedReport local = report_of(input);
  // On one host: the server copies the push, adds, updates; the worker copies the values.
  const double bytes = 4.0 * kElements;
  const double copies = 2 * bytes / input.cluster.local_bytes_per_s;
  const double update = kElements * (8.0 + 28.0) / input.cluster.memory_bytes_per_s;
  const double steps = 40;
  EXPECT_NEAR(local.seconds, steps * 0.1 + (steps - 1) * (copies + update), 0.02 * local.seconds);
}

TEST(SimServed, ClippingIsOneMoreWayThroughTheGradientBeforeTheUpdate) {
  ServedInput input = small_input("sync", 1, 1);
  input.job.counts = {input.job.shard_elements = kElements};
  const ps::ServedReport plain = report_of(input);
  input.job.clips = true;
  const ps::ServedReport clipped = report_of(input);
  const double round = 4.0 * kElements / input.cluster.memory_bytes_per_s + input.cluster.message_s;
  EXPECT_NEAR(clipped.seconds - plain.seconds, 39 * round, 0.01 * 39 * round);
  EXPECT_EQ(clipped.updates_applied, 40U);
}

// The last clock's norm too is made before the workers go, and a norm outlives the server that had it first.
TEST(SimServed, NoUpdateIsLostWhileNormsAreMade) {
  ServedInput input = small_input("sync", 3, 8);
  input.job.clips = true;
  EXPECT_EQ(report_of(input).updates_applied, 8U * 40U * 16U);
  input.choice.copies = 2;
  input.faults.kills = {{ps::Role::server, 1, 1.05}, {ps::Role::worker, 3, 2.1}};
  const ps::ServedReport report = report_of(input);
  EXPECT_EQ(report.deaths, 2);
  EXPECT_EQ(report.updates_lost, 0U);
  EXPECT_EQ(report.staleness_max, 0);
  EXPECT_GT(report.updates_applied, 7U * 40U * 16U);
}

TEST(SimServed, OnlySyncServersClip) {
  for (const char* mode : {"async", "ssp:2"}) {
    ServedInput input = small_input(mode, 2, 4);
    const double seconds = report_of(input).seconds;
    input.job.clips = true;
    EXPECT_EQ(report_of(input).seconds, seconds) << mode;
  }
}

// The closed form of plan/step_pieces.cpp: everybody's gradients into each server's interface, the sums and the update,
// everybody's values out of it. With several shards on a server values go out while other gradients still come in.
TEST(SimServed, SyncAgreesWithTheClosedForm) {
  ServedInput input = small_input("sync", 2, 32);
  input.cluster.host_bytes_per_s = input.cluster.worker_bytes_per_s = 10e9;
  input.job.counts = {kElements / 2, kElements / 2};
  input.job.shard_elements = kElements / 2;
  const double move = 32 * (kElements / 2.0) * 4 / input.cluster.host_bytes_per_s;
  const double update = kElements / 2.0 * (28 + 8.0 * 32) / input.cluster.memory_bytes_per_s;
  const double closed = 0.1 + 2 * move + update;
  const double one_shard = report_of(input).seconds / 40;
  EXPECT_NEAR(one_shard, closed, 0.06 * closed);
  input.job.shard_elements = 0;
  const double several = report_of(input).seconds / 40;
  EXPECT_LT(several, one_shard);
  EXPECT_GT(several, 0.1 + move + update / 8);
}

TEST(SimServed, CountsBytesAndUpdatesExactly) {
  ServedInput input = small_input("ssp:2", 2, 3);
  const Result<ServedRun> run = run_served(input);
  ASSERT_TRUE(run);
  const ps::ServedReport& report = run->report;
  EXPECT_EQ(report.steps.size(), 3U * 40);
  EXPECT_EQ(report.tokens, 120e3);
  EXPECT_EQ(report.pushed_bytes, std::uint64_t{4} * kElements * 120);
  // And once before the first step, when a worker asks where the others are.
  EXPECT_EQ(report.pulled_bytes, std::uint64_t{4} * kElements * (120 + 3));
  EXPECT_EQ(report.updates_applied, run->shards * 120);
  EXPECT_EQ(report.updates_lost, 0U);
  EXPECT_EQ(std::accumulate(report.staleness_histogram.begin(), report.staleness_histogram.end(), std::uint64_t{0}),
            run->shards * 120);
  input.choice.compression = *ps::parse_compression("1-bit");
  EXPECT_LT(report_of(input).pushed_bytes, report.pushed_bytes / 20);
  input.choice.compression = {};
  input.choice.local_steps = 4;
  EXPECT_EQ(report_of(input).pushed_bytes, report.pushed_bytes / 4);
}

TEST(SimServed, TheSameTwice) {
  ServedInput input = small_input("async", 3, 5);
  input.choice.straggler = *ps::parse_straggler("any:3:0.1");
  const ps::ServedReport one = report_of(input);
  const ps::ServedReport two = report_of(input);
  EXPECT_EQ(one.seconds, two.seconds);
  EXPECT_EQ(one.staleness_histogram, two.staleness_histogram);
  EXPECT_EQ(one.server_busy_s, two.server_busy_s);
}

TEST(SimServed, OneSlowWorkerHoldsUpThoseWhoMustWait) {
  const auto kept = [](const char* mode) {
    ServedInput input = light_input(mode);
    const double whole = rate_of(input);
    input.choice.straggler = *ps::parse_straggler("0:2");
    return rate_of(input) / whole;
  };
  EXPECT_NEAR(kept("sync"), 0.5, 0.01);
  EXPECT_NEAR(kept("ssp:3"), 0.5, 0.02);
  EXPECT_NEAR(kept("async"), 3.5 / 4, 0.01);
}

// Without any waiting 1 / (1 + 0.1 * 2) is kept.
TEST(SimServed, ABoundAbsorbsRandomSlowness) {
  const auto kept = [](const char* mode) {
    ServedInput input = light_input(mode);
    const double whole = rate_of(input);
    input.choice.straggler = *ps::parse_straggler("any:3:0.1");
    return rate_of(input) / whole * 1.2;
  };
  EXPECT_GT(kept("async"), 0.95);
  EXPECT_GT(kept("ssp:3"), 0.85);
  EXPECT_LT(kept("sync"), 0.75);
}

TEST(SimServed, StalenessKeepsItsBound) {
  const auto stalest = [](const char* mode) {
    ServedInput input = light_input(mode);
    input.choice.straggler = *ps::parse_straggler("0:5");
    return report_of(input).staleness_max;
  };
  EXPECT_EQ(stalest("sync"), 0);
  EXPECT_EQ(stalest("ssp:3"), 3);
  EXPECT_GT(stalest("async"), 100);
}

// A byte takes less than the clock's last digit after a week.
TEST(SimServed, LongRunsEnd) {
  ServedInput input = small_input("ssp:2", 2, 4);
  input.cluster.host_bytes_per_s = input.cluster.worker_bytes_per_s = 400e9;
  input.choice.straggler = *ps::parse_straggler("0:5");
  input.job.step_s = 30000;
  input.job.steps = 5;
  const ps::ServedReport report = report_of(input);
  EXPECT_NEAR(report.seconds, 5 * 5 * 30000, 10);
}

TEST(SimServed, BackupWorkersNeedNotBeWaitedFor) {
  ServedInput input = light_input("sync");
  const double whole = rate_of(input);
  input.choice.straggler = *ps::parse_straggler("0:2");
  input.choice.settings.backup_workers = 1;
  const ps::ServedReport report = report_of(input);
  EXPECT_GT(ps::steady_tokens_per_second(report), 0.8 * whole);
  EXPECT_GT(report.updates_dropped, 0U);
}

TEST(SimServed, AServerDiesAndNothingIsLost) {
  ServedInput input = small_input("async", 3, 4);
  input.choice.copies = 2;
  input.faults.kills = {{.role = ps::Role::server, .place = 1, .at_s = 1.05}};
  const ps::ServedReport report = report_of(input);
  EXPECT_GT(report.failovers, 0);
  EXPECT_EQ(report.deaths, 1);
  EXPECT_EQ(report.updates_lost, 0U);
  EXPECT_EQ(report.steps.size(), 160U);
  input.choice.copies = 1;
  const Result<ServedRun> lost = run_served(input);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().kind, ErrorKind::infeasible);
}

TEST(SimServed, AWorkerDiesAndTheOthersGoOn) {
  ServedInput input = small_input("sync", 2, 4);
  input.faults.kills = {{.role = ps::Role::worker, .place = 2, .at_s = 1.05}};
  const ps::ServedReport report = report_of(input);
  EXPECT_EQ(report.deaths, 1);
  EXPECT_EQ(report.updates_lost, 0U);
  EXPECT_LT(report.steps.size(), 160U);  // it missed some while it was away
  EXPECT_GT(report.steps.size(), 120U);
}

TEST(SimServed, MoreWorkersThanTheServersCanFeedGainNothing) {
  const auto rate = [](int workers) {
    ServedInput input = small_input("async", 1, workers);
    input.cluster.host_bytes_per_s = 5e9;  // a push or a pull of all takes 51 ms
    input.job.steps = 20;
    return rate_of(input);
  };
  EXPECT_GT(rate(2), 1.7 * rate(1));
  EXPECT_LT(rate(32), 1.2 * rate(16));
}

TEST(SimServed, RefusesMoreThanCanBeSimulated) {
  ServedInput input = small_input("async", 256, 4096);
  input.job.steps = 1'000'000;
  const Result<ServedRun> run = run_served(input);
  ASSERT_FALSE(run);
  EXPECT_NE(run.error().hint.find("--steps"), std::string::npos);
}

TEST(SimServed, AnAllReduceWaitsForTheSlowestInEveryStep) {
  ServedInput input = light_input("sync");
  input.choice.straggler = *ps::parse_straggler("0:2");
  const ps::ServedReport report = run_all_reduced(input, 0.01);
  EXPECT_NEAR(report.seconds, 400 * 0.21, 1e-9);
  EXPECT_NEAR(report.worker_waited_s[1], 400 * 0.11, 1e-9);
}

}  // namespace
}  // namespace twinpod::sim
