#include "validate/training_log.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace twinpod::validate {
namespace {

constexpr double kMib = 1024.0 * 1024.0;
constexpr double kGib = 1024.0 * kMib;

// 128 sequences of 4096 tokens on 64 devices.
spec::Job job() {
  spec::Job job;
  job.training.global_batch = 128;
  job.training.sequence = 4096;
  job.cluster.devices = 64;
  return job;
}

TrainingLog parsed(const std::string& text) {
  const Result<TrainingLog> log = parse_training_log(text, "run.log");
  EXPECT_TRUE(log.has_value()) << to_string(log.error());
  return log.value_or(TrainingLog{});
}

Error refusal(const std::string& text) {
  const Result<TrainingLog> log = parse_training_log(text, "run.log");
  EXPECT_FALSE(log.has_value());
  return log ? Error{} : log.error();
}

double seconds(const std::string& text) {
  const Result<MeasuredStep> step = measured_step(parsed(text), job());
  EXPECT_TRUE(step.has_value());
  return step ? step->seconds : 0;
}

const std::string kMegatron =
    " [2025-08-01 07:19:50] iteration        2/    5000 | consumed samples:          256 | elapsed time per iteration "
    "(ms): "
    "12936.1 | throughput per GPU (TFLOP/s/GPU): 118.7 | learning rate: 1.395349E-07 | global batch size:   128 | lm "
    "loss: "
    "1.044022E+01 | loss scale: 1.0 | grad norm: 26.305 | number of skipped iterations:   0 | number of nan "
    "iterations:   0 |\n";

TEST(TrainingLog, MegatronsLineGivesTimeIterationAndBatch) {
  const TrainingLog log = parsed(kMegatron);
  ASSERT_EQ(log.steps.size(), 1U);
  EXPECT_EQ(log.steps[0].number, 2);
  EXPECT_DOUBLE_EQ(log.steps[0].time_s, 12.9361);
  EXPECT_DOUBLE_EQ(log.steps[0].global_batch, 128);
  EXPECT_EQ(log.steps[0].line, 1);
}

TEST(TrainingLog, MegatronDeepSpeedWritesSeconds) {
  EXPECT_DOUBLE_EQ(
      seconds("[default7]: iteration    12695/  115311 | consumed samples:      9841584 | elapsed time per "
              "iteration (s): 105.22 | learning rate: 5.969E-05 | global batch size:   128 |\n"),
      105.22);
}

TEST(TrainingLog, MegatronsOldestLineHasNoThroughput) {
  EXPECT_DOUBLE_EQ(
      seconds(" iteration      100/  100000 | consumed samples: 3200 | elapsed time per iteration (ms): 2275.1 |\n"),
      2.2751);
}

TEST(TrainingLog, MegatronsMemoryIsInMebibytes) {
  const TrainingLog log =
      parsed(kMegatron +
             "[Rank 3] (after 2 iterations) memory (MB) | allocated: 9334.25 | max allocated: 10606.5 | "
             "reserved: 10998.0 | max reserved: 10999.0\n");
  ASSERT_EQ(log.memory.size(), 2U);
  EXPECT_EQ(log.memory[0].counter, Counter::allocated);
  EXPECT_DOUBLE_EQ(log.memory[0].bytes, 10606.5 * kMib);
  EXPECT_EQ(log.memory[0].rank, 3);
  EXPECT_EQ(log.memory[1].counter, Counter::reserved);
  EXPECT_DOUBLE_EQ(log.memory[1].bytes, 10999.0 * kMib);
}

TEST(TrainingLog, OfSeveralRanksTheFullestCountsEvenOnOneLine) {
  const TrainingLog log =
      parsed(kMegatron +
             "[Rank 2] (after 1 iterations) memory (MB) | allocated: 1.0 | max allocated: 2.0 | reserved: "
             "3.0 | max reserved: 13236.0[Rank 6] (after 1 iterations) memory (MB) | allocated: 1.0 | max "
             "allocated: 5.0 | reserved: 3.0 | max reserved: 11000.0\n");
  ASSERT_EQ(log.memory.size(), 2U);
  EXPECT_EQ(log.memory[0].rank, 6);
  EXPECT_DOUBLE_EQ(log.memory[0].bytes, 5 * kMib);
  EXPECT_EQ(log.memory[1].rank, 2);
  EXPECT_DOUBLE_EQ(log.memory[1].bytes, 13236 * kMib);
}

TEST(TrainingLog, MemoryOfZeroIsNoReading) {
  EXPECT_TRUE(parsed(kMegatron +
                     "[Rank 5] (after 1 iterations) memory (MB) | allocated: 0.0 | max allocated: 0.0 | reserved: "
                     "0.0 | max reserved: 0.0\n")
                  .memory.empty());
}

TEST(TrainingLog, TorchtitansColouredLineGivesTokensOfADevice) {
  const TrainingLog log = parsed(
      "[rank0]:[titan] 2025-06-03 10:00:30,037 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:  7.1000  "
      "\x1b[38;2;180;60;0mgrad_norm:  4.0000  \x1b[36mmemory: 40.11GiB(42.21%)  \x1b[34mtps: 7,123  \x1b[36mtflops: "
      "412.30  "
      "\x1b[35mmfu: 41.70%\x1b[39m\n");
  ASSERT_EQ(log.steps.size(), 1U);
  EXPECT_EQ(log.steps[0].number, 10);
  EXPECT_DOUBLE_EQ(log.steps[0].device_tokens_per_s, 7123);
  ASSERT_EQ(log.memory.size(), 1U);
  EXPECT_EQ(log.memory[0].counter, Counter::reserved);
  EXPECT_DOUBLE_EQ(log.memory[0].bytes, 40.11 * kGib);
  EXPECT_EQ(log.memory[0].rank, 0);
}

TEST(TrainingLog, TokensOfADeviceBecomeAStep) {
  EXPECT_DOUBLE_EQ(seconds("step:  1  loss:  7.1000  memory: 40.11GiB(42.21%)  tps: 4,096\n"),
                   128.0 * 4096 / (4096 * 64));
}

TEST(TrainingLog, OlderTorchtitanCountedWords) {
  EXPECT_DOUBLE_EQ(seconds("step:  1  loss:  7.1000  memory: 40.11GiB(42.21%)  wps: 8,192  mfu: 41.70%\n"), 1);
}

TEST(TrainingLog, StepsOfAValidationTrainNothing) {
  EXPECT_EQ(parsed("step:  1  loss:  7.1000  memory: 40.11GiB(42.21%)  tps: 4,096\n"
                   "validate step:  1  loss:  7.0000  memory: 20.00GiB(21.00%)  tps: 90,000\n")
                .steps.size(),
            1U);
}

TEST(TrainingLog, JsonLinesHaveTheirUnitsInTheirKeys) {
  for (const char* line : {R"({"step": 1, "step_time_s": 1.5})", R"({"iteration": 1, "iteration_time_s": 1.5})",
                           R"({"iteration": 1, "elapsed_time_per_iteration_ms": 1500})",
                           R"({"step": 1, "time_ms": 1500.0, "loss": null})"}) {
    EXPECT_DOUBLE_EQ(seconds(line), 1.5) << line;
  }
}

TEST(TrainingLog, TokensOfTheWholeJobAreEnough) {
  EXPECT_DOUBLE_EQ(seconds(R"({"step": 3, "tokens_per_s": 131072})"), 4);
}

TEST(TrainingLog, MemoryInJsonIsWhatTheDriverCountsUnlessItSaysOtherwise) {
  const TrainingLog log = parsed(
      "{\"step\": 1, \"time_ms\": 5, \"memory_gb\": 61.5}\n"
      "{\"step\": 2, \"time_ms\": 5, \"max_memory_gib\": 50, \"memory_counter\": \"allocated\", \"rank\": 7}\n");
  ASSERT_EQ(log.memory.size(), 2U);
  EXPECT_EQ(log.memory[0].counter, Counter::used);
  EXPECT_DOUBLE_EQ(log.memory[0].bytes, 61.5e9);
  EXPECT_EQ(log.memory[1].counter, Counter::allocated);
  EXPECT_DOUBLE_EQ(log.memory[1].bytes, 50 * kGib);
  EXPECT_EQ(log.memory[1].rank, 7);
}

TEST(TrainingLog, KindsOfLineMayMixAndOthersArePassedOver) {
  const TrainingLog log =
      parsed("starting\n{'lr': 1e-4}\n{\"config\": {\"layers\": 3}}\n" + kMegatron +
             "{\"step\": 3, \"step_time_s\": 12.9}\n\nstep: 4  loss: 7.1  memory: 1.00GiB(2%)  tps: 600\n");
  ASSERT_EQ(log.steps.size(), 3U);
  EXPECT_EQ(log.steps[0].line, 4);
  EXPECT_EQ(log.steps[1].line, 5);
  EXPECT_EQ(log.steps[2].line, 7);
}

TEST(TrainingLog, LinesThatEndInCarriageReturnsAreTheSame) {
  EXPECT_DOUBLE_EQ(seconds("step: 1  loss: 7.1  memory: 1.00GiB(2%)  tps: 8,192\r\n"), 1);
}

TEST(TrainingLog, ABadNumberIsRefusedWithItsPlace) {
  const Error error = refusal(kMegatron + " iteration       3/  10 | elapsed time per iteration (ms): 12x4 |\n");
  EXPECT_EQ(error.file, "run.log");
  EXPECT_EQ(error.line, 2);
  EXPECT_EQ(error.column, 60);
  EXPECT_EQ(error.message, "elapsed time per iteration: found `12x4`, expected a number above 0");
}

TEST(TrainingLog, WhatIsNoTimeOrMemoryIsRefused) {
  for (const char* line :
       {" iteration 3/ 10 | elapsed time per iteration (ms): nan |\n",
        " iteration 3/ 10 | elapsed time per iteration (ms): -5.0 |\n",
        " iteration 3/ 10 | elapsed time per iteration (ms): 0.0 |\n",
        " iteration 3/ 10 | elapsed time per iteration (ms): |\n",
        " iteration 3/ 10 | elapsed time per iteration (ms): 5.0 | global batch size: many |\n",
        "[Rank 0] (after 1 iterations) memory (MB) | allocated: 1 | max allocated: lots\n",
        "step: 3  loss: 7.1  memory: 40.11GiB(42%)  tps: 7.1.2\n",
        "step: 3  loss: 7.1  memory: -3.00GiB(42%)  tps: 712\n", "{\"step\": 1, \"step_time_s\": \"fast\"}\n",
        "{\"step\": 1, \"step_time_s\": 0}\n", "{\"step\": 1, \"step_time_s\": 1e300}\n",
        "{\"step\": 1, \"step_time_s\": 1.5, \"memory_gb\": -1}\n",
        "{\"step\": 1, \"step_time_s\": 1.5, \"memory_gb\": 1, \"memory_counter\": \"guessed\"}\n",
        "{\"step\": \"one\", \"step_time_s\": 1.5}\n", "{\"step\": 1, \"step_time_s\": NaN}\n"}) {
    const Error error = refusal(line);
    EXPECT_EQ(error.line, 1) << line;
    EXPECT_GE(error.column, 1) << line;
    EXPECT_EQ(error.kind, ErrorKind::input) << line;
  }
}

TEST(TrainingLog, ALastLineThatWasCutOffIsPassedOver) {
  EXPECT_EQ(parsed("{\"step\": 1, \"step_time_s\": 1.5}\n{\"step\": 2, \"step_time_s\": 1.").steps.size(), 1U);
}

TEST(TrainingLog, ALogWithoutAStepSaysWhatWasExpected) {
  const Error error = refusal("hello\nworld\n");
  EXPECT_EQ(error.message, "there is no training step in this log");
  EXPECT_NE(error.hint.find("elapsed time per iteration"), std::string::npos);
  EXPECT_NE(error.hint.find("tps"), std::string::npos);
  EXPECT_NE(error.hint.find("step_time_s"), std::string::npos);
}

TEST(TrainingLog, AFileThatIsNotThereNamesTheNearest) {
  const std::string folder = testing::TempDir() + "/twinpod_training_log_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/training_log_test.log") << kMegatron;
  EXPECT_TRUE(read_training_log(folder + "/training_log_test.log").has_value());
  const Result<TrainingLog> log = read_training_log(folder + "/trainin_log_test.log");
  ASSERT_FALSE(log.has_value());
  EXPECT_EQ(log.error().hint, "did you mean training_log_test.log?");
}

