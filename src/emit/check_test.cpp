// Refusals: what an engine cannot run, and the nearest that it can.
#include <gtest/gtest.h>

#include "emit/test_jobs.hpp"

namespace twinpod::emit {
namespace {

struct Refused {
  std::string engine;
  std::string model;
  std::string layout;
  std::string training;
  std::string message;
  std::string hint;
};

class EachRefusal : public testing::TestWithParam<Refused> {};

TEST_P(EachRefusal, NamesWhatAndTheNearest) {
  const Refused& r = GetParam();
  const spec::Job job = job_of("model: " + r.model + "\ncluster: h100-superpod\ndevices: 64\nlayout: {" + r.layout +
                               "}\ntraining: {global_batch: 128" + r.training + "}\n");
  const Result<void> result = check(job, launch_named(r.engine)->engine);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::infeasible);
  EXPECT_NE(result.error().message.find(r.message), std::string::npos) << result.error().message;
  EXPECT_NE(result.error().hint.find(r.hint), std::string::npos) << result.error().hint;
}

INSTANTIATE_TEST_SUITE_P(
    Emit, EachRefusal,
    testing::Values(
        Refused{"megatron", "llama3-8b", "pp: 4, schedule: zb-1p", "", "no schedule zb-1p; it has 1f1b, interleaved",
                "1f1b"},
        Refused{"megatron", "llama3-8b", "pp: 4, schedule: dualpipe", "", "no schedule dualpipe", "interleaved"},
        Refused{"megatron", "llama3-8b", "pp: 4, schedule: gpipe", "", "no schedule gpipe", "1f1b"},
        Refused{"megatron", "llama3-8b", "pp: 4, zero: 3", "", "not with pp 4", "zero 1, or pp 1"},
        Refused{"megatron", "llama3-8b", "servers: 4, zero: 0", "", "no parameter servers", "servers 0"},
        Refused{"megatron", "llama3-8b", "zero: 0, offload_optimizer: true", "", "but zero is 0", "zero 1"},
        Refused{"megatron", "llama3-8b", "pp: 2, offload_activations: true, zero: 1", "", "in a pipeline", "pp 1"},
        Refused{"megatron", "llama3-8b", "recompute: full, offload_activations: true", "", "recomputes",
                "recompute none"},
        Refused{"megatron", "llama3-8b", "pp: 4, virtual_stages: 4, zero: 1, recompute: full, recompute_layers: 6", "",
                "4 chunks, but recompute_layers is 6", "recompute_layers 8"},
        Refused{"megatron", "mixtral-8x7b", "tp: 2, zero: 1, sequence_parallel: false", "", "sequence_parallel",
                "sequence_parallel true"},
        Refused{"megatron", "llama3-8b", "tp: 2, zero: 1, async_tp: true, sequence_parallel: false", "", "overlaps",
                "async_tp false"},
        Refused{"megatron", "llama3-8b", "zero: 1", ", precision: tf32", "precision tf32", "bf16"},
        Refused{"megatron", "llama3-8b", "zero: 1", ", pure_low_precision: true", "master copy",
                "pure_low_precision false"},
        Refused{"megatron", "llama3-8b", "zero: 1", ", optimizer: adafactor", "adafactor", "adam"},
        Refused{"megatron", "bloom-7b1", "zero: 1", "", "ALiBi", "twinpod"},
        Refused{"megatron", "gemma2-9b", "zero: 1", "", "norms behind attention", "twinpod"},
        Refused{"nemo", "llama3-8b", "pp: 4, schedule: zb-v, zero: 1", "", "no schedule zb-v", "1f1b"},
        Refused{"nemo", "llama3-8b", "zero: 1", ", optimizer: sgd", "optimizer sgd", "adam"},
        Refused{"torchtitan", "llama3-8b", "zero: 1", "", "no ZeRO 1", "zero 2"},
        Refused{"torchtitan", "llama3-8b", "zero: 0, tp: 2", "", "data parallelism alone", "zero 2"},
        Refused{"torchtitan", "llama3-8b", "zero: 3, pp: 4, schedule: zb-2p", "", "no schedule zb-2p", "zb-v"},
        Refused{"torchtitan", "llama3-8b", "zero: 3, recompute: full, recompute_layers: 4", "", "all layers alike",
                "recompute_layers 0"},
        Refused{"torchtitan", "llama3-8b", "zero: 3, offload_activations: true", "", "activations", "recompute full"},
        Refused{"torchtitan", "llama3-8b", "zero: 3, overlap: false", "", "overlap is false", "overlap true"},
        Refused{"torchtitan", "llama3-8b", "zero: 3, cp: 2, context_exchange: gather", "", "context_exchange gather",
                "context_exchange ring"},
        Refused{"megatron", "llama3-8b", "zero: 1, cp: 2, context_exchange: gather", "", "context_exchange gather",
                "context_exchange ring"},
        Refused{"torchtitan", "llama3-8b", "zero: 3", ", precision: fp16", "fp16", "bf16"},
        Refused{"torchtitan", "llama3-70b", "zero: 3, pp: 32, remainder_last: true", "", "first stages",
                "remainder_last false"},
        Refused{"torchtitan", "qwen3-30b-a3b", "zero: 3, tp: 2, ep: 8, etp: 2", "", "but etp is 2", "etp 1"},
        Refused{"torchtitan", "qwen3-30b-a3b", "zero: 3, shard_group: 8, ep: 16", "", "ep 16 does not divide", "ep 8"},
        Refused{"torchtitan", "mixtral-8x7b", "zero: 3", "", "no flavor for Mixtral 8x7B",
                "models/qwen3/__init__.py with dim=4096"},
        Refused{"torchtitan", "gpt3-175b", "zero: 3", "", "no flavor for GPT-3 175B", "models/llama3/__init__.py"}));

TEST(Emit, ADeviceThatIsNoGpuIsRefused) {
  const Result<void> result = check(
      job_of("model: llama3-8b\ncluster: tpu-v4-4096\ndevices: 64\nlayout: {zero: 1}\ntraining: {global_batch: 64}\n"),
      Engine::megatron);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("runs on GPUs"), std::string::npos);
}

