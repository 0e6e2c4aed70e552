#include "plan/finalists.hpp"

#include <gtest/gtest.h>

#include "plan/estimate.hpp"
#include "spec/catalog.hpp"
#include "spec/read.hpp"

namespace twinpod::plan {
namespace {

spec::Job job_on(const std::string& model, const std::string& cluster, int devices) {
  const spec::Catalog catalog(TWINPOD_CATALOG_DIR);
  spec::Request request;
  request.model = model;
  request.cluster = cluster;
  request.sets = {{"devices=" + std::to_string(devices), "--devices"}};
  return spec::read_job(request, catalog).value();
}

Candidate candidate(spec::Job job, int tp, int pp) {
  job.layout.tp = tp;
  job.layout.pp = pp;
  job.layout.sequence_parallel = tp > 1;
  job.layout.dp = job.cluster.devices / (tp * pp);
  return {job.layout, job.cluster.devices, step_time(job).total_s, 0};
}

TEST(Finalists, AreRankedByTheirSimulatedTime) {
  const spec::Job job = job_on("llama3-8b", "h100-superpod", 64);
  const std::vector<Candidate> ranked = {candidate(job, 8, 2), candidate(job, 2, 2), candidate(job, 4, 1)};
  const Result<std::vector<Finalist>> finalists = simulate_finalists(job, ranked);
  ASSERT_TRUE(finalists.has_value()) << to_string(finalists.error());
  ASSERT_EQ(finalists->size(), 3U);
  EXPECT_LE((*finalists)[0].simulated_s, (*finalists)[1].simulated_s);
  EXPECT_LE((*finalists)[1].simulated_s, (*finalists)[2].simulated_s);
  for (const Finalist& one : *finalists) EXPECT_NEAR(one.simulated_s / one.candidate.step_time_s, 1, 0.2);
}

TEST(Finalists, NoMoreThanThereAre) {
  const spec::Job job = job_on("llama3-8b", "h100-superpod", 64);
  EXPECT_EQ(simulate_finalists(job, {candidate(job, 2, 1)})->size(), 1U);
}

}  // namespace
}  // namespace twinpod::plan
