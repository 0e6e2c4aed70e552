// Which switches a tree of switches has, before any is made: the counting rules of fat trees.
//
// Switches of a tier stand in groups; all switches of a group reach the same leaves. A group has `blocks` equal parts,
// and switch p of a child group with m switches has its links up to the switches of block p * blocks / m, in turn.
//
//     DGX SuperPOD A100 with 140 nodes:   56 leaves, each a group of its own, 20 links up
//                                         8 groups (one a rail) of 10 spines, 14 links up, 2 to each leaf
//                                         1 group of 28 cores in 2 blocks
//
// Rail rule (n nodes of a unit, radix k): one leaf for each rail of each unit, n links up. Two tiers: s = smallest
// divisor of n with s >= links up of all leaves / k. When s would exceed n, three tiers: the leaves of one rail in one
// pod share g = smallest divisor of n with g >= links up of these leaves / (k/2) spines, whose links up equal those
// down; cores = links up of all spines / k, in as many blocks as divide both; pods are doubled while a core has fewer
// ports than there are groups of spines. This gives every row of NVIDIA's tables for H100, B200 and B300 (RA-11333-001
// and its successors).
//
// Fat tree (radix k, oversubscription o): leaves with k o/(1+o) ports down and the rest up; spines as few as carry
// that; more tiers as long as one more switch of k ports cannot see all groups (Al-Fares et al., SIGCOMM 2008, for o =
// 1).
#pragma once

#include <vector>

#include "cluster/topology_parts.hpp"
#include "core/error.hpp"

namespace twinpod::cluster {

struct TierPlan {
  int groups = 1;
  int per_group = 1;        // switches
  int blocks = 1;           // parts of a group
  int up = 0;               // links up of a switch; 0: the top
  std::vector<int> parent;  // of each group: its group in the next tier; empty: the top
};

struct TreePlan {
  std::vector<TierPlan> tiers;
  int radix = 0;
  // Where port p of NIC r of node i is plugged in.
  bool by_rail = false;
  int unit_nodes = 1;  // by rail
  int rails = 1;
  int planes = 1;
  int leaf_down = 1;  // else: ports of a leaf, filled in turn
};

Result<TreePlan> tree_plan(const Machine& machine);

}  // namespace twinpod::cluster