TEST(Emit, NodesThatAreNotFullAreRefused) {
  const Result<void> result = check(
      job_of(
          "model: llama3-8b\ncluster: h100-superpod\ndevices: 12\nlayout: {zero: 1}\ntraining: {global_batch: 12}\n"),
      Engine::megatron);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().hint, "try 8 devices");
}

TEST(Emit, ALayoutThatIsNoneIsRefusedFirst) {
  const Result<std::string> text = emit(
      job_of("model: llama3-8b\ncluster: h100-superpod\ndevices: 64\nlayout: {tp: 3}\ntraining: {global_batch: 64}\n"),
      *launch_named("megatron"));
  ASSERT_FALSE(text);
  EXPECT_TRUE(text.error().message.starts_with("layout:"));
}

TEST(Emit, JobFilesTakeEverything) {
  EXPECT_TRUE(
      check(job_of("model: bloom-7b1\ncluster: tpu-v4-4096\ndevices: 64\nlayout: {pp: 2, schedule: zb-1p, servers: 2, "
                   "zero: 0}\ntraining: {global_batch: 64}\n"),
            Engine::twinpod));
}

TEST(Emit, NamesOfLaunches) {
  EXPECT_EQ(launch_named("torchtitan")->engine, Engine::torchtitan);
  EXPECT_EQ(launch_named("slurm")->engine, Engine::megatron);
  EXPECT_TRUE(launch_named("slurm:nemo")->slurm);
  EXPECT_EQ(launch_named("slurm:nemo")->engine, Engine::nemo);
}

TEST(Emit, AnUnknownLaunchNamesTheNearest) {
  const Result<Launch> launch = launch_named("megatorn");
  ASSERT_FALSE(launch);
  EXPECT_EQ(launch.error().kind, ErrorKind::input);
  EXPECT_EQ(launch.error().hint, "did you mean `megatron`?");
}

// What a search may try is let through.
TEST(Emit, AbilitiesAreNotRefusedOneByOne) {
  for (const Engine engine : {Engine::megatron, Engine::torchtitan, Engine::nemo}) {
    const spec::Abilities able = abilities(engine);
    for (const spec::Schedule schedule : able.schedules) {
      spec::Job job = job_of(
          "model: llama3-8b\ncluster: h100-superpod\ndevices: 64\nlayout: {pp: 4}\ntraining: {global_batch: 256}\n");
      job.layout.schedule = schedule;
      job.layout.virtual_stages = schedule == spec::Schedule::interleaved ? 2 : 1;
      job.layout.zero = engine == Engine::torchtitan ? 2 : 1;
      EXPECT_TRUE(check(job, engine)) << to_string(check(job, engine).error());
    }
  }
}

}  // namespace
}  // namespace twinpod::emit