// ---- From steps to a step

std::string steps(const std::vector<double>& times) {
  std::string text;
  for (std::size_t i = 0; i < times.size(); ++i) {
    text += "{\"step\": " + std::to_string(i + 1) + ", \"step_time_s\": " + std::to_string(times[i]) + "}\n";
  }
  return text;
}

MeasuredStep measured(const std::string& text) { return measured_step(parsed(text), job()).value_or(MeasuredStep{}); }

TEST(MeasuredStep, TheFirstFifthIsWarmUp) {
  const MeasuredStep step = measured(steps({60, 30, 2, 2, 2, 2, 2, 2, 2, 2}));
  EXPECT_DOUBLE_EQ(step.seconds, 2);
  EXPECT_EQ(step.dropped, 2);
  EXPECT_EQ(step.used, 8);
}

TEST(MeasuredStep, TheFirstStepIsAlwaysWarmUp) { EXPECT_DOUBLE_EQ(measured(steps({60, 2})).seconds, 2); }

TEST(MeasuredStep, EveryRanksLineOfTheFirstStepIsWarmUp) {
  const MeasuredStep step = measured(
      "{\"step\": 1, \"time_ms\": 9000}\n{\"step\": 1, \"time_ms\": 9000}\n{\"step\": 1, \"time_ms\": 9000}\n"
      "{\"step\": 2, \"time_ms\": 1000}\n{\"step\": 2, \"time_ms\": 1000}\n");
  EXPECT_DOUBLE_EQ(step.seconds, 1);
  EXPECT_EQ(step.dropped, 3);
}

