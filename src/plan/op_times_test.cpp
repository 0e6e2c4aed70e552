#include "plan/op_times.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "plan/estimate.hpp"
#include "plan/layer_time.hpp"
#include "plan/op_times_parts.hpp"
#include "plan/op_times_reference.hpp"
#include "plan/step_pieces.hpp"
#include "plan/test_job.hpp"
#include "program/generate.hpp"

namespace twinpod::plan {
namespace {

using program::Lane;
using program::Op;
using program::OpKind;
using program::Phase;
using program::Program;
using spec::Schedule;

struct Timed {
  Program program;
  sim::StepTimes times;
};

Timed timed(const spec::Job& job) {
  Result<Program> program = program::generate(job);
  EXPECT_TRUE(program) << program.error().message;
  sim::StepTimes times = op_times(job, *program);
  return {std::move(*program), std::move(times)};
}

double reference_s(const spec::Job& job) {
  const Timed t = timed(job);
  const ReferenceRun run = run_reference(t.program, t.times);
  EXPECT_TRUE(run.done);
  return run.total_s;
}

// Relative to the closed form.
double difference(const spec::Job& job) { return reference_s(job) / step_time(job).total_s - 1; }

// Seconds of one layer's ops of a phase on a lane, in the first block that has them.
template <typename F>
double sum_of_layer(const Timed& t, Phase phase, Lane lane, F&& seconds) {
  double sum = 0;
  for (std::size_t b = 0; b < t.program.blocks.size() && sum <= 0; ++b) {
    const std::vector<Op>& ops = t.program.blocks[b].ops;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (ops[i].layer == 1 && ops[i].phase == phase && ops[i].lane == lane) sum += seconds(t.times.ops[b][i]);
    }
  }
  return sum;
}

double all_of(const sim::OpTime& time) { return time.seconds(); }
double shown_of(const sim::OpTime& time) { return time.exposed * time.seconds(); }

spec::Job tensor_job() {
  spec::Job job = gpt_job(64);
  job.layout.tp = 8;
  job.layout.sequence_parallel = true;
  job.layout.micro_batch = 4;
  return job;
}

PassTime layer_of(const spec::Job& job) {
  return layer_time(job, model::shard_of(job), model::LayerKind::dense, false);
}

TEST(OpTimes, WorkOfALayersOpsIsWhatTheKernelsOfTheClosedFormTake) {
  for (const bool fused : {true, false}) {
    spec::Job job = tensor_job();
    job.stack.fused_attention = fused;
    const Timed t = timed(job);
    const KernelTime kernels = layer_base(job, model::shard_of(job), model::LayerKind::dense, false).kernels;
    double forward = 0;
    double backward = 0;
    for (const program::Block& block : t.program.blocks) {
      if (block.phase == Phase::forward && forward > 0) continue;
      if (block.phase == Phase::backward && backward > 0) continue;
      for (const Op& op : block.ops) {
        if (op.kind != OpKind::compute || op.layer != 1) continue;
        const double seconds = work_s(job, t.program.works[static_cast<std::size_t>(op.work)]);
        (block.phase == Phase::forward ? forward : backward) += seconds;
      }
    }
    EXPECT_NEAR(forward / (kernels.products.forward + kernels.attention_forward + kernels.elements_forward), 1, 1e-9);
    EXPECT_NEAR(backward / (kernels.products.input_gradient + kernels.products.weight_gradient +
                            kernels.attention_backward + kernels.elements_backward),
                1, 1e-9);
  }
}

TEST(OpTimes, OfALayerAddUpToTheClosedFormsPass) {
  spec::Job job = tensor_job();
  job.stack.physics.pace = 1.25;
  const Timed t = timed(job);
  const PassTime layer = layer_of(job);
  const double tensor = layer.forward[Part::tensor];
  EXPECT_GT(tensor, 0);
  EXPECT_NEAR(sum_of_layer(t, Phase::forward, Lane::compute, all_of), 1.25 * (layer.forward.total() - tensor), 1e-12);
  EXPECT_NEAR(sum_of_layer(t, Phase::forward, Lane::tensor, shown_of), 1.25 * tensor, 1e-12);
  EXPECT_NEAR(sum_of_layer(t, Phase::backward, Lane::compute, all_of),
              1.25 * (layer.backward.total() - layer.backward[Part::tensor]), 1e-12);
}

TEST(OpTimes, ACollectiveTakesItsLaneForWhatIsHiddenToo) {
  spec::Job job = tensor_job();
  job.stack.physics.tp_hidden = 0.4;
  const Timed t = timed(job);
  const double all = sum_of_layer(t, Phase::forward, Lane::tensor, all_of);
  // A gather right behind a scatter has no computation to hide behind: those are cut.
  EXPECT_GT(all, layer_of(job).forward[Part::tensor]);
  EXPECT_LT(all, layer_of(job).forward[Part::tensor] / 0.6);
}

TEST(OpTimes, BytesMoveAtTheRateOfTheBus) {
  spec::Job job = tensor_job();
  job.layout.sequence_parallel = false;  // all-reduces: everything twice, but for the own eighth
  job.stack.physics.tp_hidden = 0;
  const Timed t = timed(job);
  const double up = job.cluster.scale_up_bytes_per_s * job.stack.physics.scale_up_efficiency;
  int seen = 0;
  for (std::size_t b = 0; b < t.program.blocks.size(); ++b) {
    const std::vector<Op>& ops = t.program.blocks[b].ops;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (ops[i].kind != OpKind::collective || ops[i].lane != Lane::tensor) continue;
      EXPECT_DOUBLE_EQ(t.times.ops[b][i].bytes_per_s, up);
      EXPECT_DOUBLE_EQ(t.times.ops[b][i].transfer_s, ops[i].bytes * 2 * 7 / 8 / up);
      EXPECT_GT(t.times.ops[b][i].latency_s, 0);
      ++seen;
    }
  }
  EXPECT_GT(seen, 0);
}

