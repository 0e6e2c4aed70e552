// Runs a workload on a cluster.
//
//     const Result<WorkloadRun> run = run_workload(*workload, {cluster, physics, 64});
//     run->step_s; run->ranks[0].exposed_s
//
// A node starts when what it waits for has ended and its lane is free: one lane for computation, one for the host, one
// for loads and stores, one for sends, one for each process group. Of nodes that could start, the one that was ready
// first does; of those the one with the lowest place in the file.
// The n-th collective of a group (in the order of the file) is the n-th of every member; it starts when all have come.
//
// Seconds: duration_micros where it is given; else a compute node takes the longer of num_ops at the device's rate and
// tensor_size at its memory's. Communication always takes what the cluster's network needs for its bytes and its
// members (cluster/network.hpp), never what the file says: that was another network.
#pragma once

#include <vector>

#include "chakra/workload.hpp"
#include "spec/cluster.hpp"
#include "spec/physics.hpp"

namespace twinpod::chakra {

struct WorkloadPlace {
  const spec::Cluster& cluster;
  const spec::Physics& physics;
  int ranks = 0;  // that a list which stands for all is run on
};

struct NodeSpan {
  double start_s = -1;
  double end_s = -1;
};

struct RankRun {
  double compute_s = 0;
  double communication_s = 0;  // under way, however many at a time
  double exposed_s = 0;        // of it: while nothing was computed
  double end_s = 0;
  std::vector<NodeSpan> nodes;
};

struct WorkloadRun {
  double step_s = 0;
  std::vector<RankRun> ranks;
  std::size_t nodes = 0;
  std::size_t untimed = 0;  // compute, load, store and other nodes that say neither how long nor how much
};

// Input errors name the file, the node and what it waits for in vain; infeasible: more ranks than devices.
Result<WorkloadRun> run_workload(const Workload& workload, const WorkloadPlace& place);

}  // namespace twinpod::chakra
