#include "program/generate.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>

#include "program/check.hpp"
#include "program/order.hpp"
#include "program/schedule.hpp"
#include "program/state.hpp"
#include "program/test_job.hpp"
#include "program/volume.hpp"

namespace twinpod::program {
namespace {

using collective::Verb;
using layout::Group;
using spec::Schedule;

Program generated(const spec::Job& job) {
  Result<Program> program = generate(job);
  EXPECT_TRUE(program) << program.error().message;
  const Result<void> sound = check(*program);
  EXPECT_TRUE(sound) << sound.error().message;
  return std::move(*program);
}

// Sum over the ops of a kind for which `f` says a number.
double sum_of(const Program& program, int kind, const std::function<double(const Op&)>& f) {
  double sum = 0;
  for_each_op(program, kind, [&](const PlacedOp& at) { sum += f(*at.op); });
  return sum;
}

double collective_bytes(const Program& program, int kind, Verb verb, Group group) {
  return sum_of(program, kind, [&](const Op& op) {
    return op.kind == OpKind::collective && op.verb == verb && op.group == group ? op.bytes : 0;
  });
}

double count_of(const Program& program, int kind, OpKind what, Lane lane) {
  return sum_of(program, kind, [&](const Op& op) { return op.kind == what && op.lane == lane ? 1.0 : 0.0; });
}

TEST(Generate, OneRankDoesEveryMicroBatchAndUpdates) {
  const Program program = generated(gpt_job(1));
  ASSERT_EQ(program.kinds.size(), 1U);
  EXPECT_EQ(program.micro_batches, 8);
  EXPECT_EQ(program.kinds[0].instances.size(), 2U + 2 * 8);  // start, passes, finish
  EXPECT_EQ(count_of(program, 0, OpKind::collective, Lane::data), 0);
  EXPECT_DOUBLE_EQ(totals(program, 0).parameters_updated, program.kinds[0].parameters);
}

TEST(Generate, AStepHasThreeTimesItsForwardFlop) {
  const spec::Job job = gpt_job(1);
  const Program program = generated(job);
  const double forward = sum_of(program, 0, [&](const Op& op) {
    return op.work >= 0 && op.phase == Phase::forward ? program.works[static_cast<std::size_t>(op.work)].flop() : 0;
  });
  EXPECT_NEAR(totals(program, 0).flop, 3 * forward, 1e-9 * forward);
  spec::Job again = job;
  again.layout.recompute = spec::Recompute::full;
  EXPECT_GT(totals(generated(again), 0).flop, 3.8 * forward);
}

// Korthikanti 2022: two all-reduces in each direction, or with sequence parallelism as many pairs of the same bytes.
TEST(Generate, TensorParallelLayersReduceTwiceInEachDirection) {
  spec::Job job = gpt_job(4, 4);
  const double bytes = 1024.0 * 1024 * 2;
  const Program plain = generated(job);
  EXPECT_DOUBLE_EQ(collective_bytes(plain, 0, Verb::all_reduce, Group::tensor), 8 * (16 * 4 + 1) * bytes);
  job.layout.sequence_parallel = true;
  const Program split = generated(job);
  EXPECT_DOUBLE_EQ(collective_bytes(split, 0, Verb::all_gather, Group::tensor), 8 * 16 * 4 * bytes);
  EXPECT_DOUBLE_EQ(collective_bytes(split, 0, Verb::reduce_scatter, Group::tensor), 8 * 16 * 4 * bytes);
}

TEST(Generate, ASegmentEndsWhereCommunicationStarts) {
  const Program program = generated(gpt_job(4, 4));
  const Block& forward = program.blocks[static_cast<std::size_t>(program.kinds[0].instances[1].block)];
  std::vector<Segment> computed;
  for (const Op& op : forward.ops) {
    if (op.layer == 0 && op.kind == OpKind::compute) computed.push_back(op.segment);
  }
  EXPECT_EQ(computed, (std::vector{Segment::attention, Segment::mlp}));
}

TEST(Generate, StagesSendEachMicroBatchOnceEachWay) {
  const spec::Job job = gpt_job(8, 2, 4);
  const Program program = generated(job);
  const double bytes = transfer_bytes(job, model::shard_of(job));
  for (int stage = 0; stage < 4; ++stage) {
    const double neighbours = stage == 0 || stage == 3 ? 1 : 2;
    EXPECT_EQ(count_of(program, stage, OpKind::send, Lane::pipe), 8 * neighbours);
    EXPECT_EQ(count_of(program, stage, OpKind::recv, Lane::pipe), 8 * neighbours);
    EXPECT_DOUBLE_EQ(totals(program, stage).bytes[static_cast<std::size_t>(Lane::pipe)], 8 * neighbours * bytes);
  }
}

TEST(Generate, GradientBucketsAddUpToAllOfThem) {
  for (const int zero : {0, 1, 2}) {
    spec::Job job = gpt_job(8);
    job.layout.zero = zero;
    job.stack.memory.bucket_bytes = 64e6;
    const Program program = generated(job);
    const double parameters = program.kinds[0].parameters;
    const Verb verb = zero == 0 ? Verb::all_reduce : Verb::reduce_scatter;
    EXPECT_NEAR(collective_bytes(program, 0, verb, Group::data), 4 * parameters, 1);
    EXPECT_GT(count_of(program, 0, OpKind::collective, Lane::data), 10) << "many buckets";
    const double gathered = zero > 0 ? 2 * parameters : 0;
    EXPECT_NEAR(collective_bytes(program, 0, Verb::all_gather, Group::data), gathered, 1);
  }
}

// A bucket is reduced as soon as its layers are done, not at the end of the step: in the block of the last micro-batch.
TEST(Generate, BucketsRunBesideTheLastBackwardPass) {
  spec::Job job = gpt_job(8);
  job.stack.memory.bucket_bytes = 64e6;
  const Program program = generated(job);
  const Instance& last = program.kinds[0].instances[program.kinds[0].instances.size() - 2];
  const Block& block = program.blocks[static_cast<std::size_t>(last.block)];
  EXPECT_EQ(last.micro_batch[0], 7);
  bool before_the_end = false;
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    const bool reduces = block.ops[i].lane == Lane::data && block.ops[i].verb == Verb::all_reduce;
    before_the_end = before_the_end || (reduces && i + 10 < block.ops.size());
  }
  EXPECT_TRUE(before_the_end);
  spec::Job waits = job;
  waits.layout.overlap = false;
  const Program late = generated(waits);
  const Block& tail = late.blocks[static_cast<std::size_t>(late.kinds[0].instances.back().block)];
  EXPECT_EQ(tail.ops.front().verb, Verb::all_reduce);
  EXPECT_EQ(tail.ops.front().group, Group::data);
}

TEST(Generate, Zero3GathersEachLayerForwardAndBackwardAndScattersIt) {
  spec::Job job = gpt_job(8);
  job.layout.zero = 3;
  const Program program = generated(job);
  const model::Shard shard = model::shard_of(job);
  const double layers = 16 * layer_parameters(job, shard, model::LayerKind::dense).dense;
  const double head = 32000.0 * 1024;
  const double table = embedding_parameters(job).dense;
  EXPECT_NEAR(collective_bytes(program, 0, Verb::all_gather, Group::shard), 8 * 2 * (2 * (layers + head) + table), 8);
  EXPECT_NEAR(collective_bytes(program, 0, Verb::reduce_scatter, Group::shard), 8 * 4 * (layers + head + table), 8);
  job.stack.reshard_after_forward = false;  // gathered once for all micro-batches
  const Program once = generated(job);
  EXPECT_NEAR(collective_bytes(once, 0, Verb::all_gather, Group::shard), 2 * (layers + head + table), 8);
  EXPECT_NEAR(collective_bytes(once, 0, Verb::reduce_scatter, Group::shard), 4 * (layers + head + table), 8);
}

TEST(Generate, RingAttentionSendsKeysAndValuesRoundByRound) {
  spec::Job job = gpt_job(4);
  job.layout.cp = 4;
  const Program ring = generated(job);
  // Of one layer and micro-batch: keys and values of 256 tokens, three times forward and six times backward.
  const double bytes = 256.0 * 2 * 1024 * 2;
  EXPECT_DOUBLE_EQ(totals(ring, 0).bytes[static_cast<std::size_t>(Lane::tensor)], ring.micro_batches * 16 * 9 * bytes);
  spec::Job gather = job;
  gather.layout.context_exchange = spec::ContextExchange::gather;
  const Program gathered = generated(gather);
  EXPECT_DOUBLE_EQ(collective_bytes(gathered, 0, Verb::all_gather, Group::context),
                   ring.micro_batches * 16 * 8 * bytes);
  EXPECT_DOUBLE_EQ(collective_bytes(gathered, 0, Verb::reduce_scatter, Group::context),
                   ring.micro_batches * 16 * 4 * bytes);
  EXPECT_NEAR(totals(ring, 0).flop, totals(gathered, 0).flop, 1e-6 * totals(ring, 0).flop);
}

TEST(Generate, ExpertsExchangeTokensTwiceInEachDirection) {
  const spec::Job job = mixture_job(8, 8);
  const Program program = generated(job);
  const double calls = sum_of(program, 0, [](const Op& op) { return op.verb == Verb::all_to_all ? 1.0 : 0.0; });
  EXPECT_EQ(calls, program.micro_batches * 16 * 4);
  // Every token goes to two experts, of which seven of eight are elsewhere.
  EXPECT_DOUBLE_EQ(collective_bytes(program, 0, Verb::all_to_all, Group::expert),
                   calls * 1024 * 1024 * 2 * 2 * 7.0 / 8);
}

TEST(Generate, ServersGetASumFromEachDomainAndGiveParametersBack) {
  spec::Job job = gpt_job(32);
  job.layout.servers = 2;
  const Program program = generated(job);
  const auto bytes = [&](OpKind kind) {
    return sum_of(program, 0, [&](const Op& op) { return op.kind == kind ? op.bytes : 0; });
  };
  const ServerVolumes volumes = server_volumes(job, {program.kinds[0].parameters, 0});
  EXPECT_NEAR(bytes(OpKind::push) * 32 / 2, volumes.push_bytes, 1);
  EXPECT_NEAR(bytes(OpKind::pull) * 32 / 2, volumes.pull_bytes, 1);
  EXPECT_EQ(totals(program, 0).parameters_updated, 0);  // the servers do it
  EXPECT_DOUBLE_EQ(program.servers.parameters, volumes.parameters);
}

TEST(Generate, TiedEndsOfAPipelineAddUpTheirTable) {
  spec::Job job = gpt_job(8, 1, 4);
  job.model.tied_embeddings = true;
  const Program program = generated(job);
  for (const int stage : {0, 3})
    EXPECT_DOUBLE_EQ(collective_bytes(program, stage, Verb::all_reduce, Group::ends), 32000.0 * 1024 * 4);
  EXPECT_DOUBLE_EQ(collective_bytes(program, 1, Verb::all_reduce, Group::ends), 0);
  // A V brings both ends to the same stage, which then needs no copy.
  job.layout.schedule = Schedule::zb_v;
  const Program folded = generated(job);
  EXPECT_DOUBLE_EQ(collective_bytes(folded, 0, Verb::all_reduce, Group::ends), 0);
}

TEST(Generate, OffloadedStateTravels) {
  spec::Job job = gpt_job(8);
  job.layout.offload_optimizer = true;
  const Program once = generated(job);
  const auto written = [&](const Program& program) {
    return sum_of(program, 0, [](const Op& op) { return op.kind == OpKind::write ? op.bytes : 0; });
  };
  EXPECT_NEAR(written(once), 4 * once.kinds[0].parameters, 1);
  job.layout.zero = 2;
  const Program sharded = generated(job);
  EXPECT_NEAR(written(sharded), 4 * sharded.kinds[0].parameters / 8 * 8,
              1);  // an eighth, after each of 8 micro-batches
}

TEST(Generate, StagesWithAlikeLayersShareTheirBlocks) {
  const Program program = generated(gpt_job(8, 1, 8));
  EXPECT_LE(program.blocks.size(), 12U);
  EXPECT_EQ(program.kinds[2].instances.back().block, program.kinds[3].instances.back().block);
}

// The same job for every schedule: the passes, and with them FLOP and bytes, are the same in another order.
TEST(Generate, SchedulesDifferInOrderOnly) {
  spec::Job job = gpt_job(8, 2, 4);
  const auto sums = [](const Program& program) {
    std::array<double, 3> sum{};
    for (int kind = 0; kind < 4; ++kind) {
      const Totals one = totals(program, kind);
      sum[0] += one.flop;
      sum[1] += one.bytes[static_cast<std::size_t>(Lane::tensor)];
      sum[2] += one.parameters_updated;
    }
    return sum;
  };
  const std::array<double, 3> base = sums(generated(job));
  for (const Schedule schedule : {Schedule::gpipe, Schedule::interleaved, Schedule::zb_1p, Schedule::zb_2p,
                                  Schedule::zb_v, Schedule::dualpipe, Schedule::dualpipe_v}) {
    job.layout.schedule = schedule;
    job.layout.virtual_stages = schedule == Schedule::interleaved ? 2 : 1;
    const std::array<double, 3> other = sums(generated(job));
    EXPECT_NEAR(other[0], base[0], 1e-9 * base[0]) << spec::name_of(schedule);
    EXPECT_NEAR(other[1], base[1], 1e-9 * base[1]) << spec::name_of(schedule);
    const double copies = schedule == Schedule::dualpipe ? 2 : 1;
    EXPECT_NEAR(other[2], copies * base[2], 1e-9 * base[2]) << spec::name_of(schedule);
  }
}

TEST(Generate, PairsOfDualPipeRunTheirSegmentsInTurn) {
  spec::Job job = gpt_job(8, 2, 4);
  job.layout.schedule = Schedule::dualpipe;
  const Program program = generated(job);
  const auto pair = std::find_if(program.blocks.begin(), program.blocks.end(), [](const Block& b) { return b.pair; });
  ASSERT_NE(pair, program.blocks.end());
  std::vector<int> halves;
  for (const Op& op : pair->ops) {
    if (op.kind == OpKind::compute) halves.push_back(op.half);
  }
  ASSERT_GE(halves.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(halves[i], static_cast<int>(i % 2));
}

TEST(Generate, ExpandsToEveryRankWithItsPeersAndGroups) {
  const Program program = generated(gpt_job(16, 2, 4));
  const std::vector<std::vector<RankOp>> ranks = expand(program);
  ASSERT_EQ(ranks.size(), 16U);
  double sends = 0;
  for (int rank = 0; rank < 16; ++rank) {
    for (const RankOp& one : ranks[static_cast<std::size_t>(rank)]) {
      if (one.op.op->kind == OpKind::send) {
        ++sends;
        EXPECT_EQ(std::abs(one.peer - rank), 4);
      }
      if (one.op.op->kind == OpKind::collective) {
        EXPECT_NE(std::find(one.members.begin(), one.members.end(), rank), one.members.end());
      }
    }
  }
  EXPECT_EQ(sends, 16.0 / 4 * 3 * 2 * 8);
}

TEST(Generate, RefusesAJobThatTheLayoutCheckRefuses) {
  spec::Job job = gpt_job(8, 3);
  const Result<Program> program = generate(job);
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().kind, ErrorKind::infeasible);
  job = gpt_job(8, 1, 4);
  job.layout.schedule = Schedule::custom;
  ASSERT_FALSE(generate(job));
  job.schedule_file = "/nonexistent.csv";
  const Result<Program> missing = generate(job);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::input);
}

}  // namespace
}  // namespace twinpod::program