TEST(OpTimes, HalvesOfABackwardPassAreTheWhole) {
  spec::Job job = tensor_job();
  job.layout.pp = 4;
  job.layout.schedule = Schedule::zb_1p;
  const Timed t = timed(job);
  const PassTime layer = layer_of(job);
  const double weights = sum_of_layer(t, Phase::backward_weight, Lane::compute, all_of);
  EXPECT_NEAR(weights, layer.weight_s, 1e-12);
  const double input = sum_of_layer(t, Phase::backward_input, Lane::compute, all_of) +
                       sum_of_layer(t, Phase::backward_input, Lane::tensor, shown_of);
  EXPECT_NEAR(input, layer.backward.total() - layer.weight_s, 1e-12);
}

TEST(OpTimes, OnlyRecomputedLayersTakeTheTimeOfRecomputation) {
  spec::Job job = gpt_job(8);
  job.layout.recompute = spec::Recompute::full;
  job.layout.recompute_layers = 6;  // of 24
  const Timed t = timed(job);
  EXPECT_NEAR(sum_of_layer(t, Phase::recompute, Lane::compute, all_of), 4 * layer_of(job).backward[Part::recompute],
              1e-12);
  EXPECT_LT(std::abs(difference(job)), 1e-3);
}

TEST(OpTimes, ARingEndsAsMuchLaterThanItsAttentionAsTheClosedFormShows) {
  for (const auto exchange : {spec::ContextExchange::ring, spec::ContextExchange::gather}) {
    spec::Job job = gpt_job(64);
    job.layout.cp = 8;
    job.layout.context_exchange = exchange;
    job.training.sequence = 16384;
    EXPECT_GT(step_time(job).parts[Part::context], 0);
    EXPECT_LT(std::abs(difference(job)), 1e-3);
  }
}

TEST(OpTimes, GradientTrafficShowsAsTheClosedFormSays) {
  for (const int zero : {0, 1, 2}) {
    for (const double hidden : {0.05, 0.3, 0.9}) {
      for (const double rate : {1e9, 25e9}) {
        spec::Job job = gpt_job(512);
        job.training.global_batch = 1024;
        job.layout.zero = zero;
        job.stack.physics.dp_hidden = hidden;
        job.cluster.scale_out_bytes_per_s = rate;
        EXPECT_LT(std::abs(difference(job)), 1e-3) << zero << ' ' << hidden << ' ' << rate;
      }
    }
  }
}

TEST(OpTimes, ZeroThreeStretchesTheLongerOfTrafficAndComputation) {
  for (const double rate : {0.5e9, 5e9, 50e9}) {
    spec::Job job = gpt_job(64);
    job.layout.zero = 3;
    job.cluster.scale_out_bytes_per_s = rate;
    EXPECT_LT(std::abs(difference(job)), 0.02) << rate;
  }
}

TEST(OpTimes, ServersAnswerWhenTheyHaveUpdated) {
  for (const double hidden : {0.05, 0.6}) {
    spec::Job job = gpt_job(64);
    job.layout.servers = 4;
    job.stack.physics.dp_hidden = hidden;
    EXPECT_LT(std::abs(difference(job)), 1e-3) << hidden;
  }
}

TEST(OpTimes, UpdatesAndActivationsOnTheHostTakeWhatTheClosedFormSays) {
  for (const int zero : {0, 1, 2}) {
    spec::Job job = gpt_job(64);
    job.layout.zero = zero;
    job.layout.offload_optimizer = true;
    job.layout.offload_activations = zero == 1;
    EXPECT_LT(std::abs(difference(job)), 1e-3) << zero;
  }
}

