#include "sim/checkpoint.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "cluster/topology.hpp"
#include "core/rng.hpp"
#include "program/generate.hpp"
#include "program/test_job.hpp"
#include "sim/checkpoint_tiers.hpp"
#include "spec/catalog.hpp"
#include "spec/node.hpp"
#include "spec/read.hpp"

namespace twinpod::sim {
namespace {

using program::OpKind;
using program::Program;
using spec::TierKind;

// Made up: 100 TFLOP/s, messages at `bytes_per_s`, and 1 ms that no op explains.
StepTimes simple_times(const Program& program, double bytes_per_s = 20e9) {
  StepTimes times;
  for (const program::Block& block : program.blocks) {
    std::vector<OpTime>& ops = times.ops.emplace_back();
    for (const program::Op& op : block.ops) {
      OpTime time;
      if (op.kind == OpKind::compute) {
        const program::Work& work = program.works[static_cast<std::size_t>(op.work)];
        time.latency_s = 1e-5 + op.share * (work.flop() / 1e14 + work.parameters * 1e-11);
      } else if (op.kind == OpKind::collective || op.kind == OpKind::send) {
        time = {1e-5, op.bytes / bytes_per_s, bytes_per_s, 1};
      }
      ops.push_back(time);
    }
  }
  times.tail_s = 1e-3;
  return times;
}

// Nodes of eight; 4 GB/s of disk for each, 10 GB/s of shared storage for all.
spec::Job saving_job(int devices, int tp = 1, int pp = 1) {
  spec::Job job = program::gpt_job(devices, tp, pp);
  job.cluster.scale_out_bytes_per_s = 25e9;
  job.cluster.scale_out_latency_s = 0;
  job.cluster.storage.local_write_bytes_per_s = 4e9;
  job.cluster.storage_write_bytes_per_s = 10e9;
  job.cluster.storage.object_write_bytes_per_s = 2e9;
  job.cluster.storage.node_write_bytes_per_s = 40e9;
  job.checkpoint.every = 100;
  job.checkpoint.store = {{TierKind::shared, "/nfs"}};
  return job;
}

cluster::Graph graph_of(int devices) {
  const Result<spec::Node> root = spec::parse_yaml(
      "{name: tree, node: dgx-a100, devices: " + std::to_string(devices) + ", topology: {fabric: fat_tree}}", "c.yaml");
  return cluster::build_graph(spec::read_cluster(*root, "c.yaml", spec::Catalog(TWINPOD_CATALOG_DIR)).value()).value();
}

CheckpointRun checkpoint_of(const spec::Job& job, const cluster::Graph* graph = nullptr, double bytes_per_s = 20e9) {
  const Program program = program::generate(job).value();
  const StepTimes times = simple_times(program, bytes_per_s);
  Result<CheckpointRun> run = run_checkpoints({job, program, times, graph});
  EXPECT_TRUE(run.has_value()) << to_string(run.error());
  return run ? std::move(*run) : CheckpointRun{};
}

Error refusal(const spec::Job& job) {
  const Program program = program::generate(job).value();
  const StepTimes times = simple_times(program);
  const Result<CheckpointRun> run = run_checkpoints({job, program, times});
  EXPECT_FALSE(run.has_value());
  return run ? Error{} : run.error();
}

double step_of(const spec::Job& job) {
  const Program program = program::generate(job).value();
  const StepTimes times = simple_times(program);
  return run_step({program, times}).value().step_s;
}

TEST(CheckpointRun, StepsWithoutOneTakeAsLongAsAlways) {
  for (const auto schedule : {spec::Schedule::gpipe, spec::Schedule::one_f_one_b, spec::Schedule::zb_1p}) {
    for (const int zero : {0, 1, 3}) {
      spec::Job job = saving_job(8, 1, 4);
      job.layout.schedule = schedule;
      job.layout.zero = zero;
      job.stack.physics.dp_hidden = zero == 1 ? 0.6 : 0;
      EXPECT_NEAR(checkpoint_of(job).step_s / step_of(job), 1, 1e-9);
    }
  }
}

TEST(CheckpointRun, SnapshotStallsForItsBytesOverTheHostLink) {
  const spec::Job job = saving_job(16);
  const CheckpointRun run = checkpoint_of(job);
  EXPECT_NEAR(run.stall_s, run.bytes / 16 / 30e9, 1e-9);
  EXPECT_NEAR(run.snapshot_s, run.stall_s, 1e-9);
  EXPECT_NEAR(run.tiers[0].seconds, run.stall_s, 1e-9);
}

// The last stage holds the most, but begins late.
TEST(CheckpointRun, StallIsWhatThePipelineDoesNotHide) {
  spec::Job job = saving_job(4, 1, 4);
  job.model.vocab = 256000;
  const CheckpointRun run = checkpoint_of(job);
  EXPECT_LT(run.stall_s, run.snapshot_s * (1 - 1e-6) + 1e-12);
  EXPECT_GT(run.stall_s, 0);
}

// As our trainer does it: beside the passes of the next step, and its update waits.
TEST(CheckpointRun, SnapshotBesideAStepShowsWhenItIsLonger) {
  spec::Job job = saving_job(16);
  job.stack.executed = true;
  const CheckpointRun hidden = checkpoint_of(job);
  EXPECT_NEAR(hidden.stall_s, 0, 1e-9);
  EXPECT_GT(hidden.snapshot_s, 0);
  job.cluster.device.host_bytes_per_s = 1e8;
  const CheckpointRun shown = checkpoint_of(job);
  EXPECT_LT(shown.stall_s, shown.snapshot_s);
  EXPECT_GT(shown.stall_s, shown.snapshot_s - shown.step_s);
}

TEST(CheckpointRun, DrainsAtTheRateOfWhatIsFull) {
  spec::Job job = saving_job(32);
  job.checkpoint.store = {{TierKind::local, "/d"}, {TierKind::shared, "/nfs"}, {TierKind::object, "s3"}};
  const CheckpointRun run = checkpoint_of(job);
  ASSERT_EQ(run.tiers.size(), 4U);
  EXPECT_NEAR(run.tiers[1].seconds, run.bytes / 4 / 4e9, 1e-6) << "four nodes, each to its own disks";
  EXPECT_NEAR(run.tiers[2].seconds, run.bytes / 10e9, 1e-6) << "all to one file system";
  EXPECT_NEAR(run.tiers[3].seconds, run.bytes / 2e9, 1e-6);
  EXPECT_NEAR(run.drain_s, run.tiers[1].seconds + run.tiers[2].seconds + run.tiers[3].seconds, 1e-6);
  EXPECT_NEAR(run.tiers[1].peak_bytes_per_s / 16e9, 1, 1e-6);
  EXPECT_NEAR(run.tiers[2].peak_bytes_per_s / 10e9, 1, 1e-6);
  EXPECT_NEAR(run.tiers[2].mean_bytes_per_s, run.bytes / (100 * run.step_s + run.stall_s + run.wait_s), 1);
  EXPECT_EQ(run.slowed_s, 0) << "nothing of it is on the training's network";
  job.cluster.storage.node_write_bytes_per_s = 1e9;
  EXPECT_NEAR(checkpoint_of(job).tiers[2].seconds, run.bytes / 4 / 1e9, 1e-6) << "a node's way to storage";
}

// Half a node has the disks of a whole one.
TEST(CheckpointRun, NodesThatSaveLessEndSooner) {
  spec::Job job = saving_job(12);
  job.checkpoint.store = {{TierKind::local, "/d"}};
  const CheckpointRun run = checkpoint_of(job);
  EXPECT_NEAR(run.tiers[1].seconds, run.bytes * 8 / 12 / 4e9, 1e-6);
  EXPECT_NEAR(run.tiers[1].peak_bytes_per_s / 8e9, 1, 1e-6);
}

TEST(CheckpointRun, ALongDrainIsMultiplied) {
  spec::Job job = saving_job(16);
  job.cluster.storage_write_bytes_per_s = 1e6;
  const CheckpointRun run = checkpoint_of(job);
  EXPECT_LT(run.drawn_share, 0.1);
  EXPECT_LE(run.steps.num_steps, kMostSteps);
  EXPECT_NEAR(run.drain_s / (run.bytes / 1e6), 1, 1e-6);
  EXPECT_NEAR(run.tiers[1].peak_bytes_per_s / 1e6, 1, 1e-6);
}

TEST(CheckpointRun, NextOneWaitsWhenTheDrainIsLonger) {
  spec::Job job = saving_job(16);
  job.cluster.storage_write_bytes_per_s = 1e9;
  const CheckpointRun far = checkpoint_of(job);
  ASSERT_GT(far.shortest_every, 2);
  EXPECT_EQ(far.shortest_every, static_cast<int>(std::ceil(far.drain_s / far.step_s)));
  EXPECT_EQ(far.wait_s, 0);
  job.checkpoint.every = far.shortest_every;
  EXPECT_EQ(checkpoint_of(job).wait_s, 0);
  job.checkpoint.every = far.shortest_every - 1;
  const CheckpointRun near = checkpoint_of(job);
  EXPECT_NEAR(near.wait_s, near.drain_s - job.checkpoint.every * near.step_s, 1e-6);
  job.checkpoint.store[0].every = 2;
  EXPECT_NEAR(checkpoint_of(job).wait_s, near.wait_s / 2, 1e-6) << "each second one stays in memory";
}

// The same, with both checkpoints in the Program.
TEST(CheckpointRun, SecondSnapshotBeginsWhenTheFirstDrainHasEnded) {
  spec::Job job = saving_job(16);
  job.cluster.storage_write_bytes_per_s = 1e9;
  const CheckpointRun one = checkpoint_of(job);
  const Program program = program::generate(job).value();
  const program::CheckpointBytes bytes = program::checkpoint_bytes(job, program);
  const CheckpointTiers tiers = checkpoint_tiers(job, bytes).value();
  for (const int every : {one.shortest_every, one.shortest_every - 1}) {
    const program::Steps steps =
        program::with_checkpoints(program, bytes, {.steps = every + 1, .every = every, .tiers = tiers.drains});
    const StepTimes times = checkpoint_times(job, tiers, steps, simple_times(program), 1);
    StepInput input{steps.program, times};
    input.storage = &tiers.links;
    const StepRun run = run_step(input).value();
    const std::vector<std::uint32_t> first = first_ops(steps.program, 0);
    const auto at = [&](int instance, int op) {
      return run.kinds[0].ops[first[static_cast<std::size_t>(instance)] + static_cast<std::size_t>(op)];
    };
    const double step_end = at(steps.boundary(0, every), 0).end_s;
    const double drain_end = at(steps.drain(0, 0), 0).end_s;
    EXPECT_NEAR(at(steps.snapshot(0, 1), 0).start_s, std::max(step_end, drain_end), 1e-9);
    EXPECT_EQ(drain_end > step_end + 1e-9, every < one.shortest_every);
  }
}

// Stages are on nodes of their own, and what they send leaves through the NICs that the drain uses.
TEST(CheckpointRun, ReplicasForAPeerAreInTheWayOfTraining) {
  spec::Job job = saving_job(32, 1, 4);
  job.checkpoint.store = {{TierKind::peer, ""}};
  const cluster::Graph graph = graph_of(32);
  const CheckpointRun busy = checkpoint_of(job, &graph, 24e9);
  EXPECT_GT(busy.slowed_s, 0);
  EXPECT_GT(busy.slowest_step_s, busy.step_s);
  const CheckpointRun alone = checkpoint_of(job, nullptr, 24e9);
  EXPECT_EQ(alone.slowed_s, 0);
  EXPECT_GT(busy.drain_s, alone.drain_s * (1 - 1e-9));
}

TEST(CheckpointRun, StorageOnTheFabricIsInTheWayOfTraining) {
  spec::Job job = saving_job(32, 1, 4);
  job.cluster.storage_write_bytes_per_s = 1e12;
  job.cluster.storage.node_write_bytes_per_s = 0;
  const cluster::Graph graph = graph_of(32);
  EXPECT_EQ(checkpoint_of(job, &graph, 24e9).slowed_s, 0);
  job.cluster.storage.on_fabric = true;
  EXPECT_GT(checkpoint_of(job, &graph, 24e9).slowed_s, 0);
}

TEST(CheckpointRun, TiersThatAreNotThereAreNamed) {
  spec::Job job = saving_job(8);
  job.checkpoint.store = {{TierKind::peer, ""}};
  EXPECT_EQ(refusal(job).kind, ErrorKind::infeasible);
  job.checkpoint.store = {{TierKind::object, "s3"}};
  job.cluster.storage.object_write_bytes_per_s = 0;
  EXPECT_NE(refusal(job).hint.find("storage.object.write"), std::string::npos);
  job.checkpoint.store = {{TierKind::memory, ""}};
  job.cluster.host_memory_bytes = 1e9;
  EXPECT_EQ(refusal(job).kind, ErrorKind::infeasible);
  job.cluster.host_memory_bytes = 0;
  job.cluster.device.host_bytes_per_s = 0;
  EXPECT_NE(refusal(job).message.find("host_link"), std::string::npos);
}

TEST(CheckpointRun, MemoryAloneHasNoDrain) {
  spec::Job job = saving_job(8);
  job.checkpoint.store = {{TierKind::memory, ""}};
  const CheckpointRun run = checkpoint_of(job);
  EXPECT_EQ(run.tiers.size(), 1U);
  EXPECT_EQ(run.drain_s, 0);
  EXPECT_EQ(run.wait_s, 0);
  EXPECT_NEAR(run.stall_share, run.stall_s / (100 * run.step_s + run.stall_s), 1e-12);
}

template <typename T>
T one_of(Rng& rng, std::initializer_list<T> values) {
  return *(values.begin() + static_cast<std::ptrdiff_t>(rng.below(values.size())));
}

spec::Job random_job(Rng& rng) {
  const int tp = one_of(rng, {1, 2, 4});
  const int pp = one_of(rng, {1, 2, 4});
  const int dp = one_of(rng, {1, 2, 3, 4});
  spec::Job job = saving_job(tp * pp * dp, tp, pp);
  job.layout.zero = static_cast<int>(rng.below(4));
  job.stack.executed = rng.below(3) == 0;
  job.layout.schedule = one_of(rng, {spec::Schedule::gpipe, spec::Schedule::one_f_one_b, spec::Schedule::zb_1p,
                                     spec::Schedule::zb_v, spec::Schedule::dualpipe});
  job.stack.physics.dp_hidden = one_of(rng, {0.0, 0.6});
  job.training.global_batch = dp * one_of(rng, {4, 8});
  job.cluster.storage_write_bytes_per_s = one_of(rng, {1e9, 10e9, 100e9});
  job.cluster.storage.node_write_bytes_per_s = one_of(rng, {0.0, 2e9, 40e9});
  job.cluster.storage.on_fabric = rng.below(2) == 0;
  job.checkpoint.store.clear();
  if (job.cluster.devices > 8 && rng.below(2) == 0) job.checkpoint.store.push_back({TierKind::peer, ""});
  if (rng.below(2) == 0) job.checkpoint.store.push_back({TierKind::local, "/d"});
  job.checkpoint.store.push_back({TierKind::shared, "/nfs"});
  return job;
}

TEST(CheckpointRun, FoldedEqualsUnfolded) {
  Rng rng(7);
  int done = 0;
  int fewer = 0;
  int slowed = 0;
  for (int number = 0; done < 60; ++number) {
    ASSERT_LT(number, 2000);
    const spec::Job job = random_job(rng);
    const Result<Program> program = program::generate(job);
    if (!program) continue;
    ++done;
    const StepTimes times = simple_times(*program, one_of(rng, {10e9, 24e9}));
    const cluster::Graph graph = graph_of(64);
    CheckpointInput input{job, *program, times, &graph};
    if (rng.below(3) == 0) input.slow[static_cast<int>(rng.below(static_cast<std::uint64_t>(job.cluster.devices)))] = 2;
    const Result<CheckpointRun> folded = run_checkpoints(input);
    ASSERT_TRUE(folded.has_value()) << number << ": " << to_string(folded.error());
    input.fold = false;
    const CheckpointRun whole = run_checkpoints(input).value();
    fewer += folded->run.kinds.size() < whole.run.kinds.size() ? 1 : 0;
    slowed += whole.slowed_s > 0 ? 1 : 0;
    ASSERT_NEAR(folded->stall_s, whole.stall_s, 1e-9 * whole.step_s) << number;
    ASSERT_NEAR(folded->drain_s, whole.drain_s, 1e-9 * (whole.drain_s + whole.step_s)) << number;
    for (std::size_t r = 0; r < whole.run.kind_of_rank.size(); ++r) {
      const RankKind& a = folded->run.kinds[static_cast<std::size_t>(folded->run.kind_of_rank[r])];
      const RankKind& b = whole.run.kinds[r];
      ASSERT_EQ(a.ops.size(), b.ops.size());
      for (std::size_t o = 0; o < a.ops.size(); ++o) {
        ASSERT_NEAR(a.ops[o].start_s, b.ops[o].start_s, 1e-9 * whole.run.ops_s) << number << ", rank " << r;
        ASSERT_NEAR(a.ops[o].end_s, b.ops[o].end_s, 1e-9 * whole.run.ops_s) << number << ", rank " << r;
      }
    }
  }
  EXPECT_GT(fewer, 20);
  EXPECT_GT(slowed, 2);
}

}  // namespace
}  // namespace twinpod::sim
