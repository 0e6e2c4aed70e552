#include "sim/step.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "cluster/topology.hpp"
#include "core/rng.hpp"
#include "program/generate.hpp"
#include "program/test_job.hpp"
#include "sim/step_network.hpp"
#include "spec/catalog.hpp"
#include "spec/node.hpp"
#include "spec/read.hpp"

namespace twinpod::sim {
namespace {

using program::OpKind;
using program::Program;

// Seconds that are made up, but grow with the work: 100 TFLOP/s, 20 GB/s, 10 us for each message.
StepTimes simple_times(const Program& program, double exposed = 1) {
  StepTimes times;
  for (const program::Block& block : program.blocks) {
    std::vector<OpTime>& ops = times.ops.emplace_back();
    for (const program::Op& op : block.ops) {
      OpTime time;
      if (op.kind == OpKind::compute) {
        const program::Work& work = program.works[static_cast<std::size_t>(op.work)];
        time.latency_s = 1e-5 + op.share * (work.flop() / 1e14 + work.parameters * 1e-11 + work.element_bytes * 1e-12);
      } else if (op.kind == OpKind::collective || op.kind == OpKind::send) {
        time.latency_s = 1e-5;
        time.bytes_per_s = 20e9;
        time.transfer_s = op.bytes / time.bytes_per_s;
        time.exposed = exposed;
      } else if (op.kind != OpKind::recv) {
        time.latency_s = op.bytes / 20e9;
      }
      ops.push_back(time);
    }
  }
  return times;
}

spec::Cluster written(const std::string& text) {
  const Result<spec::Node> root = spec::parse_yaml(text, "c.yaml");
  return spec::read_cluster(*root, "c.yaml", spec::Catalog(TWINPOD_CATALOG_DIR)).value();
}

// Nodes of eight (or four) devices under leaves, with as many uplinks as `up` says.
cluster::Graph tree(int devices, int leaf_nodes, int up) {
  return cluster::build_graph(written("{name: tree, node: dgx-a100, devices: " + std::to_string(devices) +
                                      ", topology: {fabric: fat_tree, radix: 64, leaf_nodes: " +
                                      std::to_string(leaf_nodes) + ", leaf_up: " + std::to_string(up) + "}}"))
      .value();
}

// Links of 10 GB/s along three axes or 15 GB/s along two, where ranks want to send 20.
cluster::Graph torus(const std::string& shape, const std::string& wrap, bool twisted = false) {
  const std::vector<int> lengths = spec::parse_shape(shape);
  const int chips = std::accumulate(lengths.begin(), lengths.end(), 1, std::multiplies<>());
  spec::Cluster cluster = written("{name: torus, node: tpu-v4-host, devices: " + std::to_string(chips) +
                                  ", scale_up: {kind: torus, bandwidth: 60 GB/s, domain: " + std::to_string(chips) +
                                  "}, topology: {shape: " + shape + ", wrap: " + wrap + "}}");
  cluster.topology.twisted = twisted;
  return cluster::build_graph(cluster).value();
}

double step_of(const StepInput& input) {
  const Result<StepRun> run = run_step(input);
  EXPECT_TRUE(run.has_value()) << to_string(run.error());
  return run ? run->step_s : 0;
}

TEST(Step, OneRankRunsItsOpsOneAfterTheOther) {
  const Program program = program::generate(program::gpt_job(1)).value();
  const StepTimes times = simple_times(program);
  const StepRun run = run_step({program, times}).value();
  double sum = 0;
  program::for_each_op(program, 0, [&](const program::PlacedOp& op) {
    const auto block = static_cast<std::size_t>(op.block - program.blocks.data());
    if (op.op->lane == program::Lane::compute) sum += times.ops[block][static_cast<std::size_t>(op.index)].seconds();
  });
  EXPECT_NEAR(run.step_s / sum, 1, 1e-9);
  EXPECT_EQ(run.kinds.size(), 1U);
}

TEST(Step, StagesAreOneKindEach) {
  spec::Job job = program::gpt_job(32, 2, 4);
  const Program program = program::generate(job).value();
  const StepTimes times = simple_times(program);
  const cluster::Graph graph = tree(32, 4, 32);
  StepInput input{program, times};
  input.graph = &graph;
  const StepRun run = run_step(input).value();
  EXPECT_EQ(run.kinds.size(), 4U);
  for (const RankKind& kind : run.kinds) EXPECT_EQ(kind.count, 8);
}

TEST(Step, ASlowRankSplitsItsKindByWhoWaitsForIt) {
  const Program program = program::generate(program::gpt_job(64, 4, 4)).value();
  const StepTimes times = simple_times(program);
  StepInput input{program, times};
  const double before = step_of(input);
  input.slow = {{5, 1.3}};
  const StepRun run = run_step(input).value();
  EXPECT_GT(run.step_s, before * 1.005);
  EXPECT_LT(run.step_s, before * 1.3);
  EXPECT_GT(run.kinds.size(), 4U);
  EXPECT_LE(run.kinds.size(), 24U);
}

TEST(Step, TheCriticalPathReachesFromTheStartToTheEnd) {
  const Program program = program::generate(program::gpt_job(16, 2, 4)).value();
  const StepTimes times = simple_times(program);
  const StepRun run = run_step({program, times}).value();
  const std::vector<OpRef> path = critical_path(run);
  ASSERT_FALSE(path.empty());
  double at = 0;
  for (const OpRef& ref : path) {
    const OpRun& op = run.kinds[ref.kind].ops[ref.op];
    EXPECT_LE(op.start_s, at + 1e-12);
    at = std::max(at, op.end_s);
  }
  EXPECT_NEAR(at, run.ops_s, 1e-12);
}

// The tied embedding is summed over first and last stage once, however many stages lie between them.
TEST(Step, LinksMoveWhatTheirRankSends) {
  spec::Job job = program::gpt_job(32, 8, 4);
  job.model.tied_embeddings = true;
  const Program program = program::generate(job).value();
  const StepTimes times = simple_times(program);
  const cluster::Graph graph = tree(32, 1, 8);
  StepInput input{program, times};
  input.graph = &graph;
  const StepRun run = run_step(input).value();
  double sent = 0;
  double summed = 0;
  program::for_each_op(program, 0, [&](const program::PlacedOp& op) {
    if (op.op->kind == OpKind::send || op.op->group == layout::Group::world) sent += op.op->bytes;
    if (op.op->group == layout::Group::ends) summed += op.op->bytes;
  });
  ASSERT_GT(summed, 0);
  const std::vector<int> cable = cluster::find_links(graph, "gpu0-node0/pcie0").value();
  const double moved = run.link_bytes[static_cast<std::size_t>(cable.front())];
  EXPECT_GE(moved, summed);
  EXPECT_LE(moved, (summed + sent) * (1 + 1e-6));
}

// Eight data-parallel rings of two nodes under different leaves: eight flows on eight uplinks, or on two.
TEST(Step, TooFewUplinksSlowTheReductionDown) {
  spec::Job job = program::gpt_job(16, 8, 1);
  const Program program = program::generate(job).value();
  const StepTimes times = simple_times(program);
  const cluster::Graph wide = tree(16, 1, 8);
  const cluster::Graph narrow = tree(16, 1, 2);
  StepInput input{program, times};
  const double alone = step_of(input);
  input.graph = &wide;
  EXPECT_NEAR(step_of(input) / alone, 1, 1e-9);
  input.graph = &narrow;
  const StepRun run = run_step(input).value();
  EXPECT_GT(run.step_s, alone * 1.01);
  EXPECT_GT(run.contention_s, 0);
  ASSERT_FALSE(run.full_links.empty());
  EXPECT_NE(cluster::link_name(narrow, run.full_links.front().link).find("spine"), std::string::npos);
}

// A group of the usual order for each axis of the torus: tensor ranks along z, copies along x and y.
TEST(Step, GroupsOnAxesOfTheirOwnLeaveEachOtherAlone) {
  const Program program = program::generate(program::gpt_job(64, 4, 1)).value();
  StepTimes times = simple_times(program);
  for (std::vector<OpTime>& block : times.ops) {
    for (OpTime& time : block) time.bytes_per_s = std::min(time.bytes_per_s, 18e9);
  }
  const cluster::Graph graph = torus("4x4x4", "all");
  StepInput input{program, times};
  const double alone = step_of(input);
  input.graph = &graph;
  EXPECT_NEAR(step_of(input) / alone, 1, 1e-9);
}

// The same, with tensor ranks and copies both along the long axis.
TEST(Step, GroupsThatShareAnAxisSlowEachOtherDown) {
  const Program program = program::generate(program::gpt_job(16, 4, 1)).value();
  StepTimes times = simple_times(program);
  for (std::vector<OpTime>& block : times.ops) {
    for (OpTime& time : block) time.bytes_per_s = std::min(time.bytes_per_s, 10e9);
  }
  const cluster::Graph graph = torus("1x16", "all");
  StepInput input{program, times};
  const double alone = step_of(input);
  input.graph = &graph;
  const StepRun run = run_step(input).value();
  EXPECT_GT(run.step_s, alone * 1.01);
  ASSERT_FALSE(run.full_links.empty());
  EXPECT_EQ(cluster::link_name(graph, run.full_links.front().link), "chip(0,0)-chip(0,1)");
}

// Stages could send both ways at once, which would be too much for an interface, but never do.
TEST(Step, ALinkThatIsNeverFullTellsNobodyApart) {
  const Program program = program::generate(program::gpt_job(32, 8, 4)).value();
  const StepTimes times = simple_times(program);
  const cluster::Graph graph = tree(32, 4, 32);
  StepInput input{program, times};
  input.graph = &graph;
  EXPECT_FALSE(step_networks(input).value().links.empty());
  const StepRun folded = run_step(input).value();
  input.fold = false;
  const StepRun whole = run_step(input).value();
  ASSERT_TRUE(whole.full_links.empty());
  EXPECT_EQ(folded.kinds.size(), 4U);
  EXPECT_NEAR(folded.step_s / whole.step_s, 1, 1e-12);
  for (std::size_t link = 0; link < graph.links.size(); ++link) {
    EXPECT_NEAR(folded.link_bytes[link], whole.link_bytes[link], 1e-6 * (1 + whole.link_bytes[link]));
  }
}

TEST(Step, RefusesRanksThatAreNotThere) {
  const Program program = program::generate(program::gpt_job(4)).value();
  const StepTimes times = simple_times(program);
  StepInput input{program, times};
  input.slow = {{4, 2.0}};
  EXPECT_EQ(run_step(input).error().message, "there is no rank 4");
}

struct RandomStep {
  spec::Job job;
  cluster::Graph graph;
  std::map<int, double> slow;
  double exposed = 1;
};

template <typename T>
T one_of(Rng& rng, std::initializer_list<T> values) {
  return *(values.begin() + static_cast<std::ptrdiff_t>(rng.below(values.size())));
}

// Trees, and every third one a torus.
cluster::Graph random_graph(Rng& rng) {
  if (rng.below(3) > 0) return tree(64, one_of(rng, {1, 2, 4}), one_of(rng, {2, 5, 8, 16}));
  const char* const shape = one_of(rng, {"4x4x4", "8x8", "2x4x8", "4x16", "3x5x5", "4x4x8", "8x4x4"});
  if (std::string_view(shape) == "4x4x8") return torus(shape, "all", rng.below(2) == 0);
  return torus(shape, one_of(rng, {"all", "none"}));
}

RandomStep random_step(Rng& rng) {
  RandomStep made;
  const int tp = one_of(rng, {1, 1, 2, 4});
  const int pp = one_of(rng, {1, 2, 2, 4});
  const int cp = one_of(rng, {1, 1, 1, 2});
  const int dp = one_of(rng, {1, 2, 3, 4});
  const int ranks = std::min(64, tp * pp * cp * dp);
  const bool experts = rng.below(5) == 0;
  made.job = experts ? program::mixture_job(ranks, 1) : program::gpt_job(ranks);
  spec::Layout& layout = made.job.layout;
  layout.tp = tp;
  layout.pp = pp;
  layout.cp = cp;
  if (experts && tp == 1 && dp % 2 == 0) layout.ep = 2;
  layout.zero = static_cast<int>(rng.below(4));
  layout.sequence_parallel = tp > 1 && rng.below(2) == 0;
  layout.recompute = one_of(rng, {spec::Recompute::none, spec::Recompute::selective, spec::Recompute::full});
  layout.schedule = one_of(rng, {spec::Schedule::gpipe, spec::Schedule::one_f_one_b, spec::Schedule::interleaved,
                                 spec::Schedule::zb_1p, spec::Schedule::zb_v, spec::Schedule::dualpipe});
  if (layout.schedule == spec::Schedule::interleaved) layout.virtual_stages = 2;
  made.job.stack.physics.dp_hidden = one_of(rng, {0.0, 0.6});
  made.job.training.global_batch = dp * one_of(rng, {4, 8, 12});
  made.graph = random_graph(rng);
  for (std::uint64_t i = rng.below(3); i > 0; --i) {
    made.slow[static_cast<int>(rng.below(static_cast<std::uint64_t>(ranks)))] = one_of(rng, {1.1, 1.3, 2.0});
  }
  for (std::uint64_t i = rng.below(3); i > 0; --i) {
    const auto link = static_cast<int>(rng.below(made.graph.links.size()));
    cluster::slow_links(made.graph, {link, link ^ 1}, one_of(rng, {0.3, 0.5, 0.9}));
  }
  if (rng.below(4) == 0) {
    const char* const cable = made.graph.scale_up.shape.size() == 3   ? "chip(0,0,1)-chip(0,0,2)"
                              : made.graph.scale_up.shape.size() == 2 ? "chip(0,1)-chip(0,2)"
                                                                      : "leaf0-spine0";
    const Result<std::vector<int>> links = cluster::find_links(made.graph, cable);
    cluster::Graph cut = made.graph;
    if (links) cluster::cut_links(cut, *links);
    if (cluster::check_connected(cut)) made.graph = std::move(cut);
  }
  made.exposed = one_of(rng, {1.0, 0.4});
  return made;
}

void expect_same(const StepRun& folded, const StepRun& whole, int number) {
  ASSERT_NEAR(folded.step_s / whole.step_s, 1, 1e-9) << "job " << number;
  for (std::size_t r = 0; r < whole.kind_of_rank.size(); ++r) {
    const RankKind& a = folded.kinds[static_cast<std::size_t>(folded.kind_of_rank[r])];
    const RankKind& b = whole.kinds[static_cast<std::size_t>(whole.kind_of_rank[r])];
    ASSERT_EQ(a.ops.size(), b.ops.size());
    for (std::size_t o = 0; o < a.ops.size(); ++o) {
      ASSERT_NEAR(a.ops[o].end_s, b.ops[o].end_s, 1e-9 * whole.step_s)
          << "job " << number << ", rank " << r << ", op " << o;
      ASSERT_NEAR(a.ops[o].start_s, b.ops[o].start_s, 1e-9 * whole.step_s)
          << "job " << number << ", rank " << r << ", op " << o;
    }
  }
}

// The sanitizers make each of them some eight times as slow.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TWINPOD_SANITIZED
#endif
#endif
#ifdef TWINPOD_SANITIZED
constexpr int kRandomSteps = 60;
#else
constexpr int kRandomSteps = 500;
#endif

TEST(Step, FoldedEqualsUnfolded) {
  Rng rng(2024);
  int done = 0;
  int fewer = 0;
  int tori = 0;  // with something in the way
  for (int number = 0; done < kRandomSteps; ++number) {
    ASSERT_LT(number, 20 * kRandomSteps);
    const RandomStep made = random_step(rng);
    const Result<Program> program = program::generate(made.job);
    if (!program) continue;
    ++done;
    const StepTimes times = simple_times(*program, made.exposed);
    StepInput input{*program, times};
    input.graph = &made.graph;
    input.slow = made.slow;
    const Result<StepRun> folded = run_step(input);
    ASSERT_TRUE(folded.has_value()) << number << ": " << to_string(folded.error());
    input.fold = false;
    const Result<StepRun> whole = run_step(input);
    ASSERT_TRUE(whole.has_value());
    ASSERT_EQ(whole->kinds.size(), static_cast<std::size_t>(program->mesh.ranks()));
    fewer += folded->kinds.size() < whole->kinds.size() ? 1 : 0;
    tori += !made.graph.scale_up.shape.empty() && folded->contention_s > 0 ? 1 : 0;
    expect_same(*folded, *whole, number);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(fewer, kRandomSteps / 3);
  EXPECT_GT(tori, kRandomSteps / 10);
}

}  // namespace
}  // namespace twinpod::sim
