#include "cluster/fabric_load.hpp"

#include <gtest/gtest.h>

#include "cluster/route.hpp"
#include "cluster/topology.hpp"
#include "spec/catalog.hpp"

namespace twinpod::cluster {
namespace {

Graph pod() { return build_graph(spec::Catalog(TWINPOD_CATALOG_DIR).cluster("dgx-superpod-a100-140").value()).value(); }

// A byte from every leaf of the first rail to one port, laid on the links of its fixed routes.
TEST(FabricLoads, FixedTrafficTakesTheLinksOfItsRoutes) {
  const Graph graph = pod();
  const int to = 1064;
  std::vector<double> expected(graph.links.size());
  std::vector<FabricSource> sources;
  for (int node = 0; node < 120; node += 20) {  // one node of each scalable unit
    const std::vector<int> links = route(graph, 8 * node, to, Routing::rail);
    for (const int link : links) {
      const GraphLink& one = graph.links[link];
      if (one.from >= graph.tree.first_vertex && one.to >= graph.tree.first_vertex) expected[link] += 1;
    }
    sources.push_back({port_of(graph, 8 * node, 0).leaf, 1});
  }
  FabricLoads loads(graph);
  EXPECT_TRUE(loads.spread(sources, port_of(graph, to, 0), true).empty());
  EXPECT_EQ(loads.bytes, expected);
}

TEST(FabricLoads, LiftedTrafficIsTheSame) {
  const Graph graph = pod();
  const NicPort& to = port_of(graph, 1064, 0);
  const std::vector<FabricSource> sources = {{0, 3}, {8, 2}, {to.leaf, 5}};
  for (const bool fixed : {true, false}) {
    FabricLoads once(graph);
    once.spread(sources, to, fixed);
    FabricLoads lifted(graph);
    lifted.spread_lifted(lifted.lift(sources, to.slot, fixed, 1), {{to.leaf, -5}}, to, fixed);
    for (std::size_t l = 0; l < graph.links.size(); ++l) EXPECT_NEAR(once.bytes[l], lifted.bytes[l], 1e-12);
  }
}

TEST(FabricLoads, CutLinksCarryNothingAndNothingIsLost) {
  Graph graph = pod();
  const NicPort to = port_of(graph, 1064, 0);
  FabricLoads before(graph);
  before.spread({{0, 1}}, to, true);
  std::vector<int> used;
  for (std::size_t l = 0; l < before.bytes.size(); ++l) {
    if (before.bytes[l] > 0) used.push_back(static_cast<int>(l));
  }
  for (const int link : used) {
    Graph broken = graph;
    cut_links(broken, {link, link ^ 1});
    FabricLoads after(broken);
    EXPECT_TRUE(after.spread({{0, 1}}, to, true).empty());
    EXPECT_EQ(after.bytes[link], 0);
    double arriving = 0;
    for (std::size_t l = 0; l < after.bytes.size(); ++l) {
      if (broken.links[l].to == broken.tree.first_vertex + to.leaf) arriving += after.bytes[l];
    }
    EXPECT_NEAR(arriving, 1, 1e-12);
  }
}

TEST(FabricLoads, SaysWhatHasNoWay) {
  Graph graph = pod();
  for (int i = graph.tree.first_up[0]; i < graph.tree.first_up[1]; ++i) {
    cut_links(graph, {graph.tree.up[i], graph.tree.up[i] ^ 1});
  }
  FabricLoads loads(graph);
  const std::vector<FabricSource> stuck = loads.spread({{0, 1}, {8, 1}}, port_of(graph, 1064, 0), true);
  ASSERT_EQ(stuck.size(), 1U);
  EXPECT_EQ(stuck[0].leaf, 0);
}

}  // namespace
}  // namespace twinpod::cluster
