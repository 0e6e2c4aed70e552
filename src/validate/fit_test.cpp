#include "validate/fit.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "plan/estimate.hpp"
#include "plan/test_job.hpp"

namespace twinpod::validate {
namespace {

using spec::Parameters;

constexpr FitOptions kHardlyPulled = {.pull = 20, .iterations = 60};

Parameters shared(const spec::FieldValues& values) {
  Parameters parameters;
  parameters.shared = values;
  return parameters;
}

// Layouts and sizes that tell the terms of the closed form apart.
std::vector<spec::Job> different_jobs(const std::string& stack) {
  std::vector<spec::Job> jobs;
  for (const int hidden : {1024, 2048, 4096, 8192}) {
    for (const int tp : {1, 2, 8}) {
      for (const int pp : {1, 4}) {
        spec::Job job = plan::gpt_job();
        job.model.hidden = hidden;
        job.model.ffn = 4 * hidden;
        job.model.attention.heads = hidden / 64;
        job.model.attention.kv_heads = hidden / 64;
        job.model.attention.head_dim = 64;
        job.layout.tp = tp;
        job.layout.pp = pp;
        job.layout.micro_batch = hidden > 2048 ? 1 : 4;
        job.stack.name = stack;
        jobs.push_back(job);
      }
    }
  }
  return jobs;
}

// What these parameters predict, as if it had been measured.
std::vector<Sample> measured_by(const Parameters& truth, const std::vector<spec::Job>& jobs) {
  std::vector<Sample> samples;
  for (const spec::Job& job : jobs) samples.push_back({job, predicted_s(job, truth), 1});
  return samples;
}

TEST(Fit, FindsTheParametersThatMadeTheSamples) {
  Parameters truth;
  truth.shared = {{"wave_weight", 1.2}, {"element_factor", 2.2}, {"tp_hidden", 0.4}};
  truth.by_device["a100"] = {{"gemm_efficiency_bf16", 0.66}};
  truth.by_stack["mine"] = {{"launch_s", 4e-5}};
  const FitResult fitted = fit(measured_by(truth, different_jobs("mine")), truth, kHardlyPulled);
  EXPECT_LT(fitted.loss_after, 1e-3 * fitted.loss_before);
  for (const auto& [name, value] : truth.shared) {
    EXPECT_NEAR(fitted.parameters.shared.at(name), value, 0.01 * value) << name;
  }
  EXPECT_NEAR(fitted.parameters.by_device.at("a100").at("gemm_efficiency_bf16"), 0.66, 0.0066);
  EXPECT_NEAR(fitted.parameters.by_stack.at("mine").at("launch_s"), 4e-5, 4e-7);
}

TEST(Fit, HasTheEntriesOfItsShapeAndNoOthers) {
  Parameters shape;
  shape.shared = {{"growth", 0.01}};
  shape.by_stack["mine"] = {{"pace", 1}};
  const FitResult fitted = fit(measured_by({}, different_jobs("mine")), shape, {});
  EXPECT_EQ(count(fitted.parameters), 2);
  EXPECT_TRUE(fitted.parameters.shared.contains("growth"));
  EXPECT_TRUE(fitted.parameters.by_stack.at("mine").contains("pace"));
}

TEST(Fit, StaysAtThePriorsWhenTheyArePerfect) {
  Parameters shape;
  shape.shared = {{"element_factor", 0}, {"growth", 0}};
  const FitResult fitted = fit(measured_by({}, different_jobs("mine")), shape, {});
  EXPECT_NEAR(fitted.parameters.shared.at("element_factor"), spec::find_physics_field("element_factor")->prior, 1e-9);
  EXPECT_NEAR(fitted.parameters.shared.at("growth"), spec::find_physics_field("growth")->prior, 1e-9);
}

// A hundred times faster or slower than any plausible value explains.
TEST(Fit, StaysWithinTheBounds) {
  for (const double factor : {0.01, 100.0}) {
    std::vector<Sample> samples = measured_by({}, different_jobs("mine"));
    for (Sample& sample : samples) sample.measured_s *= factor;
    Parameters shape;
    for (const char* name : {"gemm_efficiency_bf16", "pace", "launch_s", "element_factor", "growth", "wave_weight"}) {
      shape.shared[name] = 0;
    }
    const FitResult fitted = fit(samples, shape, kHardlyPulled);
    for (const auto& [name, value] : fitted.parameters.shared) {
      EXPECT_GE(value, spec::find_physics_field(name)->low) << name;
      EXPECT_LE(value, spec::find_physics_field(name)->high) << name;
    }
    EXPECT_NEAR(fitted.parameters.shared.at("pace"), factor < 1 ? 0.5 : 2, 0.01);
  }
}

TEST(Fit, AHarderPullStaysNearerToThePrior) {
  Parameters truth;
  truth.shared = {{"pace", 1.4}};
  const std::vector<Sample> samples = measured_by(truth, different_jobs("mine"));
  const double loose = fit(samples, truth, {.pull = 5}).parameters.shared.at("pace");
  const double tight = fit(samples, truth, {.pull = 0.01}).parameters.shared.at("pace");
  EXPECT_NEAR(loose, 1.4, 0.01);
  EXPECT_LT(tight, loose - 0.1);
  EXPECT_GT(tight, 1);
}

TEST(Fit, AStackWithoutRowsOfItsOwnHasItsParentsValue) {
  Parameters truth;
  truth.shared = {{"pace", 1.3}};
  Parameters shape = truth;
  shape.by_stack["unseen"] = {{"pace", 1}};
  const FitResult fitted = fit(measured_by(truth, different_jobs("mine")), shape, kHardlyPulled);
  EXPECT_NEAR(fitted.parameters.shared.at("pace"), 1.3, 0.013);
  EXPECT_DOUBLE_EQ(fitted.parameters.by_stack.at("unseen").at("pace"), fitted.parameters.shared.at("pace"));
}

TEST(Fit, AStackLeavesItsParentOnlyAsFarAsItsRowsAsk) {
  Parameters truth;
  truth.by_stack = {{"slow", {{"pace", 1.5}}}, {"plain", {{"pace", 1.0}}}};
  std::vector<Sample> samples = measured_by(truth, different_jobs("slow"));
  for (const Sample& sample : measured_by(truth, different_jobs("plain"))) samples.push_back(sample);
  Parameters shape = truth;
  shape.shared = {{"pace", 1}};
  const FitResult fitted = fit(samples, shape, {});
  EXPECT_NEAR(fitted.parameters.by_stack.at("slow").at("pace"), 1.5, 0.03);
  EXPECT_NEAR(fitted.parameters.by_stack.at("plain").at("pace"), 1.0, 0.03);
  EXPECT_GT(fitted.parameters.shared.at("pace"), 1);
  EXPECT_LT(fitted.parameters.shared.at("pace"), 1.5);
}

TEST(Fit, AStacksParentIsItsTraitBeforeTheSharedValue) {
  std::vector<spec::Job> jobs = different_jobs("seen");
  std::vector<spec::Job> one = {jobs.front()};
  one.front().stack.name = "rare";
  for (spec::Job& job : jobs) job.stack.traits = {"overlaps"};
  one.front().stack.traits = {"overlaps"};
  Parameters truth;
  truth.by_trait["overlaps"] = {{"tp_hidden", 0.8}};
  std::vector<Sample> samples = measured_by(truth, jobs);
  samples.push_back(measured_by(truth, one).front());  // one device group, no tensor parallelism: says nothing of it
  Parameters shape = truth;
  shape.shared = {{"tp_hidden", 0.16}};
  shape.by_stack["rare"] = {{"tp_hidden", 0.16}};
  const FitResult fitted = fit(samples, shape, kHardlyPulled);
  EXPECT_NEAR(fitted.parameters.by_trait.at("overlaps").at("tp_hidden"), 0.8, 0.008);
  EXPECT_DOUBLE_EQ(fitted.parameters.by_stack.at("rare").at("tp_hidden"),
                   fitted.parameters.by_trait.at("overlaps").at("tp_hidden"));
}

TEST(Fit, ABusyStackCountsForNoMoreThanItsCap) {
  std::vector<Sample> samples;
  for (int copy = 0; copy < 20; ++copy) {
    for (Sample& sample : measured_by(shared({{"pace", 1.5}}), different_jobs("busy"))) samples.push_back(sample);
  }
  for (Sample& sample : measured_by({}, different_jobs("quiet"))) samples.push_back(sample);
  const Parameters shape = shared({{"pace", 1}});
  const double uncapped = fit(samples, shape, {.stack_cap = 1e9}).parameters.shared.at("pace");
  const double capped = fit(samples, shape, {.stack_cap = 12}).parameters.shared.at("pace");
  EXPECT_GT(uncapped, 1.45);
  EXPECT_LT(capped, 1.35);
}

TEST(Fit, AFewWildRowsHardlyMoveIt) {
  std::vector<Sample> samples = measured_by(shared({{"pace", 1.2}}), different_jobs("mine"));
  samples[3].measured_s *= 4;
  samples[11].measured_s *= 5;
  const double pace = fit(samples, shared({{"pace", 1}}), {}).parameters.shared.at("pace");
  EXPECT_NEAR(pace, 1.2, 0.024);
}

TEST(Fit, StartsFromAKnownStackWhenThereIsOne) {
  spec::Physics base = spec::default_physics();
  base.pace = 1.3;
  base.element_factor = 2.5;
  std::vector<Sample> samples;
  for (spec::Job job : different_jobs("mine")) {
    job.stack.physics = base;
    samples.push_back({job, plan::step_time(job).total_s, 1});
  }
  const FitResult fitted = fit(samples, shared({{"pace", 0}}), {.base = &base});
  EXPECT_NEAR(fitted.parameters.shared.at("pace"), 1.3, 1e-9);
  EXPECT_NEAR(fitted.loss_after, 0, 1e-9);
}

TEST(Fit, TheSameSamplesGiveTheSameBits) {
  const Parameters truth = shared({{"pace", 1.2}, {"wave_weight", 2}});
  const std::vector<Sample> samples = measured_by(truth, different_jobs("mine"));
  EXPECT_EQ(fit(samples, truth, {}).parameters.shared, fit(samples, truth, {}).parameters.shared);
}

TEST(PredictedSeconds, ComeFromTheParametersAndNotFromTheJobsOwnPhysics) {
  spec::Job job = plan::gpt_job();
  const double before = predicted_s(job, {});
  job.stack.physics.pace = 1.9;
  EXPECT_EQ(predicted_s(job, {}), before);
  EXPECT_GT(predicted_s(job, shared({{"pace", 1.9}})), 1.5 * before);
}

}  // namespace
}  // namespace twinpod::validate
