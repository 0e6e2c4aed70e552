#include "cluster/route.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "cluster/topology.hpp"
#include "core/rng.hpp"
#include "spec/catalog.hpp"

namespace twinpod::cluster {
namespace {

Graph graph_of(const std::string& name, int devices = 0, const std::string& slice = "") {
  Result<spec::Cluster> cluster = spec::Catalog(TWINPOD_CATALOG_DIR).cluster(name);
  EXPECT_TRUE(cluster.has_value()) << name;
  if (devices > 0) {
    EXPECT_TRUE(apply_devices(*cluster, devices).has_value());
  }
  if (!slice.empty()) {
    EXPECT_TRUE(apply_slice(*cluster, slice).has_value());
  }
  Result<Graph> graph = build_graph(*cluster);
  EXPECT_TRUE(graph.has_value()) << to_string(graph.error());
  return graph ? std::move(*graph) : Graph{};
}

// Begins and ends right, each link begins where the last one ended, no link is cut and no vertex is met twice.
bool is_route(const Graph& graph, int from, int to, const std::vector<int>& links) {
  int at = graph.devices[from];
  std::set<int> met = {at};
  for (const int link : links) {
    if (graph.links[link].from != at || graph.links[link].bytes_per_s <= 0) return false;
    at = graph.links[link].to;
    if (!met.insert(at).second) return false;
  }
  return at == graph.devices[to];
}

void expect_routes(const Graph& graph, const std::string& what, int pairs = 400) {
  Rng rng(7);
  const auto devices = static_cast<std::uint64_t>(graph.num_devices());
  for (int i = 0; i < pairs; ++i) {
    const int from = static_cast<int>(rng.below(devices));
    const int to = static_cast<int>(rng.below(devices));
    for (const auto& [name, routing] : kRoutingNames) {
      const std::vector<int> links = route(graph, from, to, routing, rng.next());
      ASSERT_TRUE(is_route(graph, from, to, links)) << what << ": " << from << " to " << to << " by " << name;
    }
  }
}

TEST(Route, JoinsEveryPairOnEveryKindOfGraph) {
  for (const char* const name :
       {"dgx-superpod-a100-140", "h100-superpod", "alibaba-hpn-7", "meta-24k-h100", "rail-only-h100", "dragonfly-h100",
        "frontier", "gb200-superpod", "cloudmatrix-9216", "mi300x-1024", "v100-dgx1-64", "dgx-2", "tpu-v4-4096",
        "tpu-v5e-32x256", "trn2-ultracluster", "atlas-900-910a", "gaudi2-1024", "b300-superpod-spectrum-x"}) {
    expect_routes(graph_of(name), name);
  }
}

TEST(Route, IsEmptyFromADeviceToItself) { EXPECT_TRUE(route(graph_of("dgx-a100"), 3, 3, Routing::ecmp).empty()); }

std::vector<std::string> names_along(const Graph& graph, const std::vector<int>& links) {
  std::vector<std::string> names;
  for (const int link : links) names.push_back(vertex_name(graph, graph.links[link].to));
  return names;
}

TEST(Route, SameRailOfOneUnitMeetsInItsLeaf) {
  const Graph graph = graph_of("dgx-superpod-a100-140");
  EXPECT_EQ(names_along(graph, route(graph, 3, 11, Routing::rail)),
            (std::vector<std::string>{"node0/pcie1", "node0/nic3", "leaf3", "node1/nic3", "node1/pcie1", "gpu11"}));
}

TEST(Route, AnotherRailIsReachedThroughANeighbour) {
  const Graph graph = graph_of("dgx-superpod-a100-140");
  const std::vector<std::string> names = names_along(graph, route(graph, 0, 11, Routing::rail));
  EXPECT_EQ(names[0], "node0/nvswitch0");
  EXPECT_EQ(names[1], "gpu3");
  EXPECT_EQ(names[4], "leaf3");
}

TEST(Route, EcmpChangesRailsInTheFabric) {
  const Graph graph = graph_of("dgx-superpod-a100-140");
  const std::vector<int> links = route(graph, 0, 11, Routing::ecmp);
  EXPECT_EQ(links.size(), 10U) << "leaf, spine, core, spine, leaf";
}

TEST(Route, SaltChoosesAmongEqualPaths) {
  const Graph graph = graph_of("dgx-superpod-a100-140");
  std::set<int> first;
  for (std::uint64_t salt = 0; salt < 400; ++salt) first.insert(route(graph, 0, 1112, Routing::ecmp, salt)[3]);
  EXPECT_EQ(first.size(), 20U) << "all links up of the leaf";
}

TEST(Route, FixedRoutesToAUnitDoNotShareLinksUpOrDown) {
  const Graph graph = graph_of("dgx-superpod-a100-140");
  std::map<int, int> flows;
  for (int node = 0; node < 20; ++node) {  // rail 0 of unit 0 to rail 0 of unit 6, node by node
    for (const int link : route(graph, node * 8, (120 + node) * 8, Routing::rail)) ++flows[link];
  }
  for (const auto& [link, count] : flows) EXPECT_EQ(count, 1) << link_name(graph, link);
}

TEST(Route, StaysInsideADomain) {
  const Graph graph = graph_of("gb200-superpod-8");
  EXPECT_EQ(route(graph, 0, 71, Routing::ecmp).size(), 2U);
  EXPECT_EQ(route(graph, 0, 72, Routing::ecmp).size(), 6U);
}

TEST(Route, BoardsOfADgx2AreOneLinkApart) {
  const Graph graph = graph_of("dgx-2");
  EXPECT_EQ(route(graph, 0, 7, Routing::ecmp).size(), 2U);
  EXPECT_EQ(route(graph, 0, 8, Routing::ecmp).size(), 3U);
}

TEST(Route, HybridCubeMeshGoesThroughOneDeviceAtMost) {
  const Graph graph = graph_of("dgx-1v");
  for (int from = 0; from < 8; ++from) {
    for (int to = 0; to < 8; ++to) EXPECT_LE(route(graph, from, to, Routing::ecmp, 1).size(), 2U);
  }
}

TEST(Route, TorusTakesTheShorterWayRound) {
  const Graph graph = graph_of("tpu-v4-4096");
  const auto chip = [](int x, int y, int z) { return (x * 16 + y) * 16 + z; };
  EXPECT_EQ(route(graph, chip(0, 0, 0), chip(15, 0, 0), Routing::dimension_order).size(), 1U);
  EXPECT_EQ(route(graph, chip(1, 2, 3), chip(9, 14, 0), Routing::dimension_order).size(), 8U + 4U + 3U);
}

TEST(Route, DimensionOrderGoesAlongXFirst) {
  const Graph graph = graph_of("tpu-v4-4096", 0, "4x4x4");
  EXPECT_EQ(names_along(graph, route(graph, 0, 1 * 16 + 1 * 4 + 1, Routing::dimension_order)),
            (std::vector<std::string>{"chip(1,0,0)", "chip(1,1,0)", "chip(1,1,1)"}));
}

TEST(Route, MeshAxesAreNotWrapped) {
  const Graph graph = graph_of("tpu-v5e-256", 0, "8x16");
  EXPECT_EQ(route(graph, 0, 7 * 16, Routing::dimension_order).size(), 7U);
  EXPECT_EQ(route(graph, 0, 15, Routing::dimension_order).size(), 1U);
}

// A twisted torus is walked by differences of chips; breadth-first search knows nothing of that.
TEST(Route, TwistedRoutesAreShortest) {
  for (const char* const slice : {"4x4x8_twisted", "4x8x8_twisted"}) {
    const Graph graph = graph_of("tpu-v4-4096", 0, slice);
    for (int from = 0; from < graph.num_devices(); from += 7) {
      for (int to = 0; to < graph.num_devices(); ++to) {
        const std::vector<int> links = route(graph, from, to, Routing::ecmp, 3);
        ASSERT_TRUE(is_route(graph, from, to, links)) << slice << " " << from << " to " << to;
        for (const int link : links) {
          const std::vector<int> nearer = next_hops(graph, graph.links[link].from, to);
          ASSERT_TRUE(std::find(nearer.begin(), nearer.end(), link) != nearer.end());
        }
      }
    }
  }
}

TEST(Route, TwistingShortensTheLongestRoute) {
  const auto longest = [](const Graph& graph) {
    std::size_t most = 0;
    for (int to = 0; to < graph.num_devices(); ++to) most = std::max(most, route(graph, 0, to, Routing::ecmp).size());
    return most;
  };
  EXPECT_LT(longest(graph_of("tpu-v4-4096", 0, "4x4x8_twisted")), longest(graph_of("tpu-v4-4096", 0, "4x4x8")));
}

TEST(Route, AvoidsWhatIsCut) {
  Graph graph = graph_of("dgx-superpod-a100-140");
  for (const char* const name :
       {"leaf0-spine0", "leaf1-spine15:1", "node5/nic3-leaf3", "spine8-core14", "gpu9-node1/nvswitch0"}) {
    const Result<std::vector<int>> links = find_links(graph, name);
    ASSERT_TRUE(links.has_value()) << to_string(links.error());
    cut_links(graph, *links);
  }
  ASSERT_TRUE(check_connected(graph).has_value());
  expect_routes(graph, "with cuts", 2000);
}

TEST(Route, ACutNicIsReplacedByThatOfANeighbour) {
  Graph graph = graph_of("dgx-superpod-a100-140");
  cut_links(graph, *find_links(graph, "node0/nic0-leaf0"));
  const std::vector<int> links = route(graph, 0, 1112, Routing::ecmp);
  EXPECT_TRUE(is_route(graph, 0, 1112, links));
  EXPECT_EQ(vertex_name(graph, graph.links[links[0]].to), "node0/nvswitch0");
}

TEST(Route, TorusGoesAroundACutLink) {
  Graph graph = graph_of("tpu-v4-4096", 0, "4x4x4");
  cut_links(graph, *find_links(graph, "chip(0,0,0)-chip(1,0,0)"));
  const std::vector<int> links = route(graph, 0, 16, Routing::dimension_order);
  EXPECT_TRUE(is_route(graph, 0, 16, links));
  EXPECT_EQ(links.size(), 3U);
}

TEST(Route, EqualRoutesAreDifferentAndAsShort) {
  const Graph graph = graph_of("dgx-superpod-a100-140");
  const std::vector<std::vector<int>> routes = equal_routes(graph, 0, 1112, 50);
  EXPECT_EQ(routes.size(), 40U) << "20 links up, and 2 down to the leaf from each spine";
  for (const std::vector<int>& links : routes) EXPECT_EQ(links.size(), routes.front().size());
}

TEST(Route, NextHopsOfALeafAreItsLinksUp) {
  const Graph graph = graph_of("dgx-superpod-a100-140");
  EXPECT_EQ(next_hops(graph, find_vertex(graph, "leaf0"), 1112).size(), 20U);
  EXPECT_EQ(next_hops(graph, find_vertex(graph, "leaf0"), 8).size(), 1U);
}

TEST(Route, RepeatsItself) {
  const Graph graph = graph_of("h100-superpod-512");
  EXPECT_EQ(route(graph, 5, 4000, Routing::ecmp, 9), route(graph, 5, 4000, Routing::ecmp, 9));
}

}  // namespace
}  // namespace twinpod::cluster
