// What the wiring of a cluster leaves to a collective: the traffic of rings, trees and all-to-alls is laid on the
// graph, and what it reaches there is compared with what links and interfaces could do by themselves.
//
//     const CollectiveGroups groups{.ranks = 140, .stride = 8, .groups = 8};       // 8 rings on 8 rails, all at once
//     const Result<Sharing> sharing = network_share({graph, graph, cluster, routing}, groups,
//     CollectiveVerb::all_reduce); sharing->share.ring == 1                                                      //
//     nobody is in anybody's way
//
// Rings go through a node once for each of its interfaces and begin at another device each time, as NCCL's channels do.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "cluster/collective_cost.hpp"
#include "cluster/graph.hpp"
#include "cluster/route.hpp"
#include "core/error.hpp"
#include "sim/flow.hpp"

namespace twinpod::sim {

// Rank i of a group is `stride` devices after rank i - 1. Groups lie between each other, `stride` of them in a row of
// ranks * stride devices; then comes the next row.
struct CollectiveGroups {
  int ranks = 2;
  int stride = 1;
  int groups = 1;  // at the same time
  int device(int group, int rank) const { return group / stride * ranks * stride + group % stride + rank * stride; }
  // Devices up to the last one in use; rows of several groups count as a whole.
  int devices() const {
    return groups == 1 ? (ranks - 1) * stride + 1 : (groups + stride - 1) / stride * ranks * stride;
  }
};

// Where collectives run.
struct CollectivePlace {
  const cluster::Graph& graph;
  const cluster::Graph& healthy;  // the same before anything was cut or slowed
  const spec::Cluster& cluster;
  cluster::Routing routing = cluster::Routing::ecmp;
};

struct Sharing {
  cluster::NetworkShare share;
  double crossing_latency_s = -1;  // of the way between domains, mean over the ring; -1: no ring leaves its domain
  int hottest_link = -1;           // of the traffic that decides
  double hottest_share = 0;        // how busy it is
  std::size_t flows = 0;
  std::size_t flow_kinds = 0;
};

// Of the traffic that the verb's algorithms make: rings, trees for an all-reduce (unless only rings are asked for),
// pairs for an all-to-all.
// Refused: groups that need more devices than there are; an all-to-all too large to look at.
Result<Sharing> network_share(const CollectivePlace& place, const CollectiveGroups& groups,
                              cluster::CollectiveVerb verb,
                              const std::optional<cluster::NcclAlgorithm>& only = std::nullopt);

// Seconds that the busiest link needs when every rank sends one byte to each other rank of its group, all at once; and
// which link that is. Exact for up to 2,048 ranks in all and for whole tori; beyond, flows to one device from behind
// one switch share their way.
struct PairLoad {
  double seconds = 0;
  int link = -1;
};
// `every_pair_ranks`: up to so many, each pair has its route.
Result<PairLoad> pair_load(const cluster::Graph& graph, const CollectiveGroups& groups, cluster::Routing routing,
                           int every_pair_ranks = 2048);

// Whether the group is a whole torus with all its wraps and nothing cut or slowed, which looks the same from every
// device.
bool is_uniform_torus(const cluster::Graph& graph, const CollectiveGroups& groups);

// Of each link of a torus twice the number of its axis, plus one backwards; -1: no link of the torus.
std::vector<int> torus_link_kinds(const cluster::Graph& graph);

// Links as the flows know them.
std::vector<FlowLink> flow_links(const cluster::Graph& graph, bool with_latency);

// Number of the scale-up domain of a device; each device its own where there are none.
int domain_of(const cluster::Graph& graph, int device);

}  // namespace twinpod::sim
