#include <gtest/gtest.h>

#include "spec/read.hpp"
#include "spec/test_catalog.hpp"

namespace twinpod::spec {
namespace {

Result<Cluster> read(const std::string& topology) {
  const TestCatalog files;
  const Result<Node> root = parse_yaml("node: box\ndevices: 16\ntopology: " + topology + "\n", "c.yaml");
  EXPECT_TRUE(root.has_value()) << topology;
  return read_cluster(*root, "c.yaml", files.catalog());
}

Topology accepted(const std::string& topology) {
  const Result<Cluster> cluster = read(topology);
  EXPECT_TRUE(cluster.has_value()) << to_string(cluster.error());
  return cluster ? cluster->topology : Topology{};
}

std::string refused(const std::string& topology) {
  const Result<Cluster> cluster = read(topology);
  EXPECT_FALSE(cluster.has_value()) << topology;
  return cluster ? "" : cluster.error().message;
}

TEST(ReadTopology, IsAGuessUntilItIsWritten) {
  const TestCatalog files;
  const Result<Node> root = parse_yaml("{node: box, devices: 16}", "c.yaml");
  EXPECT_FALSE(read_cluster(*root, "c.yaml", files.catalog())->topology.written);
  EXPECT_TRUE(accepted("{radix: 40}").written);
}

TEST(ReadTopology, KeysAreRead) {
  const Topology topology = accepted("{fabric: rail_fat_tree, radix: 40, unit_nodes: 20, switch_latency: 130 ns}");
  EXPECT_EQ(topology.fabric, Fabric::rail_fat_tree);
  EXPECT_EQ(topology.radix, 40);
  EXPECT_EQ(topology.unit_nodes, 20);
  EXPECT_DOUBLE_EQ(topology.switch_latency_s, 130e-9);
}

TEST(ReadTopology, ShapesAreLengthsWithAnX) {
  EXPECT_EQ(accepted("{shape: 16x20x28, wrap: multiples, cube: 4}").shape, (std::vector<int>{16, 20, 28}));
  EXPECT_EQ(refused("{shape: 16x}"), "shape is `16x`; expected lengths such as 16x16x16");
  EXPECT_EQ(refused("{slice: axb}"), "slice is `axb`; expected lengths such as 16x16x16");
}

TEST(ReadTopology, ShapesLargerThanAnyMachineAreRefused) {
  EXPECT_TRUE(parse_shape("65536x65536x65536").empty());
  EXPECT_TRUE(parse_shape("0x4").empty());
  EXPECT_TRUE(parse_shape("99999999999").empty());
}

TEST(ReadTopology, WrittenVerticesMakeACustomGraph) {
  const Topology topology = accepted(
      "\n  vertices:\n    - {name: a, tier: device, count: 2}\n    - {name: s, tier: switch, radix: 4}\n"
      "  links:\n    - {from: a, to: s, bandwidth: 10 GB/s, latency: 1 us, cables: 2}");
  EXPECT_EQ(topology.fabric, Fabric::custom);
  EXPECT_EQ(topology.vertices[1].line, 6);
  EXPECT_EQ(topology.links[0].cables, 2);
  EXPECT_DOUBLE_EQ(topology.links[0].bytes_per_s, 10e9);
}

TEST(ReadTopology, AVertexNeedsItsTierAndALinkItsBandwidth) {
  EXPECT_EQ(refused("{vertices: [{name: a}]}"), "vertex has no `tier`, which it needs");
  EXPECT_EQ(refused("{vertices: [{name: a, tier: device}], links: [{from: a, to: a}]}"),
            "link has no `bandwidth`, which it needs");
}

TEST(ReadTopology, ACustomFabricNeedsVertices) {
  EXPECT_EQ(refused("{fabric: custom}"), "topology has no `vertices`, which it needs");
}

TEST(ReadTopology, WrongNamesGetTheNearestOne) {
  const Result<Cluster> cluster = read("{fabric: rail_fat_tre}");
  ASSERT_FALSE(cluster.has_value());
  EXPECT_NE(cluster.error().hint.find("rail"), std::string::npos) << cluster.error().hint;
  EXPECT_EQ(cluster.error().line, 3);
}

NodeTopology of_node(const std::string& topology) {
  const TestCatalog files;
  const Result<Node> root = parse_yaml("node: {base: box, topology: " + topology + "}\ndevices: 16\n", "c.yaml");
  const Result<Cluster> cluster = read_cluster(*root, "c.yaml", files.catalog());
  EXPECT_TRUE(cluster.has_value()) << to_string(cluster.error());
  return cluster ? cluster->node_topology : NodeTopology{};
}

TEST(ReadTopology, OfANodeReachesTheCluster) {
  EXPECT_EQ(of_node("{switch_links: [5, 4, 4, 5]}").switch_links, (std::vector<int>{5, 4, 4, 5}));
  EXPECT_EQ(of_node("{axis_bandwidth: [128 GB/s, 64 GB/s]}").axis_bytes_per_s, (std::vector<double>{128e9, 64e9}));
}

TEST(ReadTopology, MeshLinksMustBeTheSameBothWays) {
  const TestCatalog files;
  const Result<Node> root =
      parse_yaml("node: {base: box, topology: {mesh_links: [[0, 1], [2, 0]]}}\ndevices: 16\n", "c.yaml");
  const Result<Cluster> cluster = read_cluster(*root, "c.yaml", files.catalog());
  ASSERT_FALSE(cluster.has_value());
  EXPECT_EQ(cluster.error().message, "mesh_links has 2 links from 1 to 0 but 1 back");
}

}  // namespace
}  // namespace twinpod::spec
