#include "layout/mesh.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace twinpod::layout {
namespace {

spec::Job job_of(int devices, int tp, int pp, int cp = 1, int ep = 1, int etp = 0) {
  spec::Job job;
  job.cluster.devices = devices;
  job.layout.tp = tp;
  job.layout.pp = pp;
  job.layout.cp = cp;
  job.layout.ep = ep;
  job.layout.etp = etp;
  job.model.experts.count = ep > 1 || etp > 0 ? 64 : 0;
  return job;
}

std::vector<Group> all_groups() {
  std::vector<Group> groups;
  for (int i = 0; i < kNumGroups; ++i) groups.push_back(static_cast<Group>(i));
  return groups;
}

// The example in Megatron-LM's parallel_state.py: 16 ranks, tp 2, pp 4.
TEST(Mesh, HasMegatronsGroups) {
  const Mesh mesh = *mesh_of(job_of(16, 2, 4));
  EXPECT_EQ(members(mesh, Group::tensor, 7), (std::vector{6, 7}));
  EXPECT_EQ(members(mesh, Group::data, 4), (std::vector{4, 6}));
  EXPECT_EQ(members(mesh, Group::data, 15), (std::vector{13, 15}));
  EXPECT_EQ(members(mesh, Group::pipeline, 2), (std::vector{2, 6, 10, 14}));
  EXPECT_EQ(members(mesh, Group::ends, 5), (std::vector{1, 13}));
  EXPECT_EQ(members(mesh, Group::mirror, 9), (std::vector{5, 9}));
  EXPECT_EQ(num_groups(mesh, Group::tensor), 8);
  EXPECT_EQ(num_groups(mesh, Group::pipeline), 4);
}

// Experts have axes of their own over the same ranks: etp fastest, then ep, then their copies.
TEST(Mesh, SpreadsExpertsOverTheRanksOfAStage) {
  const Mesh mesh = *mesh_of(job_of(32, 2, 2, 1, 4, 1));
  EXPECT_EQ(members(mesh, Group::expert, 5), (std::vector{4, 5, 6, 7}));
  EXPECT_EQ(members(mesh, Group::expert_data, 5), (std::vector{1, 5, 9, 13}));
  EXPECT_EQ(members(mesh, Group::expert_tensor, 5), (std::vector{5}));
  const Mesh split = *mesh_of(job_of(32, 2, 2, 1, 4));
  EXPECT_EQ(members(split, Group::expert, 5), (std::vector{1, 3, 5, 7}));
  EXPECT_EQ(members(split, Group::expert_tensor, 5), (std::vector{4, 5}));
}

TEST(Mesh, ShardsInGroupsOfNeighbours) {
  spec::Job job = job_of(32, 2, 1);
  job.layout.zero = 1;
  job.layout.shard_group = 4;
  const Mesh mesh = *mesh_of(job);
  EXPECT_EQ(members(mesh, Group::shard, 0), (std::vector{0, 2, 4, 6}));
  EXPECT_EQ(members(mesh, Group::replica, 0), (std::vector{0, 8, 16, 24}));
}

TEST(Mesh, DividesADataGroupByScaleUpDomains) {
  spec::Job job = job_of(64, 2, 2);
  job.cluster.scale_up_domain = 8;
  EXPECT_EQ(members(*mesh_of(job), Group::domain, 9), (std::vector{9, 11, 13, 15}));
}

TEST(Mesh, OfAnotherOrderCutsGroupsWhereThePipelineStands) {
  const Mesh mesh = *mesh_of(job_of(16, 2, 2, 1, 4), kPipelineInside);
  EXPECT_EQ(stride(mesh, Axis::pp), 2);
  EXPECT_EQ(members(mesh, Group::data, 1), (std::vector{1, 5, 9, 13}));
  EXPECT_EQ(members(mesh, Group::expert, 1), (std::vector{1, 5, 9, 13}));
  // Three ranks below the pipeline cannot be cut into experts of two.
  const Result<Mesh> cut = mesh_of(job_of(24, 3, 2, 1, 2, 1), kPipelineInside);
  ASSERT_FALSE(cut);
  EXPECT_NE(cut.error().message.find("tp-cp-pp-dp"), std::string::npos) << cut.error().message;
}

void expect_partition(const Mesh& mesh, Group group) {
  std::vector<int> seen(static_cast<std::size_t>(mesh.ranks()), 0);
  std::set<std::vector<int>> groups;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const std::vector<int> list = members(mesh, group, rank);
    ASSERT_EQ(list.size(), static_cast<std::size_t>(size(mesh, group))) << name_of(group);
    if (group != Group::ends) {
      const auto own = static_cast<std::size_t>(position(mesh, group, rank));
      ASSERT_EQ(list[own], rank) << name_of(group);
      for (const int by : {1, -1, 3}) {
        const int count = static_cast<int>(list.size());
        ASSERT_EQ(neighbour(mesh, group, rank, by),
                  list[static_cast<std::size_t>(((static_cast<int>(own) + by) % count + count) % count)]);
      }
    }
    groups.insert(list);
  }
  for (const std::vector<int>& list : groups) {
    for (const int rank : list) ++seen[static_cast<std::size_t>(rank)];
  }
  EXPECT_EQ(static_cast<int>(groups.size()), num_groups(mesh, group)) << name_of(group);
  if (group == Group::ends) return;
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; })) << name_of(group);
}

TEST(Mesh, GroupsPartitionTheRanksForEverySmallSizeAndOrder) {
  for (const AxisOrder& order : {kUsualOrder, kPipelineInside, AxisOrder{Axis::pp, Axis::dp, Axis::tp, Axis::cp}}) {
    for (const int tp : {1, 2, 3}) {
      for (const int pp : {1, 2, 4}) {
        for (const int cp : {1, 2}) {
          for (const int dp : {1, 3, 4}) {
            for (const int ep : {1, 2}) {
              if (tp * cp * dp % (ep * tp) != 0) continue;
              const Result<Mesh> mesh = mesh_of(job_of(tp * pp * cp * dp, tp, pp, cp, ep), order);
              if (!mesh) continue;
              for (const Group group : all_groups()) expect_partition(*mesh, group);
              for (int rank = 0; rank < mesh->ranks(); ++rank)
                ASSERT_EQ(rank_at(*mesh, coordinates(*mesh, rank)), rank);
            }
          }
        }
      }
    }
  }
}

TEST(Mesh, OfAMillionRanksAnswersForOne) {
  const Mesh mesh = *mesh_of(job_of(1 << 20, 8, 64, 4));
  EXPECT_EQ(size(mesh, Group::data), (1 << 20) / (8 * 64));
  EXPECT_EQ(coordinate(mesh, (1 << 20) - 1, Axis::pp), 63);
  EXPECT_EQ(neighbour(mesh, Group::context, 31, 1), 7);
}

}  // namespace
}  // namespace twinpod::layout
