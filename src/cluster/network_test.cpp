#include "cluster/network.hpp"

#include <gtest/gtest.h>

#include <array>

namespace twinpod::cluster {
namespace {

constexpr std::array kCollectives = {Verb::all_reduce, Verb::all_gather, Verb::reduce_scatter};

// 8 devices in a domain at 300 GB/s, beyond it 25 GB/s for each device.
spec::Cluster pod(int devices = 64) {
  spec::Cluster cluster;
  cluster.devices = devices;
  cluster.scale_up_domain = 8;
  cluster.scale_up_bytes_per_s = 300e9;
  cluster.scale_out_bytes_per_s = 25e9;
  cluster.scale_out_latency_s = 0;
  return cluster;
}

// Every link at its full rate, and no latency: what is left is volume over bandwidth.
spec::Physics volume_only() {
  spec::Physics physics = spec::default_physics();
  physics.scale_up_efficiency = 1;
  physics.scale_out_efficiency = 1;
  physics.collective_latency_s = 0;
  physics.collective_step_s = 0;
  physics.collective_root = 0;
  return physics;
}

TEST(GroupOf, NeighboursFillADomain) {
  const Group group = group_of(pod(), 16, 1);
  EXPECT_EQ(group.ranks, 16);
  EXPECT_EQ(group.per_domain, 8);
  EXPECT_EQ(group.domains(), 2);
}

TEST(GroupOf, ASmallGroupStaysInsideOneDomain) {
  EXPECT_EQ(group_of(pod(), 4, 1).per_domain, 4);
  EXPECT_EQ(group_of(pod(), 4, 2).per_domain, 4);
  EXPECT_EQ(group_of(pod(), 4, 1).domains(), 1);
}

TEST(GroupOf, AStrideLeavesFewerOfThemInADomain) {
  EXPECT_EQ(group_of(pod(), 16, 2).per_domain, 4);
  EXPECT_EQ(group_of(pod(), 16, 4).per_domain, 2);
  EXPECT_EQ(group_of(pod(), 16, 8).per_domain, 1);
  EXPECT_EQ(group_of(pod(), 16, 64).per_domain, 1);
}

TEST(GroupOf, AWideDomainHoldsMore) {
  spec::Cluster rack = pod(144);
  rack.scale_up_domain = 72;
  EXPECT_EQ(group_of(rack, 36, 4).per_domain, 18);
  EXPECT_EQ(group_of(rack, 64, 1).per_domain, 64);
}

TEST(GroupOf, ADeviceAloneIsItsOwnDomain) {
  spec::Cluster singles = pod();
  singles.scale_up_domain = 0;
  EXPECT_EQ(group_of(singles, 8, 1).per_domain, 1);
}

TEST(Bus, InsideADomainItIsTheScaleUpLink) {
  spec::Physics physics = volume_only();
  physics.scale_up_efficiency = 0.8;
  EXPECT_DOUBLE_EQ(bus_bytes_per_s(pod(), physics, group_of(pod(), 8, 1)), 240e9);
}

TEST(Bus, AcrossDomainsARankAloneHasItsOwnInterface) {
  spec::Physics physics = volume_only();
  physics.scale_out_efficiency = 0.8;
  EXPECT_DOUBLE_EQ(bus_bytes_per_s(pod(), physics, group_of(pod(), 8, 8)), 20e9);
}

TEST(Bus, RanksOfADomainShareTheirInterfaces) {
  EXPECT_DOUBLE_EQ(bus_bytes_per_s(pod(), volume_only(), group_of(pod(), 16, 4)), 50e9);
  EXPECT_DOUBLE_EQ(bus_bytes_per_s(pod(), volume_only(), group_of(pod(), 16, 1)), 200e9);
}

TEST(Bus, ManyInterfacesAreNoFasterThanTheScaleUpLink) {
  spec::Cluster fast = pod();
  fast.scale_out_bytes_per_s = 100e9;
  EXPECT_DOUBLE_EQ(bus_bytes_per_s(fast, volume_only(), group_of(fast, 16, 1)), 300e9);
}

// Two units of 32 devices, with a quarter of the bandwidth between them.
spec::Cluster two_units() {
  spec::Cluster cluster = pod(64);
  cluster.oversubscription = 4;
  cluster.non_blocking_devices = 32;
  return cluster;
}

TEST(Bus, AGroupInsideAUnitDoesNotFeelWhatJoinsTheUnits) {
  EXPECT_DOUBLE_EQ(bus_bytes_per_s(two_units(), volume_only(), group_of(two_units(), 4, 8)), 25e9);
}

TEST(Bus, OneMemberInEachUnitSendsAllThroughTheUplinks) {
  EXPECT_DOUBLE_EQ(bus_bytes_per_s(two_units(), volume_only(), group_of(two_units(), 2, 32)), 25e9 / 4);
}

TEST(Bus, SeveralMembersInAUnitSendOneRingThroughTheUplinks) {
  const spec::Cluster cluster = two_units();
  EXPECT_DOUBLE_EQ(bus_bytes_per_s(cluster, volume_only(), group_of(cluster, 4, 16)), 25e9 / 2);
  EXPECT_DOUBLE_EQ(bus_bytes_per_s(cluster, volume_only(), group_of(cluster, 8, 8)), 25e9);
}

TEST(Bus, EachMemberOfADomainHasARingOfItsOwn) {
  const spec::Cluster cluster = two_units();
  // Strides of 4: two in a domain, eight in a unit.
  EXPECT_DOUBLE_EQ(bus_bytes_per_s(cluster, volume_only(), group_of(cluster, 16, 4)), 50e9);
  spec::Cluster narrow = cluster;
  narrow.oversubscription = 8;
  EXPECT_DOUBLE_EQ(bus_bytes_per_s(narrow, volume_only(), group_of(narrow, 16, 4)), 25e9);
}

TEST(Bus, OversubscriptionDoesNotReachInsideADomain) {
  EXPECT_DOUBLE_EQ(bus_bytes_per_s(two_units(), volume_only(), group_of(two_units(), 8, 1)), 300e9);
}

TEST(GroupOf, AWiderGroupSpansMoreUnits) {
  EXPECT_EQ(group_of(two_units(), 32, 1).units, 1);
  EXPECT_EQ(group_of(two_units(), 64, 1).units, 2);
  EXPECT_EQ(group_of(two_units(), 8, 8).units, 2);
  EXPECT_EQ(group_of(pod(), 64, 1).units, 1);
}

// Thakur et al. 2005: a gather or a scatter moves (n - 1)/n of the buffer, an all-reduce is one of each.
TEST(Collective, AnAllReduceMovesTwiceTheVolumeOfAReduceScatter) {
  const spec::Physics physics = volume_only();
  const Group group = group_of(pod(), 8, 1);
  EXPECT_DOUBLE_EQ(collective_s(pod(), physics, Verb::reduce_scatter, 300e9, group), 7.0 / 8);
  EXPECT_DOUBLE_EQ(collective_s(pod(), physics, Verb::all_gather, 300e9, group), 7.0 / 8);
  EXPECT_DOUBLE_EQ(collective_s(pod(), physics, Verb::all_reduce, 300e9, group), 7.0 / 4);
}

TEST(Collective, ASendMovesAllOfItsBytes) {
  const spec::Physics physics = volume_only();
  EXPECT_DOUBLE_EQ(collective_s(pod(), physics, Verb::send, 25e9, group_of(pod(), 2, 8)), 1);
  EXPECT_DOUBLE_EQ(collective_s(pod(), physics, Verb::send, 300e9, group_of(pod(), 2, 1)), 1);
}

TEST(Collective, OneRankCostsNothing) {
  const spec::Physics physics = spec::default_physics();
  for (const Verb verb : kCollectives) {
    EXPECT_EQ(collective_s(pod(), physics, verb, 1e9, group_of(pod(), 1, 1)), 0);
    EXPECT_EQ(collective_s(pod(), physics, verb, 0, group_of(pod(), 8, 1)), 0);
  }
}

TEST(Collective, ASmallBufferCostsLatency) {
  const spec::Physics physics = spec::default_physics();
  for (const Verb verb : kCollectives) {
    const double inside = collective_s(pod(), physics, verb, 8, group_of(pod(), 8, 1));
    EXPECT_GE(inside, physics.collective_latency_s);
    EXPECT_LT(inside, 2e-4);
    spec::Cluster far = pod();
    far.scale_out_latency_s = 5e-6;
    EXPECT_GT(collective_s(far, physics, verb, 8, group_of(far, 64, 1)), inside);
  }
}

TEST(Collective, MoreBytesTakeLongerAndMoreRanksNoLess) {
  const spec::Physics physics = spec::default_physics();
  const spec::Cluster large = pod(4096);
  for (const Verb verb : kCollectives) {
    double before = 0;
    for (double ranks = 16; ranks <= 4096; ranks *= 2) {
      const double now = collective_s(large, physics, verb, 1e8, group_of(large, ranks, 1));
      EXPECT_GE(now, before) << ranks;
      EXPECT_GT(collective_s(large, physics, verb, 2e8, group_of(large, ranks, 1)), now);
      before = now;
    }
  }
}

TEST(Collective, CrossingDomainsIsSlower) {
  const spec::Physics physics = spec::default_physics();
  for (const Verb verb : kCollectives) {
    EXPECT_GT(collective_s(pod(), physics, verb, 1e9, group_of(pod(), 8, 8)),
              4 * collective_s(pod(), physics, verb, 1e9, group_of(pod(), 8, 1)));
  }
}

TEST(Collective, WithoutAPathItNeverEnds) {
  spec::Cluster island = pod();
  island.scale_out_bytes_per_s = 0;
  const double year = 3.2e7;
  for (const Verb verb : kCollectives) {
    EXPECT_GT(collective_s(island, spec::default_physics(), verb, 1e6, group_of(island, 16, 1)), 1e6 * year);
  }
  EXPECT_GT(collective_s(island, spec::default_physics(), Verb::send, 1e6, group_of(island, 2, 8)), 1e6 * year);
}

Group all(const spec::Cluster& cluster) { return group_of(cluster, cluster.devices, 1); }

TEST(Exchange, TheSlowerOfTheTwoLegsDecides) {
  const spec::Physics physics = volume_only();
  EXPECT_DOUBLE_EQ(exchange_s(pod(), physics, all(pod()), 600e9, 25e9), 2);
  EXPECT_DOUBLE_EQ(exchange_s(pod(), physics, all(pod()), 300e9, 75e9), 3);
}

TEST(Exchange, OneLegIsEnough) {
  const spec::Physics physics = volume_only();
  EXPECT_DOUBLE_EQ(exchange_s(pod(), physics, all(pod()), 300e9, 0), 1);
  EXPECT_DOUBLE_EQ(exchange_s(pod(), physics, all(pod()), 0, 25e9), 1);
  EXPECT_EQ(exchange_s(pod(), physics, all(pod()), 0, 0), 0);
}

TEST(Exchange, HasALatency) {
  const spec::Physics physics = spec::default_physics();
  EXPECT_GE(exchange_s(pod(), physics, all(pod()), 8, 8), physics.collective_latency_s);
}

TEST(Exchange, WithoutAPathItNeverEnds) {
  spec::Cluster island = pod();
  island.scale_out_bytes_per_s = 0;
  EXPECT_GT(exchange_s(island, volume_only(), all(island), 1e6, 1e6), 1e13);
  spec::Cluster loose = pod();
  loose.scale_up_bytes_per_s = 0;
  EXPECT_GT(exchange_s(loose, volume_only(), all(loose), 1e6, 0), 1e13);
}

TEST(Exchange, WhatIsForOtherUnitsSharesTheUplinks) {
  const spec::Cluster cluster = two_units();
  // Of 56 members in other domains 32 are in the other unit.
  EXPECT_DOUBLE_EQ(exchange_s(cluster, volume_only(), group_of(cluster, 64, 1), 0, 56e9), 32.0 * 4 / 25);
  EXPECT_DOUBLE_EQ(exchange_s(cluster, volume_only(), group_of(cluster, 32, 1), 0, 25e9), 1);
}

}  // namespace
}  // namespace twinpod::cluster
