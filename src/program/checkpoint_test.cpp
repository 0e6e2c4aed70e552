#include "program/checkpoint.hpp"

#include <gtest/gtest.h>

#include "model/arithmetic.hpp"
#include "program/generate.hpp"
#include "program/test_job.hpp"

namespace twinpod::program {
namespace {

constexpr double kMixedBytes = 14;  // 16-bit parameter, master copy, two moments

double parameters_of(const spec::Job& job) { return model::parameters(job.model).total; }

double bytes_of(const spec::Job& job) { return checkpoint_bytes(job, generate(job).value()).all; }

TEST(CheckpointBytes, HoldsEachParameterWithItsOptimizerStateOnce) {
  for (const int zero : {0, 1, 2, 3}) {
    for (const int devices : {1, 2, 8}) {
      spec::Job job = gpt_job(devices);
      job.layout.zero = zero;
      EXPECT_NEAR(bytes_of(job) / (kMixedBytes * parameters_of(job)), 1, 1e-9) << zero << " " << devices;
    }
  }
  spec::Job ours = gpt_job(2);
  ours.stack.executed = true;
  EXPECT_NEAR(bytes_of(ours) / (12 * parameters_of(ours)), 1, 1e-3) << "the 16-bit copy is made anew";
  spec::Job wide = gpt_job(2);
  wide.training.precision = spec::Precision::fp32;
  EXPECT_NEAR(bytes_of(wide) / (12 * parameters_of(wide)), 1, 1e-9);
}

TEST(CheckpointBytes, IsAsLargeInEveryLayout) {
  spec::Job experts = mixture_job(8, 4);
  EXPECT_NEAR(bytes_of(experts) / (kMixedBytes * parameters_of(experts)), 1, 1e-9);
  spec::Job tied = gpt_job(8, 1, 4);
  tied.model.tied_embeddings = true;
  EXPECT_NEAR(bytes_of(tied) / (kMixedBytes * parameters_of(tied)), 1, 1e-9) << "the other end's copy is not saved";
  spec::Job mirrored = gpt_job(8, 1, 4);
  mirrored.layout.schedule = spec::Schedule::dualpipe;
  EXPECT_NEAR(bytes_of(mirrored) / (kMixedBytes * parameters_of(mirrored)), 1, 1e-9) << "both copies share the work";
  spec::Job divided = gpt_job(8, 4, 2);  // norms are whole on every rank
  EXPECT_NEAR(bytes_of(divided) / (kMixedBytes * parameters_of(divided)), 1, 2e-3);
}

// BLOOM: 176.247 billion parameters, a checkpoint of 2.3 TB (bigscience-workshop/bigscience, train/tr11-176B-ml).
TEST(CheckpointBytes, OfBloomIsAsLargeAsPublished) {
  spec::Job job = gpt_job(384, 4, 12);
  job.model.layers = 70;
  job.model.hidden = 14336;
  job.model.ffn = 4 * 14336;
  job.model.vocab = 250880;
  job.model.attention = {.heads = 112, .kv_heads = 112, .head_dim = 128};
  job.model.tied_embeddings = true;
  job.model.positions = spec::Positions::alibi;
  job.layout.uneven_ends = true;
  const Result<Program> program = generate(job);
  ASSERT_TRUE(program.has_value()) << to_string(program.error());
  EXPECT_NEAR(checkpoint_bytes(job, *program).all / 2.3e12, 1, 0.08);
}

TEST(Steps, StandOneBehindTheOtherWithACheckpointBehindSome) {
  const Program step = generate(gpt_job(8, 2, 2)).value();
  const CheckpointBytes bytes = checkpoint_bytes(gpt_job(8, 2, 2), step);
  const Steps steps =
      with_checkpoints(step, bytes, {.steps = 5, .every = 2, .tiers = {Tier::local_disk, Tier::storage}});
  EXPECT_EQ(steps.checkpoints, (std::vector<int>{0, 2, 4}));
  for (int k = 0; k < 2; ++k) {
    const std::vector<Instance>& list = steps.program.kinds[static_cast<std::size_t>(k)].instances;
    const auto own = step.kinds[static_cast<std::size_t>(k)].instances.size();
    ASSERT_EQ(list.size(), 5 * (own + 1) + 3 * 3);
    for (int s = 0; s < 5; ++s) {
      const Instance& end = list[static_cast<std::size_t>(steps.boundary(k, s))];
      EXPECT_EQ(end.block, steps.num_step_blocks);
      EXPECT_EQ(end.from[0].instance, steps.boundary(k, s) - 1);
    }
    const auto block_of = [&](int c) {
      return steps.program.blocks[static_cast<std::size_t>(list[static_cast<std::size_t>(c)].block)];
    };
    EXPECT_EQ(block_of(steps.snapshot(k, 1)).ops.front().tier, Tier::host_memory);
    EXPECT_EQ(block_of(steps.drain(k, 1)).ops.back().tier, Tier::storage);
    EXPECT_EQ(block_of(steps.drain(k, 1)).ops.back().bytes, bytes.of_rank[static_cast<std::size_t>(k)]);
    EXPECT_EQ(list[static_cast<std::size_t>(steps.snapshot(k, 2))].from[0].instance, steps.drain(k, 1))
        << "its memory is taken until the drain before has ended";
  }
}

// A pass of a later step waits for a pass of that step, on whichever stage.
TEST(Steps, WaitWithinTheirStep) {
  const Program step = generate(gpt_job(4, 1, 4)).value();
  for (const bool beside : {false, true}) {
    const Steps steps = with_checkpoints(step, checkpoint_bytes(gpt_job(4, 1, 4), step),
                                         {.steps = 4, .every = 2, .beside = beside, .tiers = {Tier::storage}});
    for (std::size_t k = 0; k < step.kinds.size(); ++k) {
      const std::vector<Instance>& own = step.kinds[k].instances;
      const std::vector<Instance>& list = steps.program.kinds[k].instances;
      for (int s = 0; s < 4; ++s) {
        const int held = beside && s % 2 == 1 ? 1 : 0;  // in front of the last one
        for (int i = 0; i + 1 < static_cast<int>(own.size()); ++i) {
          const Source& before = own[static_cast<std::size_t>(i)].from[0];
          const int at = steps.boundary(static_cast<int>(k), s) - static_cast<int>(own.size()) - held + i;
          const Instance& now = list[static_cast<std::size_t>(at)];
          ASSERT_EQ(now.block, own[static_cast<std::size_t>(i)].block);
          ASSERT_EQ(now.from[0].kind, before.kind);
          if (before.kind < 0) continue;
          const auto others = step.kinds[static_cast<std::size_t>(before.kind)].instances.size();
          const int first = steps.boundary(before.kind, s) - static_cast<int>(others) - held;
          ASSERT_EQ(now.from[0].instance - first, before.instance);
        }
        if (held == 0) continue;
        const Instance& hold = list[static_cast<std::size_t>(steps.boundary(static_cast<int>(k), s) - 2)];
        EXPECT_EQ(hold.from[0].instance, steps.snapshot(static_cast<int>(k), s / 2)) << "the update waits";
      }
    }
  }
}

}  // namespace
}  // namespace twinpod::program
