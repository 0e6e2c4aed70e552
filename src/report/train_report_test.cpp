#include "report/train_report.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace twinpod::report {
namespace {

spec::Job small_job() {
  spec::Job job;
  job.name = "small";
  job.model.layers = 2;
  job.model.hidden = 64;
  job.model.ffn = 256;
  job.model.vocab = 257;
  job.model.attention = {.heads = 2, .kv_heads = 2, .head_dim = 32};
  job.cluster.devices = 2;
  job.training.global_batch = 8;
  job.training.sequence = 128;
  job.training.target_loss = 1.75;
  return job;
}

// Ten steps of 20 ms; the scale factor is measured from the fourth on.
train::LoopResult ten_steps() {
  train::LoopResult run;
  for (int step = 0; step < 10; ++step) {
    train::StepNote note{step, 10, 3.0 - 0.1 * step, 1e-3};
    note.seconds = 0.02;
    note.elapsed_s = 0.02 * (step + 1);
    if (step >= 3) note.scale_factor = step < 8 ? 0.9 : 0.8;
    run.steps.push_back(note);
  }
  run.seconds = 0.2;
  run.final_loss = 1.7;
  run.peak_bytes = run.predicted_bytes = {300, 500};
  run.peak_by_kind = run.predicted_by_kind = {{100, 200}, {100, 400}};
  return run;
}

TEST(TrainReport, ProgressHasABarAndTheTimeThatIsLeft) {
  const spec::Job job = small_job();
  const train::LoopResult run = ten_steps();
  const std::string text = progress_text({job, run.steps[4], 0.02, 2.75, 1e11});
  EXPECT_EQ(text.find("train  [##########----------]  50 %  step 5/10  loss 2.600  evaluation 2.750  51.2 k tokens/s"),
            0U)
      << text;
  EXPECT_NE(text.find("MFU "), std::string::npos) << text;
  EXPECT_NE(text.find("scale factor 0.90  100 ms left"), std::string::npos) << text;
}

TEST(TrainReport, EveryEvaluationHasARow) {
  train::LoopResult run;
  for (int step = 0; step < 1000; ++step) {
    train::StepNote note{step, 1000, 3.0, 1e-3};
    if ((step + 1) % 50 == 0) note.evaluation_loss = 2 + 0.001 * step;
    run.steps.push_back(note);
  }
  const std::string text = losses_text(run.steps);
  for (int step = 49; step < 1000; step += 50)
    EXPECT_NE(text.find(fmt::format("  {:.4f}  ", 2 + 0.001 * step)), std::string::npos) << step;
}

TEST(TrainReport, CheckpointsAndTheirStallAreTold) {
  const spec::Job job = small_job();
  train::LoopResult run = ten_steps();
  run.saves.saved = 2;
  run.saves.newest_step = 8;
  run.saves.stall_s = 0.001;
  run.saves.errors = {"disk full"};
  run.first_step = 5;
  run.resumed_from = "runs/a/checkpoint-000001";
  const nlohmann::json json = nlohmann::json::parse(train_json({.job = job, .run = run}));
  EXPECT_EQ(json["checkpoints"], 2);
  EXPECT_EQ(json["checkpoint_step"], 8);
  EXPECT_DOUBLE_EQ(json["checkpoint_stall_s"], 0.001);
  EXPECT_NEAR(json["checkpoint_stall_share"].get<double>(), 0.005, 1e-9);
  EXPECT_EQ(json["checkpoint_errors"][0], "disk full");
  EXPECT_EQ(json["resumed_from"], "runs/a/checkpoint-000001");
  const std::string text = train_text({.job = job, .run = run});
  EXPECT_NE(text.find("the newest of step 8"), std::string::npos) << text;
  EXPECT_NE(text.find("0.50 % of the steps' time"), std::string::npos) << text;
}

TEST(TrainReport, ProgressLeavesOutWhatIsNotKnownYet) {
  const spec::Job job = small_job();
  const train::LoopResult run = ten_steps();
  const std::string text = progress_text({job, run.steps[0], 0.02, 0, 0});
  for (const char* unknown : {"scale factor", "evaluation", "MFU"})
    EXPECT_EQ(text.find(unknown), std::string::npos) << text;
}

TEST(TrainReport, ScaleFactorIsThatOfMeasuredSteps) {
  EXPECT_EQ(scale_factor({}), 0);
  EXPECT_DOUBLE_EQ(scale_factor(ten_steps()), 0.9);
}

TEST(TrainReport, TimeToTargetIsThereOnlyWhenItWasReached) {
  const spec::Job job = small_job();
  train::LoopResult run = ten_steps();
  EXPECT_TRUE(nlohmann::json::parse(train_json({.job = job, .run = run}))["time_to_target_s"].is_null());
  EXPECT_NE(train_text({.job = job, .run = run}).find("not reached"), std::string::npos);
  run.time_to_target_s = 12.5;
  EXPECT_EQ(nlohmann::json::parse(train_json({.job = job, .run = run}))["time_to_target_s"], 12.5);
  EXPECT_NE(train_text({.job = job, .run = run}).find("12.5 s"), std::string::npos);
}

TEST(TrainReport, MemoryIsThatOfTheFullestRank) {
  const spec::Job job = small_job();
  const train::LoopResult run = ten_steps();
  const nlohmann::json json = nlohmann::json::parse(train_json({.job = job, .run = run}));
  EXPECT_EQ(json["peak_memory_bytes"], 500);
  EXPECT_EQ(json["peak_memory_parts"]["parameters_bytes"], 100);
  EXPECT_EQ(json["peak_memory_parts"]["gradients_bytes"], 400);
}

}  // namespace
}  // namespace twinpod::report
