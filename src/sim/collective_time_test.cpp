#include "sim/collective_time.hpp"

#include <gtest/gtest.h>

#include "cluster/topology.hpp"
#include "spec/catalog.hpp"

namespace twinpod::sim {
namespace {

using cluster::CollectiveSystem;
using cluster::Graph;
using collective::Algorithm;
using collective::Verb;

// A cluster of the catalog with everything that a table needs.
struct Machine {
  explicit Machine(const std::string& name, const std::string& slice = "")
      : cluster(spec::Catalog(TWINPOD_CATALOG_DIR).cluster(name).value()) {
    if (!slice.empty()) {
      EXPECT_TRUE(cluster::apply_slice(cluster, slice).has_value());
    }
    graph = cluster::build_graph(cluster).value();
    healthy = graph;
    const auto catalog = cluster::read_collectives(std::string(TWINPOD_CATALOG_DIR) + "/collectives.yaml");
    system = cluster::system_of(*catalog, cluster);
  }
  CollectivePlace place() const { return {graph, healthy, cluster, cluster::usual_routing(graph)}; }
  Result<CollectiveTable> table(const CollectiveRequest& request) const {
    return collective_table(place(), system, request);
  }
  spec::Cluster cluster;
  Graph graph;
  Graph healthy;
  CollectiveSystem system;
};

CollectiveRequest request_for(Verb verb, int ranks, double bytes) {
  CollectiveRequest request;
  request.verb = verb;
  request.groups.ranks = ranks;
  request.bytes = {bytes};
  return request;
}

double time_of(const Machine& machine, const CollectiveRequest& request) {
  const Result<CollectiveTable> table = machine.table(request);
  EXPECT_TRUE(table.has_value()) << to_string(table.error());
  return table ? table->rows.at(0).time_s : 0;
}

TEST(CollectiveTable, IsTheTunersWhereNothingIsInTheWay) {
  const Machine node("dgx-h100");
  for (const double bytes : {1e4, 1e6, 1e9}) {
    const double alone = cluster::collective_cost(node.system, cluster::CollectiveVerb::all_reduce, 8, bytes).time_s;
    EXPECT_NEAR(time_of(node, request_for(Verb::all_reduce, 8, bytes)) / alone, 1, 1e-9);
  }
}

TEST(CollectiveTable, BandwidthsFollowFromTheTime) {
  const Machine pod("dgx-superpod-a100-140");
  const CollectiveRow row = pod.table(request_for(Verb::all_reduce, 1120, 1e9))->rows[0];
  EXPECT_DOUBLE_EQ(row.algbw_bytes_per_s, 1e9 / row.time_s);
  EXPECT_DOUBLE_EQ(row.busbw_bytes_per_s, row.algbw_bytes_per_s * 2 * 1119 / 1120);
  EXPECT_LT(row.busbw_bytes_per_s, 8 * 25e9);
}

TEST(CollectiveTable, SwitchesThatAddUpHalveTheTraffic) {
  const Machine pod("dgx-superpod-a100-140");
  CollectiveRequest request = request_for(Verb::all_reduce, 1120, 4e9);
  const double without = time_of(pod, request);
  request.sharp = true;
  EXPECT_EQ(pod.table(request)->rows[0].algorithm, "collnet");
  EXPECT_LT(time_of(pod, request), 0.8 * without);
}

TEST(CollectiveTable, OneRankTakesNoTime) {
  const Machine node("dgx-a100");
  EXPECT_EQ(time_of(node, request_for(Verb::all_reduce, 1, 1e9)), 0);
}

TEST(CollectiveTable, EveryVerbAndAlgorithmHasATime) {
  const Machine pod("dgx-superpod-a100-20");
  const Machine torus("tpu-v4-4096", "2x2x4");
  for (const auto& [name, verb] : collective::kVerbNames) {
    for (const Algorithm algorithm : collective::algorithms_of(verb)) {
      if (algorithm == Algorithm::in_network) continue;
      CollectiveRequest request = request_for(verb, 16, verb == Verb::barrier ? 0 : 1e8);
      request.algorithm = algorithm;
      EXPECT_GT(time_of(torus, request), 0) << name;
      if (algorithm != Algorithm::torus) {
        EXPECT_GT(time_of(pod, request), 0) << name;
      }
    }
    EXPECT_GT(time_of(pod, request_for(verb, 16, 1e8)), 0) << name;
    EXPECT_GT(time_of(torus, request_for(verb, 16, 1e8)), 0) << name;
  }
}

// On a uniform torus one chip stands for all; with a link slowed by next to nothing all flows are simulated.
TEST(CollectiveTable, OneChipStandsForTheTorus) {
  const Machine torus("tpu-v4-4096", "4x4x8");
  Machine other = torus;
  cluster::slow_links(other.graph, {0, 1}, 1 - 1e-12);
  CollectiveRequest request = request_for(Verb::all_reduce, 128, 1e9);
  request.algorithm = Algorithm::torus;
  EXPECT_NEAR(time_of(other, request) / time_of(torus, request), 1, 1e-9);
  EXPECT_LT(torus.table(request)->flows, 100U);
  EXPECT_GT(other.table(request)->flows, 1000U);
}

// Axes of 4, 4 and 4 chips with links both ways: each chip has six links, all of them always busy.
TEST(CollectiveTable, ATorusUsesAllLinks) {
  const Machine torus("tpu-v4-4096", "4x4x4");
  CollectiveRequest request = request_for(Verb::all_reduce, 64, 1e10);
  request.algorithm = Algorithm::torus;
  const double bus = torus.table(request)->rows[0].busbw_bytes_per_s;
  const double links = 6 * 50e9 * spec::default_physics().scale_up_efficiency;
  EXPECT_NEAR(bus / links, 1, 0.01);
}

TEST(CollectiveTable, ACutLinkCosts) {
  Machine torus("tpu-v4-4096", "4x4x4");
  const CollectiveRequest request = request_for(Verb::all_to_all, 64, 1e9);
  const double before = time_of(torus, request);
  cluster::cut_links(torus.graph, cluster::find_links(torus.graph, "chip(0,0,0)-chip(0,0,1)").value());
  EXPECT_GT(time_of(torus, request), 1.05 * before);
  EXPECT_LT(time_of(torus, request), 3 * before);
}

TEST(CollectiveTable, GroupsThatShareCablesSlowEachOtherDown) {
  const Machine tree("meta-24k-h100");
  CollectiveRequest alone = request_for(Verb::all_gather, 16, 1e9);
  alone.groups.stride = 1536;  // one rank in each pod
  CollectiveRequest together = alone;
  together.groups.groups = 1536;
  EXPECT_GT(time_of(tree, together), 1.5 * time_of(tree, alone));
}

TEST(CollectiveTable, RefusesWhatTheHardwareCannotDo) {
  const Machine node("dgx-a100");
  CollectiveRequest request = request_for(Verb::all_reduce, 8, 1e6);
  request.algorithm = Algorithm::in_network;
  EXPECT_EQ(node.table(request).error().kind, ErrorKind::infeasible);
  request.verb = Verb::scatter;
  request.algorithm = Algorithm::ring;
  ASSERT_FALSE(node.table(request).has_value());
  EXPECT_EQ(node.table(request).error().message, "scatter has no algorithm ring");
  EXPECT_EQ(node.table(request_for(Verb::all_reduce, 9, 1e6)).error().hint, "--ranks 8 would fit");
}

TEST(CollectiveTable, TakesAScheduleOfItsOwn) {
  const Machine node("dgx-a100");
  const collective::Schedule ring = collective::make_schedule(Verb::all_gather, Algorithm::ring, 8, {}).value();
  CollectiveRequest request = request_for(Verb::all_gather, 8, 1e9);
  request.schedule = &ring;
  const CollectiveTable table = *node.table(request);
  EXPECT_EQ(table.rows[0].algorithm, "schedule");
  EXPECT_NEAR(
      table.rows[0].busbw_bytes_per_s / (300e9 * node.system.family.bus_share * node.system.numbers.share_simple), 1,
      0.05);
}

}  // namespace
}  // namespace twinpod::sim
