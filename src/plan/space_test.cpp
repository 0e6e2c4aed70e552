#include "plan/space.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/test_job.hpp"

namespace twinpod::plan {
namespace {

using spec::Schedule;

std::vector<int> tensor_sizes(const Space& space) {
  std::vector<int> sizes;
  for (const Group& group : space.groups) {
    if (std::find(sizes.begin(), sizes.end(), group.tp) == sizes.end()) sizes.push_back(group.tp);
  }
  return sizes;
}

std::vector<Schedule> schedules(const Space& space, int pp) {
  std::vector<Schedule> all;
  for (const Pipelining& one : pipelinings(space, {}, space.job->cluster.devices, pp)) {
    if (std::find(all.begin(), all.end(), one.schedule) == all.end()) all.push_back(one.schedule);
  }
  return all;
}

TEST(Space, KeepsToWhatTheSoftwareCan) {
  const spec::Job job = gpt_job(64);
  spec::Abilities few;
  few.schedules = {Schedule::one_f_one_b};
  few.tensor_parallel = false;
  const Space space = space_of(job, {}, few);
  EXPECT_EQ(tensor_sizes(space), std::vector<int>{1});
  EXPECT_EQ(schedules(space, 4), std::vector<Schedule>{Schedule::one_f_one_b});
}

TEST(Space, AWishGoesBeyondWhatTheSoftwareCan) {
  const spec::Job job = gpt_job(64);
  spec::Abilities few;
  few.schedules = {Schedule::one_f_one_b};
  few.tensor_parallel = false;
  Wishes wishes;
  wishes.tp = {4};
  wishes.schedule = {Schedule::zb_v};
  const Space space = space_of(job, wishes, few);
  EXPECT_EQ(tensor_sizes(space), std::vector<int>{4});
  EXPECT_EQ(schedules(space, 4), std::vector<Schedule>{Schedule::zb_v});
}

TEST(Space, StagesMayHaveToBeEven) {
  spec::Job job = gpt_job(64);
  job.model.layers = 30;
  spec::Abilities even;
  even.uneven_stages = false;
  const auto has_unequal = [](const std::vector<Pipelining>& list) {
    return std::any_of(list.begin(), list.end(), [](const Pipelining& p) { return !p.uneven_ends; });
  };
  EXPECT_TRUE(has_unequal(pipelinings(space_of(job, {}, {}), {}, 64, 4)));
  EXPECT_FALSE(has_unequal(pipelinings(space_of(job, {}, even), {}, 64, 4)));
  // 30 layers, embedding and head are 32: eight for each of four stages.
  EXPECT_FALSE(pipelinings(space_of(job, {}, even), {}, 64, 4).empty());
}

TEST(Space, OneNameForWhatIsTheSame) {
  spec::Job job = gpt_job(8);
  job.layout.pp = 8;
  job.layout.zero = 2;
  job.layout.sequence_parallel = true;
  job.layout.virtual_stages = 3;
  const spec::Layout plain = canonical(job);
  EXPECT_EQ(plain.dp, 1);
  EXPECT_EQ(plain.zero, 0);
  EXPECT_FALSE(plain.sequence_parallel);
  EXPECT_EQ(plain.schedule, Schedule::interleaved);
}

TEST(Space, ExpertsThatTensorRanksCopyKeepZero) {
  spec::Job job = mixture_job(8);
  job.layout.tp = 8;
  job.layout.etp = 1;
  job.layout.zero = 1;
  EXPECT_EQ(canonical(job).zero, 1);
  job.layout.ep = 8;
  EXPECT_EQ(canonical(job).zero, 0);
}

TEST(PlannedBatch, SuitsTheDevices) {
  EXPECT_EQ(planned_batch(4e6, 2048, {1024}), 2048);
  // 140 nodes of 8: seven and five must divide it.
  EXPECT_EQ(static_cast<int>(planned_batch(4e6, 2048, {1120})) % 280, 0);
  EXPECT_EQ(planned_batch(100, 2048, {8}), 1);
}

TEST(PlannedBatch, StaysNearTheTokens) {
  for (const int devices : {1, 8, 96, 384, 1000, 1120, 3072, 16384}) {
    EXPECT_NEAR(planned_batch(4e6, 4096, {devices}) * 4096, 4e6, 0.06 * 4e6) << devices;
  }
}

TEST(Space, OnlyALayoutThatTheJobHasIsAPointOfItsOwn) {
  spec::Job job = gpt_job(64);
  spec::Abilities few;
  few.schedules = {Schedule::gpipe};
  EXPECT_EQ(schedules(space_of(job, {}, few), 4), std::vector<Schedule>{Schedule::gpipe});
  job.has_layout = true;
  EXPECT_EQ(schedules(space_of(job, {}, few), 4), (std::vector<Schedule>{Schedule::gpipe, Schedule::one_f_one_b}));
}

TEST(Space, NothingWaitsOnAHostThatCannotBeReached) {
  spec::Job job = gpt_job(64);
  job.cluster.device.host_bytes_per_s = 0;
  for (const Keeping& way : keepings(space_of(job, {}, all_abilities()), {}, 64, 1))
    EXPECT_FALSE(way.offload_optimizer || way.offload_activations);
}

TEST(Space, AWishThatMeansNothingOnOneStageIsNoneForALaunch) {
  const spec::Job job = gpt_job(64);
  Wishes wishes;
  wishes.schedule = {Schedule::zb_1p};
  EXPECT_FALSE(pipelinings(space_of(job, wishes, all_abilities()), {}, 64, 1).empty());
  wishes.literal = true;
  EXPECT_TRUE(pipelinings(space_of(job, wishes, all_abilities()), {}, 64, 1).empty());
  EXPECT_FALSE(pipelinings(space_of(job, wishes, all_abilities()), {}, 64, 4).empty());
}

}  // namespace
}  // namespace twinpod::plan
