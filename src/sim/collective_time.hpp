// How long collectives take on a cluster: the table that nccl-tests would print there.
//
//     const CollectivePlace place{graph, graph, cluster, cluster::usual_routing(graph)};
//     CollectiveRequest request{.verb = Verb::all_reduce, .groups = {.ranks = 1120}, .bytes = {1 << 20, 1 << 30}};
//     const Result<CollectiveTable> table = collective_table(place, cluster::system_of(catalog, cluster), request);
//     table->rows[1].busbw_bytes_per_s
//
// Two ways to a time:
//   - What NCCL runs (rings, trees, switches that reduce, sends between all pairs) is timed by its own tuner with the
//     corrections that measurements gave (cluster/collective_cost.hpp), at the rates that the wiring leaves
//     (sim/network_share.hpp).
//   - Every other algorithm of `collective` is simulated phase by phase as flows on the links of the graph, with the
//     system's latency for each message. So is everything on a torus or on a graph of one's own, where the fastest of
//     the usual algorithms is taken.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collective/names.hpp"
#include "collective/schedule.hpp"
#include "sim/network_share.hpp"

namespace twinpod::sim {

struct CollectiveRequest {
  collective::Verb verb = collective::Verb::all_reduce;
  std::optional<collective::Algorithm> algorithm = {};  // none: the tuner's choice
  CollectiveGroups groups = {};
  std::vector<double> bytes = {};
  bool sharp = false;  // switches of the fabric may add up
  int root = 0;
  int peer = 1;                                    // of a send
  const collective::Schedule* schedule = nullptr;  // in the place of an algorithm; of the same verb and ranks
};

struct CollectiveRow {
  double bytes = 0;
  std::string algorithm;
  std::string protocol;  // empty: none, the flows of a schedule
  int channels = 0;      // 0: not of NCCL's tuner
  double chunk_bytes = 0;
  double time_s = 0;
  double algbw_bytes_per_s = 0;
  double busbw_bytes_per_s = 0;
};

struct CollectiveTable {
  std::vector<CollectiveRow> rows;
  bool tuned = false;        // by NCCL's model; false: flows of schedules
  double network_share = 1;  // of the rates by data sheet, for the last row
  int hottest_link = -1;     // with the most to do
  double hottest_share = 0;
  std::size_t flows = 0;
  std::size_t flow_kinds = 0;
};

Result<CollectiveTable> collective_table(const CollectivePlace& place, const cluster::CollectiveSystem& system,
                                         const CollectiveRequest& request);

// The fastest of what libraries would use on such a cluster, in the order in which they are tried.
std::vector<collective::Algorithm> usual_algorithms(const cluster::Graph& graph, const CollectiveRequest& request);

// Axes as collective::Shape wants them: devices next to each other in number are neighbours on the first. In a graph
// they are neighbours on the last.
std::vector<int> torus_by_rank(const cluster::Graph& graph);

}  // namespace twinpod::sim
