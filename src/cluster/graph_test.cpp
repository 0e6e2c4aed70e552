#include "cluster/graph.hpp"

#include <gtest/gtest.h>

#include "cluster/topology.hpp"
#include "spec/catalog.hpp"

namespace twinpod::cluster {
namespace {

Graph graph_of(const std::string& name) {
  Result<Graph> graph = build_graph(*spec::Catalog(TWINPOD_CATALOG_DIR).cluster(name));
  EXPECT_TRUE(graph.has_value()) << to_string(graph.error());
  return graph ? std::move(*graph) : Graph{};
}

TEST(Graph, VerticesAreFoundByTheirNames) {
  const Graph pod = graph_of("dgx-superpod-a100-140");
  for (const char* const name :
       {"gpu0", "gpu1119", "node4/nvswitch0", "node139/nic7", "node3/pcie1", "leaf55", "spine79", "core27"}) {
    const int vertex = find_vertex(pod, name);
    ASSERT_GE(vertex, 0) << name;
    EXPECT_EQ(vertex_name(pod, vertex), name);
  }
  EXPECT_EQ(find_vertex(pod, "leaf56"), -1);
  EXPECT_EQ(find_vertex(graph_of("tpu-v4-4096"), "chip(1,2,3)"), 256 + 32 + 3);
}

TEST(Graph, LinksAreFoundByTheirEnds) {
  const Graph pod = graph_of("dgx-superpod-a100-140");
  EXPECT_EQ(find_links(pod, "leaf0-spine3")->size(), 4U) << "two cables, both ways";
  EXPECT_EQ(find_links(pod, "link=spine3-leaf0")->size(), 4U);
  EXPECT_EQ(find_links(pod, "leaf0-spine3:1")->size(), 2U);
}

TEST(Graph, WrongLinksAreRefusedWithTheNearestName) {
  const Graph pod = graph_of("dgx-superpod-a100-140");
  EXPECT_EQ(find_links(pod, "leaf0-spine99").error().message, "`leaf0-spine99` has no vertex `spine99`");
  EXPECT_EQ(find_links(pod, "leaf0-core0").error().message, "`leaf0-core0`: no cable joins these two");
  EXPECT_EQ(find_links(pod, "leaf0-spine3:2").error().message, "`leaf0-spine3:2`: 2 cables join these two");
  EXPECT_EQ(find_links(pod, "leaf0").error().message, "`leaf0` names no link");
}

TEST(Graph, CutLinksCarryNothing) {
  Graph node = graph_of("dgx-b200");
  cut_links(node, *find_links(node, "gpu3-node0/nvswitch0"));
  EXPECT_EQ(node.num_cut, 2);
  const Result<void> connected = check_connected(node);
  ASSERT_FALSE(connected.has_value());
  EXPECT_EQ(connected.error().message, "no route from gpu0 to gpu3");
}

TEST(Graph, SlowLinksKeepAShare) {
  Graph node = graph_of("dgx-a100");
  const std::vector<int> links = *find_links(node, "gpu3-node0/nvswitch0");
  slow_links(node, links, 0.25);
  EXPECT_DOUBLE_EQ(node.links[links[0]].bytes_per_s, 75e9);
  EXPECT_EQ(node.num_cut, 0);
}

TEST(Graph, FasterLinksTakeSeveralPorts) {
  const Graph pod = graph_of("alibaba-hpn-7");
  EXPECT_EQ(ports_used(pod, find_vertex(pod, "leaf0")), 128 + 2 * 60) << "128 of 200 Gbit/s, 60 of 400";
}

TEST(Graph, StripedChipsShareTheirPorts) {
  const Graph node = graph_of("dgx-b200");
  EXPECT_EQ(ports_used(node, find_vertex(node, "node0/nvswitch0")), 72);
}

}  // namespace
}  // namespace twinpod::cluster