TEST(OpTimes, InputThatIsSlowerThanTheStepStandsAtItsEnd) {
  spec::Job job = gpt_job(64);
  const double before = timed(job).times.tail_s;
  job.cluster.storage_read_bytes_per_s = 1e5;
  EXPECT_GT(timed(job).times.tail_s, before + 1);
  EXPECT_LT(std::abs(difference(job)), 1e-3);
}

// What the closed form says when a pipeline fills and drains through its own stages: all of them once, less the slowest
// that is counted with the micro-batches. It has the mean of all for each instead.
double exact_fill_s(const spec::Job& job) {
  const ShardTimes shard = shard_times(job);
  const PassTimes pass = pass_times(job, shard);
  const StageShares stages = stage_shares(job);
  const StepSum sum = step_sum(job, shard, pass, stages);
  double all = 0;
  for (const StageShare& stage : stages) {
    for (std::size_t k = 0; k < kNumPieces; ++k)
      all += stage.stages * stage.pieces[k] * (pass.sums[k].forward + pass.sums[k].backward);
  }
  const double mean = all / job.layout.pp;
  return sum.total_s - job.stack.physics.pace * (sum.slowest_s - mean) / job.layout.virtual_stages;
}

spec::Job pipeline_job(Schedule schedule, int tp, int pp) {
  spec::Job job = gpt_job(64);
  job.layout.tp = tp;
  job.layout.pp = pp;
  job.layout.schedule = schedule;
  job.layout.virtual_stages = schedule == Schedule::interleaved ? 3 : 1;
  return job;
}

TEST(OpTimes, APipelineComesToTheClosedFormThatFillsThroughItsOwnStages) {
  for (const int pp : {2, 4, 8}) {
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b}) {
      const spec::Job job = pipeline_job(schedule, 1, pp);
      EXPECT_NEAR(reference_s(job) / exact_fill_s(job), 1, 1e-3) << static_cast<int>(schedule) << " pp " << pp;
    }
    const spec::Job chunks = pipeline_job(Schedule::interleaved, 1, pp);
    EXPECT_NEAR(reference_s(chunks) / exact_fill_s(chunks), 1, 5e-3) << pp;
  }
}

// The last collective of a pass has no op of its own pass behind it, so the next one begins beside it: a little shorter
// than the closed form, most where a pass is one layer.
TEST(OpTimes, APipelineWithTensorParallelismComesNearTheClosedForm) {
  for (const int pp : {2, 4, 8}) {
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved}) {
      for (const int zero : {0, 1}) {
        spec::Job job = pipeline_job(schedule, 2, pp);
        job.layout.zero = zero;
        const double ratio = reference_s(job) / exact_fill_s(job);
        EXPECT_LT(ratio, 1.001) << static_cast<int>(schedule) << " pp " << pp << " zero " << zero;
        EXPECT_GT(ratio, 0.97) << static_cast<int>(schedule) << " pp " << pp << " zero " << zero;
      }
    }
  }
}

TEST(OpTimes, AlikeStagesOfAZeroBubbleScheduleComeToTheClosedForm) {
  for (const int pp : {2, 4, 8}) {
    spec::Job job = gpt_job(64);
    job.layout.pp = pp;
    job.layout.schedule = Schedule::zb_1p;
    job.model.vocab = 128;  // embedding and head weigh nothing
    job.stack.physics.launch_head_s = 0;
    EXPECT_LT(std::abs(difference(job)), 0.02) << pp;
  }
}

TEST(OpTimes, ABubbleThatIsLongerThanItsScheduleStandsAtTheEnd) {
  spec::Job job = pipeline_job(Schedule::one_f_one_b, 1, 4);
  job.stack.physics.growth = 0;  // nobody waits longer for it
  const double plain = timed(job).times.tail_s;
  const double bubble = step_time(job).parts[Part::bubble];
  job.stack.physics.bubble_factor = 1.2;
  const double longer = step_time(job).parts[Part::bubble] - bubble;
  EXPECT_GT(longer, 0);
  EXPECT_NEAR(timed(job).times.tail_s - plain, longer, 1e-9);
}

