#include "cli/simulate_served.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/command.hpp"
#include "plan/estimate.hpp"
#include "ps/throughput.hpp"
#include "spec/read.hpp"

namespace twinpod::cli {
namespace {

spec::Job small_job(double batch) {
  spec::Request request;
  request.model = "gpt3-350m";
  request.cluster = "dgx-superpod-a100-20";
  request.sets.emplace_back(fmt::format("training.global_batch={}", batch));
  request.sets.emplace_back("training.sequence=1024");
  const Result<spec::Job> job = spec::read_job(request, spec::Catalog(TWINPOD_CATALOG_DIR));
  EXPECT_TRUE(job) << job.error().message;
  return *job;
}

ps::Choice choice_of(const char* mode, int servers, int workers, int group) {
  return {.servers = servers, .workers = workers, .mode = mode, .settings = *ps::parse_mode(mode), .group = group};
}

// The closed form of a step with servers (layout.servers) against the protocol, a worker for each node. It pushes all
// before it pulls, so the shards are as large as can be.
TEST(SimulateServed, SyncIsAsTheClosedFormHasIt) {
  const int nodes = 16;
  const int servers = 8;
  spec::Job job = small_job(8 * nodes);
  job.layout.overlap = false;
  Result<ServedCase> one = served_case(job, choice_of("sync", servers, nodes, 8), {.step_s = {}, .steps = 40});
  ASSERT_TRUE(one) << one.error().message;
  std::int64_t elements = 0;
  for (const std::int64_t count : one->input.job.counts) elements += count;
  one->input.job.counts.assign(servers, elements / servers);
  one->input.job.shard_elements = elements / servers;
  const Result<sim::ServedRun> run = sim::run_served(one->input);
  ASSERT_TRUE(run);
  job.cluster.devices = 8 * nodes;
  job.layout.servers = servers;
  const double closed = plan::step_time(job).total_s;
  EXPECT_NEAR(run->report.seconds / 40, closed, 0.06 * closed);
}

TEST(SimulateServed, AWorkerHasItsShareOfTheBatch) {
  const Result<ServedCase> one = served_case(small_job(64), choice_of("async", 2, 16, 1), {.step_s = 0.5, .steps = 2});
  ASSERT_TRUE(one);
  EXPECT_EQ(one->input.job.step_tokens, 4 * 1024);
  EXPECT_EQ(one->alone_tokens_per_s, 2 * 4 * 1024);
  EXPECT_EQ(one->input.cluster.workers_per_host, 8);
}

TEST(SimulateServed, RefusesWhatDoesNotFitTogether) {
  const Result<ServedCase> uneven = served_case(small_job(40), choice_of("async", 2, 16, 1), {});
  ASSERT_FALSE(uneven);
  EXPECT_EQ(uneven.error().hint, "--global-batch 48");
  const Result<ServedCase> many = served_case(small_job(1600), choice_of("async", 2, 1600, 1), {});
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().hint, "--workers 160");
  const Result<ServedCase> servers = served_case(small_job(16), choice_of("async", 21, 16, 1), {});
  ASSERT_FALSE(servers);
  EXPECT_EQ(servers.error().hint, "--servers 20");
}

}  // namespace
}  // namespace twinpod::cli
