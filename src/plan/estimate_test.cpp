#include "plan/estimate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "model/arithmetic.hpp"
#include "plan/test_job.hpp"

namespace twinpod::plan {
namespace {

using spec::Schedule;

double share_of(const StepTime& step, Part part) { return step.parts[part] / step.total_s; }

// A pipeline in which the bubble is the only thing that a schedule changes.
spec::Job pipeline_job() {
  spec::Job job = gpt_job();
  job.layout.pp = 8;
  job.training.global_batch = 128;  // 16 micro-batches
  return job;
}

double bubble_with(Schedule schedule) {
  spec::Job job = pipeline_job();
  job.layout.schedule = schedule;
  return step_time(job).parts[Part::bubble];
}

TEST(Estimate, EachPartHasItsOwnName) {
  for (int a = 0; a < kNumParts; ++a) {
    EXPECT_FALSE(part_name(static_cast<Part>(a)).empty());
    for (int b = 0; b < a; ++b) EXPECT_NE(part_name(static_cast<Part>(a)), part_name(static_cast<Part>(b)));
  }
}

TEST(Estimate, TwoThousandRandomJobsGiveFinitePositiveNumbers) {
  Rng rng(2);
  for (int i = 0; i < 2000; ++i) {
    const spec::Job job = random_job(rng);
    const StepTime step = step_time(job);
    ASSERT_TRUE(std::isfinite(step.total_s) && step.total_s > 0) << "job " << i;
    ASSERT_TRUE(std::isfinite(step.executed_flop) && step.executed_flop > 0) << "job " << i;
    ASSERT_GE(step.micro_batches, 1);
    for (int part = 0; part < kNumParts; ++part) {
      const double seconds = step.parts[static_cast<Part>(part)];
      ASSERT_TRUE(std::isfinite(seconds) && seconds >= 0) << "job " << i << ", " << part_name(static_cast<Part>(part));
    }
    const double sum = std::accumulate(step.parts.seconds.begin(), step.parts.seconds.end(), 0.0);
    ASSERT_NEAR(sum, step.total_s, 1e-12 * step.total_s) << "job " << i;
  }
}

TEST(Estimate, TheSameJobGivesTheSameBits) {
  Rng rng(3);
  for (int i = 0; i < 100; ++i) {
    const spec::Job job = random_job(rng);
    const StepTime once = step_time(job);
    const StepTime again = step_time(job);
    EXPECT_EQ(once.total_s, again.total_s);
    EXPECT_EQ(once.parts.seconds, again.parts.seconds);
  }
}

// Of schedules that move no weight gradients: those fill bubbles with what a faster device has less of.
TEST(Estimate, AFasterDeviceIsNeverSlower) {
  Rng rng(4);
  for (int i = 0; i < 300; ++i) {
    spec::Job job = random_job(rng);
    job.layout.schedule = Schedule::one_f_one_b;
    const double before = step_time(job).total_s;
    for (double& peak : job.cluster.device.peak_flop_per_s) peak *= 2;
    job.cluster.device.memory_bytes_per_s *= 2;
    EXPECT_LE(step_time(job).total_s, before * (1 + 1e-12)) << "job " << i;
  }
}

TEST(Estimate, FasterLinksAreNeverSlower) {
  Rng rng(5);
  for (int i = 0; i < 300; ++i) {
    spec::Job job = random_job(rng);
    const double before = step_time(job).total_s;
    job.cluster.scale_up_bytes_per_s *= 2;
    job.cluster.scale_out_bytes_per_s *= 2;
    EXPECT_LE(step_time(job).total_s, before * (1 + 1e-12)) << "job " << i;
  }
}

TEST(Estimate, MicroBatchesAreTheRanksShareOfTheBatch) {
  spec::Job job = gpt_job();
  job.layout.tp = 4;
  job.layout.micro_batch = 2;
  EXPECT_EQ(step_time(job).micro_batches, 512.0 / (16 * 2));
}

TEST(Estimate, TwiceTheBatchTakesAlmostTwiceTheTime) {
  spec::Job job = gpt_job();
  const double once = step_time(job).total_s;
  job.training.global_batch *= 2;
  EXPECT_GT(step_time(job).total_s, 1.8 * once);
  EXPECT_LE(step_time(job).total_s, 2 * once);
}

TEST(Estimate, WithoutAPipelineThereIsNoBubble) {
  const StepTime step = step_time(gpt_job());
  EXPECT_EQ(step.parts[Part::bubble], 0);
  EXPECT_EQ(step.parts[Part::pipeline], 0);
}

TEST(Estimate, MoreMicroBatchesShrinkTheBubblesShare) {
  spec::Job job = pipeline_job();
  double before = 1;
  for (double batch = 64; batch <= 4096; batch *= 2) {
    job.training.global_batch = batch;
    const double now = share_of(step_time(job), Part::bubble);
    EXPECT_LT(now, before) << batch;
    before = now;
  }
  EXPECT_LT(before, 0.03);
}

// (p - 1) micro-batches of waiting beside m of work: Narayanan 2021, section 2.2.
TEST(Estimate, TheBubbleIsThatOfAllButOneStage) {
  spec::Job job = pipeline_job();
  job.model.vocab = 1;  // equal stages
  job.stack.launches = 0;
  job.stack.physics.bubble_factor = 1;
  job.cluster.scale_up_domain = 64;
  const StepTime step = step_time(job);
  const double work = step.parts[Part::products] + step.parts[Part::attention] + step.parts[Part::elements];
  EXPECT_NEAR(step.parts[Part::bubble] / work, 7.0 / 16, 0.03);
}

TEST(Estimate, InterleavingShrinksTheBubble) {
  spec::Job job = pipeline_job();
  const double plain = step_time(job).parts[Part::bubble];
  job.layout.virtual_stages = 3;
  EXPECT_NEAR(step_time(job).parts[Part::bubble], plain / 3, 0.1 * plain);
}

// The last stage, which has the head and sets the pace, sends no output of its last chunk.
TEST(Estimate, InterleavingSendsMore) {
  spec::Job job = pipeline_job();
  const double plain = step_time(job).parts[Part::pipeline];
  job.layout.virtual_stages = 3;
  EXPECT_DOUBLE_EQ(step_time(job).parts[Part::pipeline], 5 * plain);
}

TEST(Estimate, ZeroBubbleSchedulesHaveLessOfIt) {
  const double plain = bubble_with(Schedule::one_f_one_b);
  EXPECT_DOUBLE_EQ(bubble_with(Schedule::gpipe), plain);
  EXPECT_LT(bubble_with(Schedule::zb_1p), 0.7 * plain);
  EXPECT_LT(bubble_with(Schedule::zb_2p), bubble_with(Schedule::zb_1p));
  EXPECT_LT(bubble_with(Schedule::zb_v), bubble_with(Schedule::zb_1p));
  EXPECT_LT(bubble_with(Schedule::dualpipe), 0.7 * plain);
}

// 25 layers on eight stages: one holds four, the others three.
TEST(Estimate, TheSlowestStageSetsThePace) {
  spec::Job job = pipeline_job();
  job.model.vocab = 1;
  job.model.layers = 25;
  spec::Job even = job;
  even.model.layers = 32;
  EXPECT_NEAR(step_time(job).parts[Part::products], step_time(even).parts[Part::products], 1e-9);
  EXPECT_LT(step_time(job).parts[Part::bubble], step_time(even).parts[Part::bubble]);
}

TEST(Estimate, EndsOfAPipelineAddUpTheGradientsOfATiedEmbedding) {
  spec::Job job = pipeline_job();
  const double apart = step_time(job).parts[Part::data];
  const double table = static_cast<double>(job.model.vocab) * job.model.hidden / job.layout.tp;
  job.model.tied_embeddings = true;
  const double rate = job.cluster.scale_out_bytes_per_s * job.stack.physics.scale_out_efficiency;
  EXPECT_GT(step_time(job).parts[Part::data] - apart, table * job.stack.scatter_bytes / rate);
}

TEST(Estimate, OnOneStageATiedEmbeddingIsReducedOnce) {
  spec::Job job = pipeline_job();
  job.layout.pp = 1;
  const double apart = step_time(job).parts[Part::data];
  job.model.tied_embeddings = true;
  EXPECT_LE(step_time(job).parts[Part::data], apart);
}

TEST(Estimate, ALargeVocabularySlowsTheLastStage) {
  spec::Job job = pipeline_job();
  const double small = step_time(job).total_s;
  job.model.vocab = 256000;
  EXPECT_GT(step_time(job).total_s, 1.5 * small);
}

TEST(Estimate, WithoutTensorParallelismThereIsNoTensorPart) {
  spec::Job job = gpt_job();
  EXPECT_EQ(step_time(job).parts[Part::tensor], 0);
  job.layout.tp = 2;
  EXPECT_GT(step_time(job).parts[Part::tensor], 0);
}

TEST(Estimate, OneDeviceTalksToNobody) {
  const StepTime step = step_time(gpt_job(1));
  for (const Part part : {Part::tensor, Part::context, Part::expert, Part::shard, Part::pipeline, Part::bubble,
                          Part::data, Part::stragglers}) {
    EXPECT_EQ(step.parts[part], 0) << part_name(part);
  }
}

TEST(Estimate, OverlapHidesGradientTraffic) {
  spec::Job job = gpt_job();
  job.stack.physics.dp_hidden = 0.05;
  const double exposed = step_time(job).parts[Part::data];
  EXPECT_GT(exposed, 0);
  job.stack.physics.dp_hidden = 0.8;
  job.layout.micro_batch = 8;  // a backward pass long enough to hide behind
  EXPECT_LT(step_time(job).parts[Part::data], 0.5 * exposed);
}

TEST(Estimate, ALayoutMaySayWhetherGradientTrafficOverlaps) {
  spec::Job job = gpt_job();
  job.layout.micro_batch = 8;
  job.stack.physics.dp_hidden = 0.8;
  const double hides = step_time(job).parts[Part::data];
  job.layout.overlap = true;
  EXPECT_EQ(step_time(job).parts[Part::data], hides) << "as the stack does by itself";
  job.layout.overlap = false;
  const double waits = step_time(job).parts[Part::data];
  EXPECT_GT(waits, 2 * hides);
  job.stack.physics.dp_hidden = 0.05;  // a stack that does not overlap
  EXPECT_EQ(step_time(job).parts[Part::data], waits);
  job.layout.overlap = true;
  EXPECT_LT(step_time(job).parts[Part::data], 0.7 * waits);
}

TEST(Estimate, AShortBackwardPassHidesLittle) {
  spec::Job job = gpt_job();
  job.stack.physics.dp_hidden = 0.99;
  job.cluster.scale_out_bytes_per_s = 1e9;
  job.training.sequence = 128;
  spec::Job longer = job;
  longer.training.sequence = 2048;
  EXPECT_GT(step_time(job).parts[Part::data], step_time(longer).parts[Part::data]);
  EXPECT_GT(share_of(step_time(job), Part::data), 0.3);
}

TEST(Estimate, ShardedOptimizersUpdateLess) {
  spec::Job job = gpt_job();
  const double whole = step_time(job).parts[Part::optimizer];
  job.layout.zero = 1;
  EXPECT_NEAR(step_time(job).parts[Part::optimizer], whole / 64, 1e-9);
}

TEST(Estimate, AnOffloadedUpdateIsSlower) {
  spec::Job job = gpt_job();
  job.layout.zero = 1;
  const double here = step_time(job).parts[Part::optimizer];
  job.layout.offload_optimizer = true;
  EXPECT_GT(step_time(job).parts[Part::optimizer], 2 * here);
}

TEST(Estimate, ReadingShowsOnlyWhereStorageIsSlowerThanTheStep) {
  spec::Job job = gpt_job();
  job.training.bytes_per_token = 2;
  const double step = step_time(job).total_s;
  const double bytes = 2.0 * job.training.global_batch * job.training.sequence;
  job.cluster.storage_read_bytes_per_s = 2 * bytes / step;
  EXPECT_EQ(step_time(job).parts[Part::input], 0);
  job.cluster.storage_read_bytes_per_s = bytes / (3 * step);
  EXPECT_NEAR(step_time(job).total_s, 3 * step, 1e-9 * step);
}

TEST(Estimate, StragglersGrowWithTheNodes) {
  spec::Job job = gpt_job(8);
  job.training.global_batch = 64;
  EXPECT_EQ(step_time(job).parts[Part::stragglers], 0);
  spec::Job many = gpt_job(1024);
  many.training.global_batch = 8192;
  EXPECT_NEAR(share_of(step_time(many), Part::stragglers), 7 * many.stack.physics.growth, 0.02);
}

TEST(Estimate, FullRecomputeExecutesAThirdMoreThanTheModelAsks) {
  spec::Job job = gpt_job();
  job.model.vocab = 1;
  job.layout.recompute = spec::Recompute::full;
  const double asked = model::training_flop(job.model, 2048) * 512 * 2048;
  EXPECT_NEAR(step_time(job).executed_flop / asked, 4.0 / 3, 0.02 * 4 / 3);
  job.layout.recompute = spec::Recompute::none;
  EXPECT_NEAR(step_time(job).executed_flop / asked, 1, 0.001);
}

// However it is divided, the work is the work.
TEST(Estimate, ExecutedFlopsDoNotDependOnTheLayout) {
  spec::Job job = gpt_job();
  const double asked = model::training_flop(job.model, 2048) * 512 * 2048;
  for (const auto& [tp, pp, cp] : {std::array{1, 1, 1}, {8, 1, 1}, {1, 8, 1}, {2, 4, 2}, {4, 2, 4}}) {
    job.layout.tp = tp;
    job.layout.pp = pp;
    job.layout.cp = cp;
    EXPECT_NEAR(step_time(job).executed_flop / asked, 1, 1e-9) << tp << ' ' << pp << ' ' << cp;
  }
}

TEST(Estimate, MixtureWorkIsThatOfTheExpertsVisited) {
  spec::Job job = mixture_job();
  job.model.experts.first_dense_layers = 1;
  job.model.experts.shared = 1;
  job.layout.ep = 8;
  const double asked = model::training_flop(job.model, 2048) * 512 * 2048;
  EXPECT_NEAR(step_time(job).executed_flop / asked, 1, 1e-9);
}

TEST(Estimate, APredictionModuleIsWorkOfTheLastStage) {
  spec::Job job = mixture_job();
  const double without = step_time(job).total_s;
  job.model.mtp_layers = 1;
  const double with = step_time(job).total_s;
  EXPECT_GT(with, (1 + 1.0 / 25) * without);
  EXPECT_LT(with, 1.2 * without);
}

// A layer of each kind is there for its number of layers, not for the model's first one.
TEST(Estimate, ModelsOfSeveralKindsOfLayerLieBetweenTheirKinds) {
  spec::Job dense = gpt_job();
  dense.training.sequence = 16384;
  dense.training.global_batch = 64;
  spec::Job windowed = dense;
  windowed.model.attention.window = 512;
  spec::Job mixed = windowed;
  mixed.model.attention.global_every = 2;
  const double low = step_time(windowed).parts[Part::attention];
  const double high = step_time(dense).parts[Part::attention];
  EXPECT_NEAR(step_time(mixed).parts[Part::attention], (low + high) / 2, 1e-9);
}

TEST(Estimate, PaceScalesWhatTheDeviceDoesAndNotTheRest) {
  spec::Job job = gpt_job();
  const StepTime plain = step_time(job);
  job.stack.physics.pace = 1.5;
  const StepTime slow = step_time(job);
  EXPECT_DOUBLE_EQ(slow.parts[Part::products], 1.5 * plain.parts[Part::products]);
  EXPECT_DOUBLE_EQ(slow.parts[Part::optimizer], plain.parts[Part::optimizer]);
  EXPECT_DOUBLE_EQ(slow.parts[Part::fixed], plain.parts[Part::fixed]);
}

}  // namespace
}  // namespace twinpod::plan