TEST(MeasuredStep, ASingleStepIsKept) {
  const MeasuredStep step = measured(steps({3}));
  EXPECT_DOUBLE_EQ(step.seconds, 3);
  EXPECT_EQ(step.dropped, 0);
}

TEST(MeasuredStep, OutliersDoNotMoveTheMedian) {
  EXPECT_DOUBLE_EQ(measured(steps({9, 2, 2, 50, 2, 2, 400, 2, 2, 2})).seconds, 2);
}

TEST(MeasuredStep, StepsOfABatchThatRampsUpDoNotCount) {
  std::string text;
  for (const int batch : {32, 32, 64, 64, 128, 128, 128}) {
    text += "{\"time_ms\": " + std::to_string(10 * batch) + ", \"global_batch\": " + std::to_string(batch) + "}\n";
  }
  const MeasuredStep step = measured(text);
  EXPECT_DOUBLE_EQ(step.seconds, 1.28);
  EXPECT_EQ(step.used + step.dropped, 3);
}

TEST(MeasuredStep, ALogOfAnotherBatchIsRefused) {
  spec::Job other = job();
  other.training.global_batch = 256;
  const Result<MeasuredStep> step = measured_step(parsed(kMegatron), other);
  ASSERT_FALSE(step.has_value());
  EXPECT_EQ(step.error().message, "global batch size is 128 here, but 256 in the job");
  EXPECT_EQ(step.error().line, 1);
}

}  // namespace
}  // namespace twinpod::validate
