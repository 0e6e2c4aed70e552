#include "validate/calibrate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/hash.hpp"
#include "plan/estimate.hpp"
#include "plan/memory.hpp"
#include "spec/read.hpp"
#include "validate/validation.hpp"

namespace twinpod::validate {
namespace {

spec::Job base_job(int devices, int tp, int pp, double batch) {
  spec::Job job;
  job.model.layers = 32;
  job.model.hidden = 4096;
  job.model.ffn = 14336;
  job.model.gated_mlp = true;
  job.model.vocab = 128256;
  job.model.max_sequence = 8192;
  job.model.attention = {.heads = 32, .kv_heads = 8, .head_dim = 128};
  job.cluster.device.name = "Test device";
  job.cluster.device.family = "test";
  job.cluster.device.peak_flop_per_s = {60e12, 400e12, 900e12, 900e12, 0, 0};
  job.cluster.device.memory_bytes = 80e9;
  job.cluster.device.memory_bytes_per_s = 3e12;
  job.cluster.device.compute_units = 132;
  job.cluster.devices = devices;
  job.cluster.scale_up_bytes_per_s = 450e9;
  job.cluster.scale_out_bytes_per_s = 50e9;
  job.layout.tp = tp;
  job.layout.pp = pp;
  job.layout.zero = 1;
  job.training.sequence = 4096;
  job.training.global_batch = batch;
  job.stack.name = "test-stack";
  job.stack.physics = spec::default_physics();
  return job;
}

spec::Job small() { return base_job(16, 2, 1, 128); }
spec::Job wide() { return base_job(128, 2, 1, 64); }  // a micro-batch a step: gradients on the network decide
spec::Job piped() { return base_job(64, 4, 4, 256); }
spec::Job unseen() { return base_job(256, 4, 1, 256); }

// Keys and values go over the network, and nothing but its rate says how fast.
spec::Job long_sequences() {
  spec::Job job = base_job(64, 8, 1, 16);
  job.layout.cp = 4;
  job.training.sequence = 32768;
  return job;
}

using Truth = spec::FieldValues;

double seconds_with(spec::Job job, const Truth& truth) {
  spec::set_fields(truth, job.stack.physics);
  return plan::step_time(job).total_s;
}

// What a cluster with these numbers would log.
CalibrationRun run_of(const spec::Job& job, const Truth& truth, const std::string& name = "run.log") {
  CalibrationRun run;
  run.job_file = "job.yaml";
  run.job = job;
  run.log.file = "logs/" + name;
  for (int i = 1; i <= 10; ++i) {
    LoggedStep step;
    step.number = i;
    step.time_s = seconds_with(job, truth) * (i == 1 ? 5 : 1);
    run.log.steps.push_back(step);
  }
  return run;
}

Calibration calibrated(const std::vector<CalibrationRun>& runs) {
  const Result<Calibration> result = calibrate(runs);
  EXPECT_TRUE(result.has_value()) << to_string(result.error());
  return result.value_or(Calibration{});
}

const CalibratedNumber& number(const Calibration& c, std::string_view name) {
  return *std::find_if(c.numbers.begin(), c.numbers.end(), [&](const auto& n) { return n.field->name == name; });
}

int num_fitted(const Calibration& c) {
  return static_cast<int>(
      std::count_if(c.numbers.begin(), c.numbers.end(), [](const auto& n) { return n.standing == Standing::fitted; }));
}

Truth fitted_values(const Calibration& c) {
  Truth values;
  for (const CalibratedNumber& n : c.numbers) {
    if (n.standing == Standing::fitted) values[std::string(n.field->name)] = n.after;
  }
  return values;
}

TEST(Calibrate, OneLogGivesThePaceAndNothingElse) {
  const Calibration c = calibrated({run_of(small(), {{"pace", 1.2}})});
  EXPECT_EQ(num_fitted(c), 1);
  EXPECT_NEAR(number(c, "pace").after, 1.2, 0.01);
  EXPECT_LT(std::fabs(c.runs[0].error(c.runs[0].after_s)), 0.01);
  EXPECT_NEAR(c.runs[0].error(c.runs[0].before_s), -0.16, 0.02);
  EXPECT_FALSE(c.has_unseen());
}

TEST(Calibrate, LogsOfOneJobCountAsOne) {
  const Truth truth = {{"pace", 1.1}, {"scale_out_efficiency", 0.5}};
  const Calibration c = calibrated({run_of(wide(), truth), run_of(wide(), truth), run_of(wide(), truth)});
  EXPECT_EQ(c.jobs, 1);
  EXPECT_EQ(num_fitted(c), 1);
  EXPECT_EQ(number(c, "scale_out_efficiency").standing, Standing::not_told);
  EXPECT_FALSE(c.has_unseen());
}

TEST(Calibrate, TwoJobsAreTooFewForASecondNumber) {
  const Truth truth = {{"pace", 1.2}, {"scale_out_efficiency", 0.4}};
  const Calibration c = calibrated({run_of(small(), truth), run_of(wide(), truth)});
  EXPECT_EQ(num_fitted(c), 1);
  EXPECT_TRUE(std::any_of(c.numbers.begin(), c.numbers.end(),
                          [](const auto& n) { return n.standing == Standing::too_few_jobs; }));
}

// The point of it all: a cluster that is slower, with a network that gives half of its rate, and a layout nobody has
// run.
TEST(Calibrate, ThreeLogsPredictAFourthLayoutWithinThreePerCent) {
  const Truth truth = {{"pace", 1.2}, {"scale_out_efficiency", 0.5}};
  const Calibration c = calibrated({run_of(small(), truth), run_of(wide(), truth), run_of(piped(), truth)});
  const double measured = seconds_with(unseen(), truth);
  EXPECT_GT(std::fabs(seconds_with(unseen(), {}) / measured - 1), 0.15);
  EXPECT_LT(std::fabs(seconds_with(unseen(), fitted_values(c)) / measured - 1), 0.03);
  EXPECT_EQ(num_fitted(c), 2);
}

TEST(Calibrate, TheNumberThatDiffersIsTheOneThatIsFound) {
  const Truth truth = {{"pace", 1.2}, {"scale_out_efficiency", 0.5}};
  const Calibration c = calibrated(
      {run_of(small(), truth), run_of(wide(), truth), run_of(piped(), truth), run_of(long_sequences(), truth)});
  EXPECT_NEAR(number(c, "pace").after, 1.2, 0.02);
  EXPECT_NEAR(number(c, "scale_out_efficiency").after, 0.5, 0.05);
  EXPECT_EQ(number(c, "dp_hidden").standing, Standing::not_needed);
  EXPECT_DOUBLE_EQ(number(c, "dp_hidden").after, number(c, "dp_hidden").before);
}

TEST(Calibrate, AStackThatIsRightStaysAsItIs) {
  const Calibration c = calibrated({run_of(small(), {}), run_of(wide(), {}), run_of(piped(), {})});
  EXPECT_EQ(num_fitted(c), 1);
  EXPECT_NEAR(number(c, "pace").after, 1, 1e-6);
}

TEST(Calibrate, ValuesStartFromTheBaseStackAndNotFromThePrior) {
  std::vector<CalibrationRun> runs = {run_of(small(), {})};
  runs[0].job.stack.physics.pace = 0.9;
  runs[0].job.stack.physics.growth = 0.03;
  const Calibration c = calibrated(runs);
  EXPECT_DOUBLE_EQ(number(c, "pace").before, 0.9);
  EXPECT_LT(std::fabs(c.runs[0].error(c.runs[0].after_s)), 0.01);
}

TEST(Calibrate, ThreeJobsAreEachPredictedByTheOthers) {
  const Truth truth = {{"pace", 1.2}};
  const Calibration c = calibrated({run_of(small(), truth), run_of(wide(), truth), run_of(piped(), truth)});
  ASSERT_TRUE(c.has_unseen());
  for (const CalibratedRun& run : c.runs) {
    EXPECT_GT(run.unseen_s, 0);
    EXPECT_LT(std::fabs(run.error(run.unseen_s)), 0.03);
  }
}

TEST(Calibrate, NumbersStayWithinWhatIsPlausible) {
  const Calibration c = calibrated({run_of(small(), {{"pace", 5.0}})});
  EXPECT_LE(number(c, "pace").after, 2.0);
  EXPECT_TRUE(number(c, "pace").at_bound());
}

TEST(Calibrate, TwoKindsOfDeviceAreRefused) {
  std::vector<CalibrationRun> runs = {run_of(small(), {}), run_of(wide(), {})};
  runs[1].job.cluster.device.family = "other";
  const Result<Calibration> result = calibrate(runs);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().file, "job.yaml");
}

double mean_error(const std::vector<Case>& cases, const std::set<std::string>& left_out, const Truth& values) {
  std::vector<double> errors;
  for (const Case& one : cases) {
    if (!left_out.contains(one.group)) errors.push_back(seconds_with(one.made.job, values) / one.run.measured_s() - 1);
  }
  return statistics(errors).mean;
}

// Stacks of the catalog as if nobody had fitted them: five of a stack's published runs calibrate it, and the others
// show what that is worth.
TEST(Calibrate, FiveRunsOfAStackHelpToPredictItsOthers) {
  const spec::Catalog catalog(TWINPOD_CATALOG_DIR);
  spec::Parameters parameters = *catalog.parameters();
  parameters.by_stack.clear();
  std::map<std::string, std::vector<Case>> stacks;
  const Result<std::vector<Case>> cases = load_cases(catalog, *read_catalog_runs(catalog));
  for (const Case& one : *cases) {
    if (!one.covered() || !one.documented() || one.mixture()) continue;
    Case moved = one;
    spec::Stack& stack = moved.made.job.stack;
    stack.physics = spec::resolve(parameters, moved.made.job.cluster.device.family, stack);
    stacks[stack.name + moved.made.job.cluster.device.family].push_back(std::move(moved));
  }
  double before = 0;
  double after = 0;
  int num_stacks = 0;
  for (auto& [name, list] : stacks) {
    if (list.size() < 20) continue;
    std::sort(list.begin(), list.end(), [](const Case& a, const Case& b) { return fnv1a(a.group) < fnv1a(b.group); });
    std::vector<CalibrationRun> runs;
    std::set<std::string> groups;
    for (const Case& one : list) {
      if (runs.size() == 5 || !groups.insert(one.group).second) continue;
      CalibrationRun run;
      run.job = one.made.job;
      run.log.steps = {{.number = 1, .time_s = one.run.measured_s()}};
      runs.push_back(std::move(run));
    }
    before += mean_error(list, groups, {});
    after += mean_error(list, groups, fitted_values(calibrated(runs)));
    ++num_stacks;
  }
  ASSERT_GE(num_stacks, 5);
  EXPECT_LT(after, 0.7 * before) << "means of " << num_stacks << " stacks: " << before / num_stacks << ", "
                                 << after / num_stacks;
}

// ---- Memory

LoggedMemory reading(Counter counter, double bytes) { return {counter, bytes, 0, 1}; }

TEST(Calibrate, ReservedMemoryGivesTheAllocatorsShare) {
  CalibrationRun run = run_of(small(), {});
  spec::Job truth = small();
  truth.stack.memory.reserve = 0.1;
  run.log.memory = {reading(Counter::reserved, plan::peak_memory(truth).reserved())};
  const Calibration c = calibrated({run});
  EXPECT_TRUE(c.memory.fits_reserve);
  EXPECT_FALSE(c.memory.fits_runtime);
  EXPECT_NEAR(c.memory.after.reserve, 0.1, 1e-6);
  ASSERT_EQ(c.memory.readings.size(), 1U);
  EXPECT_LT(c.memory.readings[0].error(c.memory.readings[0].before_bytes), -0.001);
  EXPECT_NEAR(c.memory.readings[0].error(c.memory.readings[0].after_bytes), 0, 1e-6);
}

TEST(Calibrate, UsedMemoryGivesTheRuntime) {
  CalibrationRun run = run_of(small(), {});
  run.log.memory = {reading(Counter::used, plan::peak_memory(small()).reserved() + 3e9)};
  const Calibration c = calibrated({run});
  EXPECT_TRUE(c.memory.fits_runtime);
  EXPECT_NEAR(c.memory.after.runtime_bytes, 3e9, 1);
}

TEST(Calibrate, AllocatedMemoryIsOnlyCompared) {
  CalibrationRun run = run_of(small(), {});
  run.log.memory = {reading(Counter::allocated, 1.1 * plan::peak_memory(small()).allocated())};
  const Calibration c = calibrated({run});
  EXPECT_FALSE(c.memory.fits_reserve || c.memory.fits_runtime);
  EXPECT_NEAR(c.memory.readings.at(0).error(c.memory.readings[0].after_bytes), 1 / 1.1 - 1, 1e-9);
}

TEST(Calibrate, ARanksMemoryIsThatOfItsStage) {
  CalibrationRun run = run_of(piped(), {});
  run.log.memory = {{Counter::reserved, 30e9, 63, 1}};
  EXPECT_EQ(calibrated({run}).memory.readings.at(0).stage, 3);
}

// ---- The stack's file

TEST(StackText, IsAStackThatAJobCanName) {
  const Truth truth = {{"pace", 1.2}, {"scale_out_efficiency", 0.5}};
  CalibrationRun first = run_of(small(), truth, "odd \"name\".log");
  first.log.memory = {reading(Counter::reserved, 60e9), reading(Counter::used, 65e9)};
  const Calibration c = calibrated({first, run_of(wide(), truth), run_of(piped(), truth)});
  const spec::Catalog catalog(TWINPOD_CATALOG_DIR);
  const std::string path = testing::TempDir() + "/calibrate_test_stack.yaml";
  std::FILE* file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fputs(stack_text(c, "megatron-core-2024").c_str(), file);
  std::fclose(file);
  const Result<spec::Job> job =
      spec::read_job_text("model: llama3-8b\ncluster: dgx-h100\nstack: " + path, "job.yaml", catalog);
  ASSERT_TRUE(job.has_value()) << to_string(job.error());
  EXPECT_EQ(job->stack.name, "calibrate_test_stack");
  EXPECT_NEAR(job->stack.physics.pace, number(c, "pace").after, 1e-5);
  EXPECT_NEAR(job->stack.physics.scale_out_efficiency, number(c, "scale_out_efficiency").after, 1e-5);
  EXPECT_NEAR(job->stack.memory.reserve, c.memory.after.reserve, 1e-4);
  EXPECT_NEAR(job->stack.memory.runtime_bytes, c.memory.after.runtime_bytes, 1);
  EXPECT_EQ(job->stack.source.origin, spec::Origin::measured);
  EXPECT_EQ(job->stack.source.text, "odd \"name\".log, run.log, run.log");
}

}  // namespace
}  // namespace twinpod::validate
