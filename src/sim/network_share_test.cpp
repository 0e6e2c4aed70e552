#include "sim/network_share.hpp"

#include <gtest/gtest.h>

#include "cluster/topology.hpp"
#include "spec/catalog.hpp"
#include "spec/node.hpp"
#include "spec/read.hpp"

namespace twinpod::sim {
namespace {

using cluster::CollectiveVerb;
using cluster::Graph;
using cluster::Routing;

spec::Cluster entry(const std::string& name) { return spec::Catalog(TWINPOD_CATALOG_DIR).cluster(name).value(); }

spec::Cluster written(const std::string& text) {
  const Result<spec::Node> root = spec::parse_yaml(text, "c.yaml");
  return spec::read_cluster(*root, "c.yaml", spec::Catalog(TWINPOD_CATALOG_DIR)).value();
}

// Nodes of eight devices under leaves of four nodes, with half the uplinks.
spec::Cluster narrow_tree(int devices) {
  return written("{name: narrow, node: dgx-h100, devices: " + std::to_string(devices) +
                 ", topology: {fabric: fat_tree, radix: 64, leaf_nodes: 4, leaf_up: 16}}");
}

double ring_share(const spec::Cluster& cluster, const Graph& graph, const CollectiveGroups& groups) {
  const CollectivePlace place{graph, graph, cluster, cluster::usual_routing(graph)};
  const Result<Sharing> sharing = network_share(place, groups, CollectiveVerb::reduce_scatter);
  EXPECT_TRUE(sharing.has_value()) << to_string(sharing.error());
  return sharing ? sharing->share.ring : 0;
}

// What the busiest link has to do, with a route for each pair.
double every_pair(const Graph& graph, const CollectiveGroups& groups, Routing routing) {
  std::vector<double> loads(graph.links.size());
  for (int g = 0; g < groups.groups; ++g) {
    for (int i = 0; i < groups.ranks; ++i) {
      for (int j = 0; j < groups.ranks; ++j) {
        for (const int link : cluster::route(graph, groups.device(g, i), groups.device(g, j), routing))
          loads[link] += 1;
      }
    }
  }
  double most = 0;
  for (std::size_t l = 0; l < loads.size(); ++l) {
    if (loads[l] > 0) most = std::max(most, loads[l] / graph.links[l].bytes_per_s);
  }
  return most;
}

TEST(CollectiveGroups, LieBetweenEachOther) {
  const CollectiveGroups groups{4, 8, 16};
  EXPECT_EQ(groups.device(0, 3), 24);
  EXPECT_EQ(groups.device(7, 0), 7);
  EXPECT_EQ(groups.device(8, 0), 32);
  EXPECT_EQ(groups.devices(), 64);
}

TEST(NetworkShare, RingsOfASuperPodHaveAllInterfaces) {
  const spec::Cluster pod = entry("dgx-superpod-a100-140");
  const Graph graph = cluster::build_graph(pod).value();
  EXPECT_NEAR(ring_share(pod, graph, {1120, 1, 1}), 1, 1e-9);
  EXPECT_NEAR(ring_share(pod, graph, {140, 8, 8}), 1, 1e-9);
}

// Every second step of the ring leaves its leaf: 32 flows on 16 cables.
TEST(NetworkShare, ASlowTreeHalvesWhatEveryoneSendsThroughIt) {
  const spec::Cluster tree = narrow_tree(64);
  const Graph graph = cluster::build_graph(tree).value();
  EXPECT_NEAR(ring_share(tree, graph, {2, 32, 32}), 0.5, 1e-9);
  EXPECT_NEAR(ring_share(tree, graph, {4, 8, 8}), 1, 1e-9);  // stays below its leaf
}

TEST(NetworkShare, OneSlowCableSlowsTheRingThroughIt) {
  const spec::Cluster node = entry("dgx-a100");
  Graph graph = cluster::build_graph(node).value();
  const Graph healthy = graph;
  cluster::slow_links(graph, cluster::find_links(graph, "gpu3-node0/nvswitch0").value(), 0.5);
  const CollectivePlace place{graph, healthy, node, Routing::rail};
  const Sharing sharing = network_share(place, {8, 1, 1}, CollectiveVerb::all_reduce).value();
  EXPECT_NEAR(sharing.share.ring, 0.5, 1e-9);
  EXPECT_NEAR(sharing.share.domain, 0.5, 1e-9);
  EXPECT_NE(cluster::link_name(graph, sharing.hottest_link).find("gpu3"), std::string::npos);
}

TEST(NetworkShare, APartOfANodeHasFewerInterfaces) {
  const spec::Cluster pod = entry("dgx-superpod-a100-140");
  const Graph graph = cluster::build_graph(pod).value();
  // The second node has one rank, so that all eight channels enter and leave it through one interface.
  EXPECT_NEAR(ring_share(pod, graph, {9, 1, 1}), 1.0 / 8, 1e-9);
}

TEST(NetworkShare, CrossingsTakeTheLatencyOfTheirWay) {
  const spec::Cluster pod = entry("dgx-superpod-a100-140");
  const Graph graph = cluster::build_graph(pod).value();
  const CollectivePlace place{graph, graph, pod, cluster::usual_routing(graph)};
  const double near = network_share(place, {2, 8, 1}, CollectiveVerb::all_gather)->crossing_latency_s;
  const double far = network_share(place, {2, 8 * 100, 1}, CollectiveVerb::all_gather)->crossing_latency_s;
  EXPECT_GT(near, 0);
  EXPECT_GT(far, near);
  EXPECT_LT(network_share(place, {8, 1, 1}, CollectiveVerb::all_gather)->crossing_latency_s, 0);
}

TEST(NetworkShare, RefusesMoreDevicesThanThereAre) {
  const spec::Cluster node = entry("dgx-a100");
  const Graph graph = cluster::build_graph(node).value();
  EXPECT_EQ(network_share({graph, graph, node, Routing::rail}, {9, 1, 1}, CollectiveVerb::all_reduce).error().message,
            "1 groups of 9 ranks, 1 apart, need 9 devices, but there are 8");
}

TEST(PairLoad, BundlesCarryWhatEveryPairDoes) {
  for (const char* name : {"dgx-superpod-a100-20", "h100-superpod-31", "gb200-superpod-8", "alibaba-hpn-7"}) {
    spec::Cluster cluster = entry(name);
    if (cluster.devices > 256) {
      ASSERT_TRUE(cluster::apply_devices(cluster, 256).has_value());
    }
    const Graph graph = cluster::build_graph(cluster).value();
    for (const CollectiveGroups groups :
         {CollectiveGroups{graph.num_devices() / 2, 1, 2}, CollectiveGroups{37, 3, 2}}) {
      if (groups.devices() > graph.num_devices()) continue;
      const double bundled = pair_load(graph, groups, Routing::rail, 0)->seconds;
      EXPECT_NEAR(bundled / every_pair(graph, groups, Routing::rail), 1, 1e-9) << name << " " << groups.ranks;
    }
  }
}

TEST(PairLoad, AWholeTorusIsSeenFromItsFirstChip) {
  for (const char* slice : {"4x4x4", "4x8x8", "8x8x16"}) {
    spec::Cluster pod = entry("tpu-v4-4096");
    ASSERT_TRUE(cluster::apply_slice(pod, slice).has_value());
    const Graph graph = cluster::build_graph(pod).value();
    const CollectiveGroups all{graph.num_devices(), 1, 1};
    ASSERT_TRUE(is_uniform_torus(graph, all));
    EXPECT_NEAR(
        pair_load(graph, all, Routing::dimension_order)->seconds / every_pair(graph, all, Routing::dimension_order), 1,
        1e-9)
        << slice;
  }
}

TEST(PairLoad, ACutTorusIsNotUniform) {
  spec::Cluster pod = entry("tpu-v4-4096");
  ASSERT_TRUE(cluster::apply_slice(pod, "4x4x4").has_value());
  Graph graph = cluster::build_graph(pod).value();
  const double before = pair_load(graph, {64, 1, 1}, Routing::dimension_order)->seconds;
  cluster::cut_links(graph, cluster::find_links(graph, "chip(0,0,0)-chip(0,0,1)").value());
  EXPECT_FALSE(is_uniform_torus(graph, {64, 1, 1}));
  EXPECT_GT(pair_load(graph, {64, 1, 1}, Routing::dimension_order)->seconds, before);
}

}  // namespace
}  // namespace twinpod::sim
