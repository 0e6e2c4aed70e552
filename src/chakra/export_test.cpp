#include "chakra/export.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "chakra/archive.hpp"
#include "chakra/run.hpp"
#include "core/files.hpp"
#include "program/generate.hpp"
#include "program/test_job.hpp"

namespace twinpod::chakra {
namespace {

using program::Program;

// A folder of its own for each test, gone with it.
struct TestFolder {
  std::string path = testing::TempDir() + "chakra_" + testing::UnitTest::GetInstance()->current_test_info()->name();
  TestFolder() { std::filesystem::remove_all(path); }
  ~TestFolder() { std::filesystem::remove_all(path); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
};

// Each op takes a millisecond.
struct Sample {
  Program program;
  program::Timeline timeline;
  std::vector<int> line_of_rank;
  ExportInput input() const { return {program, timeline, line_of_rank}; }
};

Sample sample(const spec::Job& job) {
  Sample one{program::generate(job).value(), {}, {}};
  for (int kind = 0; kind < static_cast<int>(one.program.kinds.size()); ++kind) {
    program::RankTimeline& line = one.timeline.ranks.emplace_back();
    line.kind = kind;
    program::for_each_op(one.program, kind, [&](const program::PlacedOp&) { line.ops.push_back({0, 1e-3, 1e-3}); });
  }
  for (int r = 0; r < one.program.mesh.ranks(); ++r) one.line_of_rank.push_back(kind_of_rank(one.program, r));
  return one;
}

std::string bytes_of(const Program& program) {
  std::string bytes = shared_bytes(program);
  for (const program::Kind& kind : program.kinds) bytes += kind_bytes(kind);
  return bytes;
}

void expect_round_trip(const spec::Job& job, bool all_ranks) {
  const TestFolder folder;
  const Sample one = sample(job);
  const Result<Written> written = write_chakra(one.input(), folder.path, all_ranks);
  ASSERT_TRUE(written) << to_string(written.error());
  EXPECT_EQ(written->files, all_ranks ? one.program.mesh.ranks() : one.program.mesh.pp);
  const Result<Program> again = read_chakra(folder.path);
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_TRUE(bytes_of(*again) == bytes_of(one.program));
  EXPECT_EQ(again->splits_backward, one.program.splits_backward);
  EXPECT_EQ(again->validates_later, one.program.validates_later);
  for (int k = 0; k < static_cast<int>(again->kinds.size()); ++k) {
    const program::Totals a = totals(*again, k);
    const program::Totals b = totals(one.program, k);
    EXPECT_EQ(a.flop, b.flop);
    EXPECT_EQ(a.ops, b.ops);
  }
}

TEST(Chakra, APipelineComesBackAsTheSameProgram) { expect_round_trip(program::gpt_job(16, 2, 4), false); }
TEST(Chakra, AllRanksOfAPipelineComeBackAsTheSameProgram) { expect_round_trip(program::gpt_job(16, 2, 4), true); }
TEST(Chakra, AMixtureOfExpertsComesBackAsTheSameProgram) { expect_round_trip(program::mixture_job(16, 8), false); }
TEST(Chakra, ARingComesBackAsTheSameProgram) {
  spec::Job job = program::gpt_job(16, 2, 2);
  job.layout.cp = 2;
  job.training.global_batch = 16;
  expect_round_trip(job, false);
}

Result<WorkloadRun> run_of(const std::string& folder) {
  const Result<Workload> workload = read_workload(folder);
  if (!workload) return tl::unexpected(workload.error());
  spec::Job job = program::gpt_job(16);
  job.cluster.scale_up_bytes_per_s = 300e9;
  job.cluster.scale_out_bytes_per_s = 25e9;
  return run_workload(*workload, {job.cluster, job.stack.physics, 16});
}

void expect_runs(const spec::Job& job) {
  const TestFolder folder;
  const Sample one = sample(job);
  ASSERT_TRUE(write_chakra(one.input(), folder.path, true));
  const Result<WorkloadRun> run = run_of(folder.path);
  ASSERT_TRUE(run) << to_string(run.error());
  for (int rank = 0; rank < one.program.mesh.ranks(); ++rank) {
    double compute = 0;
    program::for_each_op(one.program, kind_of_rank(one.program, rank), [&](const program::PlacedOp& op) {
      compute += op.op->kind == program::OpKind::compute ? 1e-3 : 0;
    });
    EXPECT_NEAR(run->ranks[static_cast<std::size_t>(rank)].compute_s, compute, 1e-9);
  }
  EXPECT_EQ(run->untimed, 0U);
}

TEST(Chakra, AllRanksOfAPipelineRun) { expect_runs(program::gpt_job(16, 2, 4)); }
TEST(Chakra, AllRanksOfAMixtureOfExpertsRun) { expect_runs(program::mixture_job(16, 8)); }
TEST(Chakra, AllRanksOfAnInterleavedPipelineRun) {
  spec::Job job = program::gpt_job(16, 2, 4);
  job.layout.virtual_stages = 2;
  job.layout.schedule = spec::Schedule::interleaved;
  expect_runs(job);
}

TEST(Chakra, AllRanksOfOtherSchedulesRun) {
  for (const spec::Schedule schedule : {spec::Schedule::gpipe, spec::Schedule::zb_1p, spec::Schedule::dualpipe}) {
    spec::Job job = program::gpt_job(8, 1, 4);
    job.layout.schedule = schedule;
    job.training.global_batch = 32;
    expect_runs(job);
  }
}

TEST(Chakra, OneFileForEachStageCannotRunAndSaysHowToWriteAll) {
  const TestFolder folder;
  ASSERT_TRUE(write_chakra(sample(program::gpt_job(16, 2, 4)).input(), folder.path, false));
  const Result<WorkloadRun> run = run_of(folder.path);
  ASSERT_FALSE(run);
  EXPECT_NE(to_string(run.error()).find("no file of rank 1"), std::string::npos);
  EXPECT_NE(run.error().hint.find("--all-ranks"), std::string::npos);
}

TEST(Chakra, AFolderWithFilesOfAnotherStepIsRefused) {
  const TestFolder folder;
  const Sample one = sample(program::gpt_job(16, 2, 4));
  ASSERT_TRUE(write_chakra(one.input(), folder.path, true));
  EXPECT_TRUE(write_chakra(one.input(), folder.path, true)) << "again";
  const Result<Written> fewer = write_chakra(one.input(), folder.path, false);
  ASSERT_FALSE(fewer);
  EXPECT_NE(fewer.error().message.find("not a file of this step"), std::string::npos);
}

TEST(Chakra, ANodeThatIsNotOfTheProgramIsRefused) {
  const TestFolder folder;
  ASSERT_TRUE(write_chakra(sample(program::gpt_job(16, 2, 4)).input(), folder.path, false));
  const std::string file = folder.path + "/step.0.et";
  std::string text = read_file(file).value();
  text.replace(text.rfind("num_ops"), 7, "num_opz");
  ASSERT_TRUE(write_file(file, text));
  const Result<Program> again = read_chakra(folder.path);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().kind, ErrorKind::input);
  EXPECT_EQ(again.error().file, file);
  EXPECT_NE(again.error().message.find("node "), std::string::npos);
}

// A zero-bubble step says of itself that it looks at the norm of its gradients later: what other steps leave unset.
TEST(Chakra, AZeroBubblePipelineComesBackAsTheSameProgram) {
  spec::Job job = program::gpt_job(8, 1, 4);
  job.layout.schedule = spec::Schedule::zb_1p;
  expect_round_trip(job, false);
}

TEST(Chakra, CutOrChangedBytesOfAProgramAreRefusedOrSound) {
  const Program program = program::generate(program::gpt_job(4, 2, 2)).value();
  const std::string shared = shared_bytes(program);
  std::vector<std::string> lists;
  for (const program::Kind& kind : program.kinds) lists.push_back(kind_bytes(kind));
  EXPECT_TRUE(program_of(shared, lists, "f"));
  for (std::size_t i = 0; i < shared.size(); i += 7) {
    EXPECT_FALSE(program_of(shared.substr(0, i), lists, "f"));
    std::string changed = shared;
    changed[i] = static_cast<char>(changed[i] ^ 0x15);
    const Result<Program> again = program_of(changed, lists, "f");
    EXPECT_TRUE(again || again.error().file == "f");
  }
  for (std::size_t i = 0; i < lists[1].size(); i += 3) {
    std::vector<std::string> changed = lists;
    changed[1][i] = static_cast<char>(changed[1][i] ^ 0x15);
    const Result<Program> again = program_of(shared, changed, "f");
    EXPECT_TRUE(again || again.error().file == "f");
  }
}

}  // namespace
}  // namespace twinpod::chakra
