#include "train/loop_timeline.hpp"

#include <gtest/gtest.h>

#include "train/test_job.hpp"

namespace twinpod::train {
namespace {

// A Timeline of all ranks in which arithmetic takes 1 s an op, updates 10 s, and all else 100 s.
double arithmetic(const spec::Job& job) {
  const Result<program::Program> program = program::generate(job);
  if (!program) return -1;
  program::Timeline timeline;
  for (int rank = 0; rank < job.cluster.devices; ++rank) {
    program::RankTimeline one{rank, 1, program::kind_of_rank(*program, rank), {}};
    double now = 0;
    program::for_each_op(*program, one.kind, [&](const program::PlacedOp& placed) {
      const bool computes = placed.op->kind == program::OpKind::compute;
      const bool updates = computes && placed.op->phase == program::Phase::update;
      const double seconds = updates ? 10 : (computes ? 1 : 100);
      one.ops.push_back({now, now + seconds, now + seconds});
      now += seconds;
    });
    timeline.ranks.push_back(std::move(one));
  }
  return arithmetic_seconds(job, *program, timeline);
}

spec::Job on_two_ranks(int zero) {
  spec::Job job = small_job();
  job.cluster.devices = 2;
  job.layout.zero = zero;
  return job;
}

TEST(ArithmeticSeconds, TwoCopiesNeedTogetherWhatOneRankNeeds) {
  EXPECT_GT(arithmetic(small_job()), 10);
  // The same micro-batches, shared by two, and one update that both do.
  EXPECT_DOUBLE_EQ(arithmetic(on_two_ranks(0)), arithmetic(small_job()));
}

TEST(ArithmeticSeconds, UpdatesOfShardsAreDifferentWork) {
  EXPECT_DOUBLE_EQ(arithmetic(on_two_ranks(1)), arithmetic(small_job()) + 10);
}

}  // namespace
}  // namespace twinpod::train
