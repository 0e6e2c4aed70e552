// A run that is saved and resumed is the run that was never interrupted: on any layout, to the bit on the same one.
#include "train/checkpoint.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <set>

#include "core/half.hpp"
#include "data/test_tokens.hpp"
#include "store/checkpoints.hpp"
#include "store/faulty_files.hpp"
#include "store/load.hpp"
#include "store/memory_files.hpp"
#include "store/simulated_files.hpp"
#include "train/checkpoint_rank.hpp"
#include "train/checkpoint_regions.hpp"
#include "train/loop.hpp"
#include "train/test_job.hpp"

namespace twinpod::train {
namespace {

struct Case {
  const char* name = "one rank";
  int dp = 1;
  int tp = 1;
  int pp = 1;
  bool sp = false;
  int zero = 0;
  bool overlap = false;
  spec::Schedule schedule = spec::Schedule::one_f_one_b;
};

const Case kCases[] = {
    {.name = "one rank"},
    {.name = "dp 2", .dp = 2},
    {.name = "tp 2", .tp = 2},
    {.name = "tp 4, sequence parallel", .tp = 4, .sp = true},
    {.name = "pp 2, interleaved", .pp = 2, .schedule = spec::Schedule::interleaved},
    {.name = "zero 1", .dp = 4, .zero = 1},
    {.name = "zero 2", .dp = 2, .zero = 2},
    {.name = "zero 3, tp 2", .dp = 2, .tp = 2, .zero = 3},
    {.name = "dp 2, tp 2, pp 2, zero 1", .dp = 2, .tp = 2, .pp = 2, .sp = true, .zero = 1},
    {.name = "dp 2, reduced beside the passes, zero 1", .dp = 2, .zero = 1, .overlap = true},
};

spec::Job job_of(const Case& one, bool llama = false) {
  spec::Job job = small_job(llama);
  job.model.layers = 4;
  job.cluster.devices = one.dp * one.tp * one.pp;
  job.layout.tp = one.tp;
  job.layout.pp = one.pp;
  job.layout.sequence_parallel = one.sp;
  job.layout.zero = one.zero;
  job.layout.schedule = one.schedule;
  job.layout.virtual_stages = one.schedule == spec::Schedule::interleaved ? 2 : 1;
  job.stack.physics.dp_hidden = one.overlap ? 0.9 : 0;
  job.training.recipe.learning_rate = 3e-3;
  job.training.recipe.evaluate_every = 3;
  return job;
}

// Tokens of a stream that a model can learn.
data::TokenData stream() {
  std::vector<std::int32_t> tokens;
  Rng rng(3);
  for (int i = 0; i < 2000; ++i)
    tokens.push_back(i == 0 ? 5 : (tokens.back() * 7 + static_cast<int>(rng.next() % 3)) % 61);
  data::write_documents(data::test_name(), data::TokenType::i32, {tokens});
  Result<data::TokenData> data = data::open_tokens(data::test_name());
  EXPECT_TRUE(data) << to_string(data.error());
  return std::move(*data);
}

struct Asked {
  int steps = 6;
  int every = 0;
  int stop_behind = -1;  // step
  store::OnError on_error = store::OnError::go_on;
  bool resumes = false;
  store::Files* slower = nullptr;                  // a second tier
  std::function<void(int step)> behind_step = {};  // on rank 0
};

// Runs a job on ranks that are threads; rank 0's result.
template <typename T>
LoopResult run(spec::Job job, const data::TokenData& data, store::Files* files, const Asked& asked) {
  LoopResult result;
  job.stack.memory.runtime_bytes = static_cast<double>(runtime_bytes<T>(job));
  const Result<program::Program> program = program::generate(job);
  const Result<data::Samples> samples =
      data::make_samples(data, {.sequence = job.training.sequence,
                                .global_batch = static_cast<std::int64_t>(job.training.global_batch),
                                .micro_batch = job.layout.micro_batch,
                                .data_parallel = spec::data_parallel(job),
                                .vocabulary = job.model.vocab,
                                .seed = 1,
                                .evaluation_share = 0.1});
  EXPECT_TRUE(program && samples) << (program ? "" : program.error().message);
  if (!program || !samples) return result;
  std::atomic<int> steps_done = 0;
  const auto body = [&](comm::Communicator& world) -> Result<std::string> {
    LoopSettings settings;
    settings.steps = asked.steps;
    settings.deterministic = true;
    settings.asked_to_stop = [&] { return asked.stop_behind >= 0 && steps_done >= asked.stop_behind; };
    settings.note = [&](const StepNote& note) {
      steps_done = note.step + 1;
      if (asked.behind_step) asked.behind_step(note.step + 1);
    };
    if (files != nullptr) {
      const store::Tier tier{.name = "store", .files = files, .root = "/runs/a", .on_error = asked.on_error};
      if (asked.every > 0) settings.checkpoints.tiers = {tier};
      if (asked.slower != nullptr)
        settings.checkpoints.tiers.push_back({.name = "slower", .files = asked.slower, .root = "/runs/a"});
      if (asked.resumes) settings.checkpoints.resume_from = {tier};
      settings.checkpoints.every = asked.every;
      settings.checkpoints.values = facts_of(job, *samples);
    }
    Result<LoopResult> own = run_loop<T>(job, *program, world, *samples, settings);
    if (!own) return tl::unexpected(own.error());
    if (comm::rank_of(world) == 0) result = std::move(*own);
    return std::string();
  };
  const Result<std::string> done = comm::run_threads(job.cluster.devices, {.timeout_s = 60}, body);
  kernel::tune_gemm(true);
  EXPECT_TRUE(done) << done.error().message;
  return result;
}

constexpr int kSteps = 6;
constexpr int kSavedSteps = 3;

void expect_near(const LoopResult& resumed, const LoopResult& whole, double tolerance) {
  ASSERT_FALSE(resumed.refused) << resumed.refused->message << resumed.refused->hint;
  EXPECT_EQ(resumed.first_step, kSavedSteps);
  ASSERT_EQ(resumed.steps.size(), static_cast<std::size_t>(kSteps - kSavedSteps));
  for (const StepNote& note : resumed.steps) {
    const StepNote& expected = whole.steps[static_cast<std::size_t>(note.step)];
    EXPECT_NEAR(note.loss, expected.loss, tolerance * expected.loss) << "step " << note.step + 1;
    EXPECT_EQ(note.rate, expected.rate);
  }
  EXPECT_NEAR(resumed.final_loss, whole.final_loss, tolerance * whole.final_loss);
}

// A store with the checkpoint of the run's third step: it was asked to stop.
template <typename T>
void save_three_steps(const spec::Job& job, const data::TokenData& data, store::Files& files) {
  const LoopResult saved = run<T>(job, data, &files, {.steps = kSteps, .every = 100, .stop_behind = kSavedSteps});
  ASSERT_FALSE(saved.refused) << saved.refused->message;
  EXPECT_TRUE(saved.stopped);
  EXPECT_EQ(saved.saves.saved, 1);
  EXPECT_EQ(saved.saves.newest_step, kSavedSteps);
  EXPECT_EQ(saved.peak_bytes, saved.predicted_bytes);
}

TEST(Checkpoint, SavedOnEachOfTenLayoutsResumedOnEachOfTen) {
  const data::TokenData data = stream();
  const LoopResult whole = run<float>(job_of(kCases[0]), data, nullptr, {});
  ASSERT_EQ(whole.steps.size(), static_cast<std::size_t>(kSteps));
  for (const Case& from : kCases) {
    store::SimulatedFiles files;
    save_three_steps<float>(job_of(from), data, files);
    for (const Case& to : kCases) {
      SCOPED_TRACE(fmt::format("from {} to {}", from.name, to.name));
      expect_near(run<float>(job_of(to), data, &files, {.resumes = true}), whole, 1e-5);
    }
  }
}

TEST(Checkpoint, TheSameLayoutGoesOnWithTheSameBits) {
  const data::TokenData data = stream();
  for (const bool llama : {false, true}) {
    for (const Case& one : kCases) {
      if (llama && one.tp > 2) continue;  // it has two key/value heads
      SCOPED_TRACE(one.name);
      store::SimulatedFiles files;
      save_three_steps<float>(job_of(one, llama), data, files);
      expect_near(run<float>(job_of(one, llama), data, &files, {.resumes = true}),
                  run<float>(job_of(one, llama), data, nullptr, {}), 0);
    }
  }
}

TEST(Checkpoint, Bf16ResumesFromItsMasterWeights) {
  const data::TokenData data = stream();
  const auto bf16 = [](const Case& one) {
    spec::Job job = job_of(one);
    job.training.precision = spec::Precision::bf16;
    return job;
  };
  for (const Case& one : {kCases[0], kCases[1], kCases[5], kCases[7], kCases[8]}) {
    SCOPED_TRACE(one.name);
    store::SimulatedFiles files;
    save_three_steps<Bf16>(bf16(one), data, files);
    expect_near(run<Bf16>(bf16(one), data, &files, {.resumes = true}), run<Bf16>(bf16(one), data, nullptr, {}), 0);
  }
}

TEST(Checkpoint, OptimizersKeepWhatTheyHave) {
  const data::TokenData data = stream();
  for (const spec::Optimizer optimizer : {spec::Optimizer::sgd, spec::Optimizer::sgd_momentum}) {
    spec::Job job = job_of(kCases[1]);
    job.training.optimizer = optimizer;
    store::SimulatedFiles files;
    save_three_steps<float>(job, data, files);
    expect_near(run<float>(job, data, &files, {.resumes = true}), run<float>(job, data, nullptr, {}), 0);
  }
}

TEST(Checkpoint, EverySampleIsDrawnOnce) {
  const data::TokenData data = stream();
  store::SimulatedFiles files;
  save_three_steps<float>(job_of(kCases[1]), data, files);
  const Result<store::WholeCheckpoint> found = store::newest_whole(files, "/runs/a");
  ASSERT_TRUE(found) << to_string(found.error());
  EXPECT_EQ(found->manifest.state.step, kSavedSteps);
  EXPECT_EQ(found->manifest.state.samples, kSavedSteps * 8);
}

TEST(Checkpoint, WhatCopiesHoldAlikeIsWrittenOnce) {
  const spec::Job job = job_of({.dp = 2, .tp = 2, .pp = 2});
  const Result<program::Program> program = program::generate(job);
  ASSERT_TRUE(program);
  std::set<std::string> seen;
  for (int rank = 0; rank < job.cluster.devices; ++rank) {
    const Pieces pieces = pieces_of(job, *program, program::kind_of_rank(*program, rank));
    for (const OwnedRegion& one : regions_to_save(job, *program, pieces, rank, "F32"))
      EXPECT_TRUE(seen.insert(one.held.tensor + store::to_string(one.held.region)).second) << one.held.tensor;
  }
  EXPECT_GT(seen.size(), 100U);
}

TEST(Checkpoint, SavesOnItsWayAndKeepsTheNewest) {
  const data::TokenData data = stream();
  store::SimulatedFiles files;
  const LoopResult result = run<float>(job_of(kCases[1]), data, &files, {.steps = 12, .every = 2});
  EXPECT_GE(result.saves.saved, 2);
  EXPECT_EQ(result.saves.saved + result.saves.passed_over, 6);
  EXPECT_EQ(result.saves.newest_step, 12);
  EXPECT_TRUE(result.saves.errors.empty()) << result.saves.errors.front();
  const Result<std::vector<store::CheckpointInfo>> infos = store::list_checkpoints(files, "/runs/a");
  ASSERT_TRUE(infos);
  EXPECT_EQ(infos->size(), 2U);
  EXPECT_TRUE(infos->front().complete);
}

TEST(Checkpoint, AFinishedRunSaysSo) {
  const data::TokenData data = stream();
  store::SimulatedFiles files;
  (void)run<float>(job_of(kCases[0]), data, &files, {.steps = 2, .every = 5});
  const LoopResult again = run<float>(job_of(kCases[0]), data, &files, {.steps = 2, .resumes = true});
  EXPECT_TRUE(again.finished);
  EXPECT_TRUE(again.steps.empty());
}

TEST(Checkpoint, AnotherModelIsRefusedWithWhatDiffers) {
  const data::TokenData data = stream();
  store::SimulatedFiles files;
  save_three_steps<float>(job_of(kCases[0]), data, files);
  spec::Job other = job_of(kCases[1]);
  other.model.ffn = 128;
  const LoopResult refused = run<float>(other, data, &files, {.resumes = true});
  ASSERT_TRUE(refused.refused);
  EXPECT_NE(refused.refused->message.find("model.ffn is 64, here 128"), std::string::npos) << refused.refused->message;
}

TEST(Checkpoint, AStoreOfAnotherRunIsNotSavedTo) {
  const data::TokenData data = stream();
  store::SimulatedFiles files;
  save_three_steps<float>(job_of(kCases[0]), data, files);
  const LoopResult refused = run<float>(job_of(kCases[0]), data, &files, {.every = 2});
  ASSERT_TRUE(refused.refused);
  EXPECT_NE(refused.refused->hint.find("--resume /runs/a"), std::string::npos);
}

TEST(Checkpoint, ADamagedOneIsPassedOver) {
  const data::TokenData data = stream();
  store::SimulatedFiles files;
  save_three_steps<float>(job_of(kCases[1]), data, files);
  const LoopResult longer = run<float>(job_of(kCases[1]), data, &files, {.every = 100, .resumes = true});
  EXPECT_EQ(longer.saves.newest_step, kSteps);
  store::Bytes* shard = files.contents("/runs/a/checkpoint-000002/shard-00000.safetensors");
  ASSERT_NE(shard, nullptr);
  (*shard)[shard->size() - 5] ^= std::byte{4};
  const LoopResult resumed = run<float>(job_of(kCases[2]), data, &files, {.resumes = true});
  EXPECT_EQ(resumed.first_step, kSavedSteps);
  EXPECT_EQ(resumed.passed_over.size(), 1U);
}

// Every operation of a run that saves twice fails in turn.
void expect_survives(store::OnError on_error, const store::IoFault& fault, const data::TokenData& data) {
  SCOPED_TRACE(fmt::format("operation {}", fault.at));
  const spec::Job job = job_of(kCases[1]);
  store::SimulatedFiles files;
  const Result<void> made = files.make_folder("/runs");
  ASSERT_TRUE(made);
  files.fail(fault);
  const LoopResult result = run<float>(job, data, &files, {.steps = 3, .every = 1, .on_error = on_error});
  const bool failed = !result.saves.errors.empty() || result.refused.has_value();
  files.fail({});
  const Result<store::WholeCheckpoint> found = store::newest_whole(files, "/runs/a");
  if (on_error == store::OnError::go_on && result.steps.size() == 3) {
    EXPECT_GE(found ? found->manifest.state.step : 0, result.saves.newest_step);  // what was acknowledged is there
  }
  EXPECT_TRUE(on_error == store::OnError::go_on || result.saves.failed == 0 || result.refused);
  EXPECT_TRUE(failed || found);
}

TEST(Checkpoint, AnErrorOfTheStoreIsSaidAndTheOlderOneStays) {
  const data::TokenData data = stream();
  store::SimulatedFiles undisturbed;
  (void)run<float>(job_of(kCases[1]), data, &undisturbed, {.steps = 3, .every = 1});
  const std::int64_t operations = undisturbed.operations();
  EXPECT_GT(operations, 40);
  for (std::int64_t at = 2; at < operations; ++at) {
    for (const store::OnError on_error : {store::OnError::go_on, store::OnError::stop})
      expect_survives(on_error, {.at = at, .code = at % 2 == 0 ? EIO : ENOSPC, .lasting = at % 3 == 0}, data);
  }
}

// Whole checkpoints and nothing else, the newest of the step.
void expect_newest(store::Files& files, int step) {
  const Result<store::WholeCheckpoint> found = store::newest_whole(files, "/runs/a");
  ASSERT_TRUE(found) << to_string(found.error());
  EXPECT_EQ(found->manifest.state.step, step);
  EXPECT_TRUE(found->passed_over.empty()) << found->passed_over.front();
}

// Saves go on while it is full, and again when it is not: those in between are lost, and no other.
TEST(Checkpoint, AFullDiskIsOverWhenThereIsRoomAgain) {
  const data::TokenData data = stream();
  store::SimulatedFiles below;
  ASSERT_TRUE(below.make_folder("/runs"));
  store::FaultyFiles files(below);
  const auto filler = [&](int step) {
    if (step == 10) files.fail({.at = 1, .code = ENOSPC, .lasting = true});
    if (step == 30) files.fail({});
  };
  const LoopResult result =
      run<float>(job_of(kCases[1]), data, &files, {.steps = 60, .every = 1, .behind_step = filler});
  EXPECT_GE(result.saves.failed, 1);
  EXPECT_EQ(result.saves.newest_step, 60);
  EXPECT_FALSE(result.saves.lacks_newest);
  expect_newest(below, 60);
}

TEST(Checkpoint, AFaultOfEachOperationOfTheLastSaveCostsNothing) {
  const data::TokenData data = stream();
  store::SimulatedFiles undisturbed;
  const Asked asked = {.steps = 2, .every = 100};
  (void)run<float>(job_of(kCases[0]), data, &undisturbed, asked);
  for (std::int64_t at = 12; at < undisturbed.operations(); ++at) {
    store::SimulatedFiles files;
    files.fail({.at = at, .code = at % 2 == 0 ? EIO : ENOSPC});
    const LoopResult result = run<float>(job_of(kCases[0]), data, &files, asked);
    if (result.refused) continue;  // the fault befell the store before the first step
    EXPECT_EQ(result.saves.newest_step, 2) << at;
    EXPECT_FALSE(result.saves.lacks_newest) << at;
    const Result<store::WholeCheckpoint> found = store::newest_whole(files, "/runs/a");
    ASSERT_TRUE(found) << at;
    EXPECT_EQ(found->manifest.state.step, 2) << at;
  }
}

TEST(Checkpoint, AStateThatCouldNotBeSavedIsSaid) {
  const data::TokenData data = stream();
  store::SimulatedFiles below;
  store::FaultyFiles files(below);
  const auto filler = [&](int step) {
    if (step == 2) files.fail({.at = 1, .code = ENOSPC, .lasting = true});
  };
  const LoopResult result =
      run<float>(job_of(kCases[1]), data, &files, {.steps = 4, .every = 1, .behind_step = filler});
  EXPECT_TRUE(result.saves.lacks_newest);
  EXPECT_LT(result.saves.newest_step, 4);
  EXPECT_EQ(result.steps.size(), 4U);
}

TEST(Checkpoint, AFirstTierThatIsFullLeavesTheSavesToTheNext) {
  const data::TokenData data = stream();
  store::MemoryFiles full(2000);
  store::SimulatedFiles slower;
  ASSERT_TRUE(full.make_folder("/runs"));
  const LoopResult result = run<float>(job_of(kCases[1]), data, &full, {.steps = 6, .every = 2, .slower = &slower});
  EXPECT_EQ(result.saves.failed, 0) << result.saves.errors.back();
  EXPECT_GE(result.saves.saved, 1);
  EXPECT_EQ(result.saves.newest_step, 6);
  EXPECT_FALSE(result.saves.lacks_newest);
  ASSERT_FALSE(result.saves.errors.empty());
  EXPECT_NE(result.saves.errors.front().find("on tier store: "), std::string::npos) << result.saves.errors.front();
  EXPECT_NE(result.saves.errors.front().find("it goes to tier slower"), std::string::npos);
  expect_newest(slower, 6);
}

TEST(Checkpoint, ASlowestTierThatLacksTheNewestIsSaid) {
  const data::TokenData data = stream();
  store::MemoryFiles fast;
  store::MemoryFiles full(2000);
  ASSERT_TRUE(full.make_folder("/runs"));
  const LoopResult result = run<float>(job_of(kCases[1]), data, &fast, {.steps = 4, .every = 2, .slower = &full});
  EXPECT_EQ(result.saves.newest_step, 4);
  EXPECT_TRUE(result.saves.lacks_newest);
  expect_newest(fast, 4);
}

// Of two tiers the first fails from one operation to the end of that save: the run ends with its state on both.
TEST(Checkpoint, AFaultOfEachOperationOfTheFirstTierLeavesTheStateOnTheSlowest) {
  const data::TokenData data = stream();
  bool lacks = false;
  const auto run_with = [&](const store::IoFault& fault, store::SimulatedFiles& slower) {
    store::SimulatedFiles below;
    (void)below.make_folder("/runs");
    store::FaultyFiles files(below);
    std::int64_t operations = 0;
    const auto behind = [&](int step) {
      if (step == 2) files.fail({fault.at > 0 ? files.operations() + fault.at : 0, fault.code, fault.lasting});
      if (step == 2) operations = files.operations();
    };
    const LoopResult result = run<float>(job_of(kCases[0]), data, &files,
                                         {.steps = 3, .every = 100, .slower = &slower, .behind_step = behind});
    EXPECT_FALSE(result.refused);
    // What was saved there, and could not be read again before it was copied, is said.
    EXPECT_TRUE(fault.lasting || !result.saves.lacks_newest) << fault.at;
    lacks = result.saves.lacks_newest;
    return files.operations() - operations;
  };
  store::SimulatedFiles undisturbed;
  const std::int64_t operations = run_with({}, undisturbed);
  EXPECT_GT(operations, 10);
  for (std::int64_t at = 1; at <= operations; ++at) {
    store::SimulatedFiles slower;
    run_with({.at = at, .code = at % 2 == 0 ? EIO : ENOSPC, .lasting = at % 3 != 0}, slower);
    SCOPED_TRACE(at);
    if (!lacks) expect_newest(slower, 3);
  }
}

}  // namespace
}  // namespace twinpod::train
