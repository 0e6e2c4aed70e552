#include "chakra/run.hpp"

#include <gtest/gtest.h>

#include "chakra/test_trace.hpp"
#include "cluster/network.hpp"

namespace twinpod::chakra {
namespace {

spec::Cluster pair_of_nodes() {
  spec::Cluster cluster;
  cluster.name = "two nodes of two";
  cluster.devices = 4;
  cluster.devices_per_node = cluster.scale_up_domain = 2;
  cluster.device.peak_flop_per_s = {0, 0, 100e12, 100e12, 0, 0};
  cluster.device.memory_bytes_per_s = 1e12;
  cluster.scale_up_bytes_per_s = 100e9;
  cluster.scale_out_bytes_per_s = 10e9;
  return cluster;
}

Result<WorkloadRun> run_of(const std::vector<std::string>& files, const GroupMembers& groups = {}) {
  std::vector<RankWork> ranks;
  for (std::size_t r = 0; r < files.size(); ++r) {
    Result<RankWork> rank = parse_rank(metadata() + files[r], "t." + std::to_string(r) + ".et");
    if (!rank) return tl::unexpected(rank.error());
    ranks.push_back(std::move(*rank));
  }
  const Result<Workload> workload = join_ranks(std::move(ranks), groups);
  if (!workload) return tl::unexpected(workload.error());
  const spec::Cluster cluster = pair_of_nodes();
  const spec::Physics physics = spec::default_physics();
  return run_workload(*workload, {cluster, physics, 4});
}

std::string refusal(const std::vector<std::string>& files) {
  const Result<WorkloadRun> run = run_of(files);
  return run ? "accepted" : to_string(run.error());
}

std::string all_reduce(std::uint64_t id, const std::vector<std::uint64_t>& deps, std::uint64_t size,
                       const std::string& group = "") {
  std::string rest = attribute("comm_type", 0) + attribute("comm_size", size);
  if (!group.empty()) rest += attribute("pg_name", group);
  return node(id, kColl, deps, rest);
}

double all_reduce_s(double size, const cluster::Group& group) {
  return cluster::collective_s(pair_of_nodes(), spec::default_physics(), cluster::Verb::all_reduce, size, group);
}

TEST(ChakraRun, TakesTheDurationsOfTheFile) {
  const auto run = run_of({node(1, kComp, {}, duration(100)) + node(2, kComp, {1}, duration(50))});
  ASSERT_TRUE(run);
  EXPECT_DOUBLE_EQ(run->step_s, 150e-6);
  EXPECT_DOUBLE_EQ(run->ranks[0].compute_s, 150e-6);
}

TEST(ChakraRun, TakesWorkByTheRooflineWhereThereIsNoDuration) {
  const spec::Physics physics = spec::default_physics();
  const auto flop = run_of({node(1, kComp, {}, attribute("num_ops", 1e12) + attribute("tensor_size", 1000, 13))});
  EXPECT_DOUBLE_EQ(flop->step_s, 1e12 / (100e12 * physics.gemm_efficiency_bf16));
  const auto bytes = run_of({node(1, kComp, {}, attribute("num_ops", 1000) + attribute("tensor_size", 1e9, 13))});
  EXPECT_DOUBLE_EQ(bytes->step_s, 1e9 / (1e12 * physics.memory_efficiency));
}

TEST(ChakraRun, ACollectiveStartsWhenAllHaveComeAndTakesWhatTheNetworkNeeds) {
  const auto rank = [](std::uint64_t micros) { return node(1, kComp, {}, duration(micros)) + all_reduce(2, {1}, 1e9); };
  const auto run = run_of({rank(100), rank(300), rank(200), rank(100)});
  ASSERT_TRUE(run) << to_string(run.error());
  EXPECT_NEAR(run->step_s, 300e-6 + all_reduce_s(1e9, {4, 2}), 1e-12);
  EXPECT_NEAR(run->ranks[0].exposed_s, all_reduce_s(1e9, {4, 2}), 1e-12);
}

TEST(ChakraRun, GroupsAreTheRanksThatNameThem) {
  const auto run = run_of({all_reduce(1, {}, 1e8, "a"), all_reduce(1, {}, 1e8, "a"), all_reduce(1, {}, 1e8, "b"),
                           all_reduce(1, {}, 1e8, "b")});
  ASSERT_TRUE(run) << to_string(run.error());
  EXPECT_NEAR(run->step_s, all_reduce_s(1e8, {2, 2}), 1e-12);
}

TEST(ChakraRun, GroupsOfTheFileOfGroupsLieWhereItSays) {
  const std::string one = all_reduce(1, {}, 1e8, "far");
  const std::string other = all_reduce(1, {}, 1e8, "fern");
  const auto run = run_of({one, other, one, other}, {{"far", {0, 2}}, {"fern", {1, 3}}});
  ASSERT_TRUE(run) << to_string(run.error());
  EXPECT_NEAR(run->step_s, all_reduce_s(1e8, {2, 1}), 1e-12);
}

TEST(ChakraRun, AnAllGatherHoldsWhatOneRankPutsIn) {
  const std::string one = node(1, kColl, {}, attribute("comm_type", 2) + attribute("comm_size", 1e6));
  const auto run = run_of({one, one, one, one});
  EXPECT_NEAR(run->step_s,
              cluster::collective_s(pair_of_nodes(), spec::default_physics(), cluster::Verb::all_gather, 4e6, {4, 2}),
              1e-12);
}

TEST(ChakraRun, ARecvEndsWhenItsSendHasArrived) {
  const std::string sender =
      node(1, kComp, {}, duration(500)) +
      node(2, kSend, {1}, attribute("comm_size", 1e6) + attribute("comm_dst", 1) + attribute("comm_tag", 7));
  const std::string receiver =
      node(1, kRecv, {}, attribute("comm_size", 1e6) + attribute("comm_src", 0) + attribute("comm_tag", 7)) +
      node(2, kComp, {1}, duration(100));
  const auto run = run_of({sender, receiver});
  ASSERT_TRUE(run) << to_string(run.error());
  const double send = cluster::collective_s(pair_of_nodes(), spec::default_physics(), cluster::Verb::send, 1e6, {2, 2});
  EXPECT_NEAR(run->step_s, 500e-6 + send + 100e-6, 1e-12);
}

TEST(ChakraRun, CommunicationHidesBehindComputation) {
  const std::string one = all_reduce(1, {}, 1e6) + node(2, kComp, {}, duration(1'000'000));
  const auto run = run_of({one, one});
  EXPECT_DOUBLE_EQ(run->step_s, 1);
  EXPECT_NEAR(run->ranks[0].exposed_s, 0, 1e-12);
  EXPECT_GT(run->ranks[0].communication_s, 0);
}

TEST(ChakraRun, RefusesWhatNeverEndsWithFileAndNode) {
  EXPECT_EQ(refusal({node(1, kComp, {2}, duration(1)) + node(2, kComp, {1}, duration(1))}),
            "t.0.et: node 1 `n1` never ends: waits for itself, through what it waits for");
  EXPECT_EQ(refusal({all_reduce(5, {}, 8), node(1, kComp, {}, duration(1))}),
            "t.0.et: node 5 `n5` never ends: rank 1 never comes to collective 0 of group ``");
  EXPECT_EQ(refusal({node(3, kRecv, {}, attribute("comm_src", 1) + attribute("comm_tag", 4)), ""}),
            "t.0.et: node 3 `n3` never ends: no send of rank 1 with tag 4 comes to it");
}

TEST(ChakraRun, RefusesAMalformedFileWithFileAndNode) {
  EXPECT_EQ(refusal({node(1, kComp, {9}, duration(1))}),
            "t.0.et: node 1 `n1`: waits for node 9, which is not in the file");
  EXPECT_EQ(refusal({node(1, kComp, {}, "") + node(1, kComp, {}, "")}), "t.0.et: node 1 `n1`: its id is there twice");
  EXPECT_EQ(refusal({node(1, 77, {}, "")}), "t.0.et: node 1 `n1`: type 77 is none of the schema\n  types are 1 to 10");
  EXPECT_EQ(refusal({node(1, kColl, {}, attribute("comm_size", 1))}),
            "t.0.et: node 1 `n1`: has no attribute comm_type");
  EXPECT_EQ(refusal({node(1, kSend, {}, attribute("comm_dst", 8))}),
            "t.0.et: node 1 `n1`: there is no file of rank 8, its peer");
  EXPECT_NE(refusal({all_reduce(1, {}, ~std::uint64_t{3})}).find("node 1 `n1`: comm_size is -4"), std::string::npos);
  EXPECT_NE(refusal({node(1, kComp, {}, "").substr(0, 4)}).find("message 1 at byte 8"), std::string::npos);
  EXPECT_NE(refusal({with_length("\xff\xff\xff")}).find("message 1 is no Node"), std::string::npos);
}

TEST(ChakraRun, AnySingleFlippedByteIsRunOrRefused) {
  const std::string good =
      node(1, kComp, {}, duration(100)) + all_reduce(2, {1}, 1e6, "a") + node(3, kComp, {2}, duration(1));
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int flip : {1, 0x10, 0x80, 0xff}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      const auto run = run_of({bad, good});
      EXPECT_TRUE(run ? run->step_s >= 0 : !run.error().message.empty());
    }
  }
}

TEST(ChakraRun, MoreRanksThanDevicesCannotBeDone) {
  const std::string one = node(1, kComp, {}, duration(1));
  const auto run = run_of({one, one, one, one, one});
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().kind, ErrorKind::infeasible);
}

TEST(ChakraWorkload, TheRankIsInTheNameOfTheFile) {
  EXPECT_EQ(rank_of_file("a/b.12.et"), 12);
  EXPECT_EQ(rank_of_file("a/7.et"), 7);
  EXPECT_EQ(rank_of_file("a/b.x.et"), -1);
  EXPECT_EQ(rank_of_file("a.3/b.et"), -1);
}

}  // namespace
}  // namespace twinpod::chakra