// Two micro-batches side by side: their exchanges overlap in the Program, and show as the closed form says.
TEST(OpTimes, APairTakesWhatTheClosedFormHasForBothPasses) {
  spec::Job job = mixture_job(64);
  job.layout.pp = 4;
  job.layout.ep = 16;
  job.layout.schedule = Schedule::dualpipe;
  job.stack.physics.p2p_hidden = 1;
  const Timed t = timed(job);
  const PassTimes pass = pass_times(job, shard_times(job));
  const PassSum& layer = pass.sums[layer_kind(true, false)];
  int pairs = 0;
  for (std::size_t b = 0; b < t.program.blocks.size(); ++b) {
    const program::Block& block = t.program.blocks[b];
    if (!block.pair) continue;
    double expected = 0;
    for (const int h : {0, 1}) {
      const program::Shape& shape = t.program.shapes[static_cast<std::size_t>(block.shapes[h])];
      const auto seconds = [&](const PassSum& sum) { return h == 0 ? sum.forward : sum.backward; };
      expected += static_cast<double>(shape.layers.size()) * seconds(layer);
      if (shape.embedding) expected += seconds(pass.sums[kEmbedding]);
      if (shape.head) expected += seconds(pass.sums[kHead]);
    }
    EXPECT_NEAR(run_blocks({{&block, &t.times.ops[b]}}).chain_s / expected, 1, 1e-3) << b;
    ++pairs;
  }
  EXPECT_GT(pairs, 0);
}

TEST(OpTimes, AStageWaitsForWhatIsNotHiddenOfATransfer) {
  spec::Job job = gpt_job(8);
  job.layout.pp = 4;
  job.cluster.scale_up_domain = 1;
  job.cluster.scale_out_bytes_per_s = 2e9;
  job.stack.physics.p2p_hidden = 0.9;
  const double hidden = reference_s(job);
  job.stack.physics.p2p_hidden = 0.1;
  const double shown = reference_s(job);
  const double closed = step_time(job).parts[Part::pipeline];
  EXPECT_GT(closed, 0.05 * step_time(job).total_s);
  EXPECT_NEAR((shown - hidden) / (closed * 8 / 9), 1, 0.15);
}

TEST(OpTimes, OfRandomJobsWithoutAPipelineComeToTheClosedForm) {
  int seen = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    const spec::Job job = random_job(rng);
    if (job.layout.pp > 1) continue;
    ++seen;
    EXPECT_LT(std::abs(difference(job)), 0.03) << seed;
  }
  EXPECT_GT(seen, 100);
}

TEST(OpTimes, OfRandomJobsAreFiniteAndTheirProgramsEnd) {
  for (std::uint64_t seed = 1000; seed < 1200; ++seed) {
    Rng rng(seed);
    const Timed t = timed(random_job(rng));
    ASSERT_EQ(t.times.ops.size(), t.program.blocks.size());
    for (std::size_t b = 0; b < t.times.ops.size(); ++b) {
      ASSERT_EQ(t.times.ops[b].size(), t.program.blocks[b].ops.size());
      for (const sim::OpTime& time : t.times.ops[b]) {
        EXPECT_TRUE(std::isfinite(time.seconds())) << seed;
        EXPECT_GE(std::min(time.latency_s, time.transfer_s), -1e-12) << seed;
        EXPECT_TRUE(time.exposed >= 0 && time.exposed <= 1) << seed << ' ' << time.exposed;
      }
    }
    EXPECT_TRUE(run_reference(t.program, t.times).done) << seed;
  }
}

// The executor itself: passes of one and two seconds in a pipeline of p stages take (m + p - 1) (1 + 2).
TEST(Reference, RunsOneForwardOneBackwardInItsKnownTime) {
  for (const int pp : {1, 2, 4}) {
    spec::Job job = gpt_job(8);
    job.layout.pp = pp;
    job.training.global_batch = 8.0 * spec::data_parallel(job);
    Timed t = timed(job);
    t.times.tail_s = 0;
    for (std::size_t b = 0; b < t.times.ops.size(); ++b) {
      const program::Block& block = t.program.blocks[b];
      bool first = block.phase != Phase::update;
      for (std::size_t i = 0; i < block.ops.size(); ++i) {
        t.times.ops[b][i] = {};
        if (!first || block.ops[i].kind != OpKind::compute) continue;
        t.times.ops[b][i].latency_s = block.phase == Phase::forward ? 1 : 2;
        first = false;
      }
    }
    EXPECT_DOUBLE_EQ(run_reference(t.program, t.times).total_s, 3 * (8 + pp - 1)) << pp;
  }
}

TEST(Reference, SaysWhenKindsWaitForEachOtherForEver) {
  spec::Job job = gpt_job(8);
  job.layout.pp = 2;
  Timed t = timed(job);
  std::vector<program::Instance>& list = t.program.kinds[0].instances;
  std::swap(list[1], list[3]);  // a backward pass before anything was sent
  EXPECT_FALSE(run_reference(t.program, t.times).done);
}

}  // namespace
}  // namespace twinpod::plan
