// Seconds of ops against the closed form, on the published runs of the catalog.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "plan/estimate.hpp"
#include "plan/op_times.hpp"
#include "plan/op_times_reference.hpp"
#include "program/generate.hpp"
#include "validate/validation.hpp"

namespace twinpod::validate {
namespace {

constexpr std::size_t kEvery = 4;  // runs, to be quick

struct Checked {
  std::string id;
  bool pipeline = false;
  double difference = 0;  // relative to the closed form
};

std::vector<Checked> checked_runs() {
  const spec::Catalog catalog(TWINPOD_CATALOG_DIR);
  const spec::Parameters parameters = catalog.parameters().value();
  const std::vector<Case> cases = load_cases(catalog, read_catalog_runs(catalog).value()).value();
  std::vector<Checked> checked;
  for (std::size_t i = 0; i < cases.size(); i += kEvery) {
    if (!cases[i].covered()) continue;
    spec::Job job = cases[i].made.job;
    job.stack.physics = spec::resolve(parameters, job.cluster.device.family, job.stack);
    const Result<program::Program> program = program::generate(job);
    if (!program) continue;  // rows whose chunks do not divide
    const plan::ReferenceRun run = plan::run_reference(*program, plan::op_times(job, *program));
    EXPECT_TRUE(run.done) << cases[i].run.id;
    checked.push_back({cases[i].run.id, job.layout.pp > 1, run.total_s / plan::step_time(job).total_s - 1});
  }
  return checked;
}

TEST(OpTimesOfRuns, ComeToTheClosedForm) {
  std::vector<double> pipelines;
  int others = 0;
  for (const Checked& one : checked_runs()) {
    if (one.pipeline) {
      pipelines.push_back(std::abs(one.difference));
      EXPECT_LT(std::abs(one.difference), 0.07) << one.id;
    } else {
      EXPECT_LT(std::abs(one.difference), 0.01) << one.id;
      ++others;
    }
  }
  EXPECT_GT(others, 100);
  ASSERT_GT(pipelines.size(), 100U);
  // Uneven stages: the closed form fills its pipeline through mean stages, not through its own.
  std::sort(pipelines.begin(), pipelines.end());
  EXPECT_LT(pipelines[pipelines.size() / 2], 0.01);
  EXPECT_LT(pipelines[pipelines.size() * 9 / 10], 0.03);
}

}  // namespace
}  // namespace twinpod::validate
