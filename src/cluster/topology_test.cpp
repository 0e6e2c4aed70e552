#include "cluster/topology.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "cluster/measure.hpp"
#include "spec/catalog.hpp"
#include "spec/node.hpp"
#include "spec/read.hpp"

namespace twinpod::cluster {
namespace {

spec::Cluster entry(const std::string& name) {
  const Result<spec::Cluster> cluster = spec::Catalog(TWINPOD_CATALOG_DIR).cluster(name);
  EXPECT_TRUE(cluster.has_value()) << name;
  return cluster.value_or(spec::Cluster{});
}

Graph built(const spec::Cluster& cluster) {
  Result<Graph> graph = build_graph(cluster);
  EXPECT_TRUE(graph.has_value()) << to_string(graph.error());
  return graph ? std::move(*graph) : Graph{};
}

Error refused(const spec::Cluster& cluster) {
  const Result<Graph> graph = build_graph(cluster);
  EXPECT_FALSE(graph.has_value());
  return graph ? Error{} : graph.error();
}

spec::Cluster written(const std::string& text) {
  const Result<spec::Node> root = spec::parse_yaml(text, "c.yaml");
  const Result<spec::Cluster> cluster = spec::read_cluster(*root, "c.yaml", spec::Catalog(TWINPOD_CATALOG_DIR));
  EXPECT_TRUE(cluster.has_value()) << to_string(cluster.error());
  return cluster.value_or(spec::Cluster{});
}

using Counts = std::map<std::string, long long>;

// Switches and cables by tier, only those asked for.
Counts counts(const Graph& graph, const std::vector<std::string>& tiers) {
  const Measures measures = measure(graph);
  Counts found;
  for (const std::string& tier : tiers) found[tier] = 0;
  for (const SwitchCount& count : measures.switches) {
    if (found.contains(count.tier)) found[count.tier] = count.count;
  }
  for (const CableCount& count : measures.cables) {
    if (found.contains(count.tier)) found[count.tier] = count.count;
  }
  return found;
}

struct FabricRow {
  std::string cluster;
  int devices;  // 0: as the entry
  Counts expected;
};

Counts fabric(long long leaf, long long spine, long long core, long long node_leaf, long long leaf_spine,
              long long spine_core) {
  return {{"leaf", leaf},           {"spine", spine},           {"core", core},
          {"node_leaf", node_leaf}, {"leaf_spine", leaf_spine}, {"spine_core", spine_core}};
}

void expect_rows(const std::vector<FabricRow>& rows) {
  for (const FabricRow& row : rows) {
    spec::Cluster cluster = entry(row.cluster);
    if (row.devices > 0) {
      ASSERT_TRUE(apply_devices(cluster, row.devices).has_value());
    }
    EXPECT_EQ(counts(built(cluster), {"leaf", "spine", "core", "node_leaf", "leaf_spine", "spine_core"}), row.expected)
        << row.cluster << " with " << cluster.devices << " devices";
  }
}

TEST(Topology, SuperPodA100HasTheCountsOfItsRule) {
  expect_rows({{"dgx-superpod-a100-20", 0, fabric(8, 4, 0, 160, 160, 0)},
               {"dgx-superpod-a100-40", 0, fabric(16, 10, 0, 320, 320, 0)},
               {"dgx-superpod-a100-80", 0, fabric(32, 20, 0, 640, 640, 0)},
               {"dgx-superpod-a100-100", 0, fabric(40, 20, 0, 800, 800, 0)},
               {"dgx-superpod-a100-120", 0, fabric(48, 80, 24, 960, 960, 960)},
               {"dgx-superpod-a100-140", 0, fabric(56, 80, 28, 1120, 1120, 1120)}});
}

TEST(Topology, SuperPodH100HasThePublishedCounts) {
  expect_rows({{"h100-superpod-31", 0, fabric(8, 4, 0, 248, 256, 0)},
               {"h100-superpod-63", 0, fabric(16, 8, 0, 504, 512, 0)},
               {"h100-superpod-95", 0, fabric(24, 16, 0, 760, 768, 0)},
               {"h100-superpod-127", 0, fabric(32, 16, 0, 1016, 1024, 0)},
               {"h100-superpod", 1024, fabric(32, 16, 0, 1024, 1024, 0)},
               {"h100-superpod-256", 0, fabric(64, 32, 0, 2048, 2048, 0)},
               {"h100-superpod-512", 0, fabric(128, 128, 64, 4096, 4096, 4096)},
               {"h100-superpod-1024", 0, fabric(256, 256, 128, 8192, 8192, 8192)},
               {"h100-superpod", 0, fabric(512, 512, 256, 16384, 16384, 16384)}});
}

TEST(Topology, FabricManagersTakeFourPortsOfASuperPodH100) {
  EXPECT_EQ(counts(built(entry("h100-superpod-127")), {"manager_leaf"}), (Counts{{"manager_leaf", 4}}));
}

TEST(Topology, SuperPodB200HasThePublishedCounts) {
  expect_rows({{"b200-superpod", 512, fabric(16, 8, 0, 512, 512, 0)},
               {"b200-superpod-128", 0, fabric(32, 16, 0, 1024, 1024, 0)},
               {"b200-superpod", 2048, fabric(64, 32, 0, 2048, 2048, 0)},
               {"b200-superpod", 4096, fabric(128, 128, 64, 4096, 4096, 4096)},
               {"b200-superpod", 8192, fabric(256, 256, 128, 8192, 8192, 8192)},
               {"b200-superpod", 0, fabric(512, 512, 256, 16384, 16384, 16384)}});
}

TEST(Topology, SuperPodB300HasThePublishedCounts) {
  expect_rows({{"b300-superpod-xdr-72", 0, fabric(8, 4, 0, 576, 576, 0)},
               {"b300-superpod-xdr", 1152, fabric(16, 8, 0, 1152, 1152, 0)},
               {"b300-superpod-xdr", 2304, fabric(32, 18, 0, 2304, 2304, 0)},
               {"b300-superpod-xdr", 4608, fabric(64, 36, 0, 4608, 4608, 0)},
               {"b300-superpod-xdr", 0, fabric(144, 72, 0, 10368, 10368, 0)}});
}

TEST(Topology, TwoPlanesOfSpectrumXHaveThePublishedCounts) {
  expect_rows({{"b300-superpod-spectrum-x", 512, fabric(16, 8, 0, 512, 512, 0)},
               {"b300-superpod-spectrum-x", 1024, fabric(32, 16, 0, 1024, 1024, 0)},
               {"b300-superpod-spectrum-x", 2048, fabric(64, 32, 0, 2048, 2048, 0)},
               {"b300-superpod-spectrum-x", 4096, fabric(128, 64, 0, 4096, 4096, 0)},
               {"b300-superpod-spectrum-x", 0, fabric(256, 128, 0, 8192, 8192, 0)}});
}

TEST(Topology, HpnHasThePublishedCounts) { expect_rows({{"alibaba-hpn-7", 0, fabric(240, 120, 0, 30720, 14400, 0)}}); }

TEST(Topology, SimulatorTemplatesHaveTheirCounts) {
  expect_rows(
      {{"simai-dcn", 0, fabric(8, 8, 0, 512, 512, 0)}, {"simai-spectrum-x", 0, fabric(64, 64, 0, 4096, 4096, 0)}});
}

TEST(Topology, Gb200UnitIsTheLeastThatDoesNotBlock) {
  expect_rows({{"gb200-superpod-8", 0, fabric(18, 9, 0, 576, 576, 0)}});
}

TEST(Topology, MetaPodsAreJoinedByASeventh) {
  const Graph graph = built(entry("meta-24k-h100"));
  EXPECT_EQ(counts(graph, {"leaf", "spine", "core"}), (Counts{{"leaf", 1536}, {"spine", 144}, {"core", 8}}));
  const double injection = 12288 * 50e9;
  EXPECT_NEAR(injection / measure(graph).bisection_bytes_per_s, 7, 0.2);
}

TEST(Topology, CloudMatrixHasThePublishedCounts) {
  EXPECT_EQ(counts(built(entry("cloudmatrix-384")), {"l1", "l2", "l1_l2", "device_l1"}),
            (Counts{{"l1", 336}, {"l2", 112}, {"l1_l2", 5376}, {"device_l1", 2688}}));
}

TEST(Topology, DragonflyJoinsEachPairOfGroups) {
  EXPECT_EQ(counts(built(entry("dragonfly-h100")), {"router", "global", "local"}),
            (Counts{{"router", 876}, {"global", 73 * 72 / 2}, {"local", 73 * 12 * 11 / 2}}));
}

TEST(Topology, NodesHaveTheirChipsAndLinks) {
  const std::vector<std::string> tiers = {"nvswitch", "device_nvswitch"};
  EXPECT_EQ(counts(built(entry("dgx-a100")), tiers), (Counts{{"nvswitch", 6}, {"device_nvswitch", 96}}));
  EXPECT_EQ(counts(built(entry("dgx-h100")), tiers), (Counts{{"nvswitch", 4}, {"device_nvswitch", 144}}));
  EXPECT_EQ(counts(built(entry("dgx-b200")), tiers), (Counts{{"nvswitch", 2}, {"device_nvswitch", 144}}));
  EXPECT_EQ(counts(built(entry("gb200-nvl72")), tiers), (Counts{{"nvswitch", 18}, {"device_nvswitch", 1296}}));
  EXPECT_EQ(counts(built(entry("dgx-2")), {"nvswitch", "device_nvswitch", "nvswitch_nvswitch"}),
            (Counts{{"nvswitch", 12}, {"device_nvswitch", 96}, {"nvswitch_nvswitch", 48}}));
}

TEST(Topology, MeshesHaveTheirLinks) {
  EXPECT_EQ(counts(built(entry("dgx-1v")), {"device_device"}), (Counts{{"device_device", 24}}));
  EXPECT_EQ(counts(built(entry("mi300x-8")), {"device_device"}), (Counts{{"device_device", 28}}));
  EXPECT_EQ(counts(built(entry("gaudi2-8")), {"device_device"}), (Counts{{"device_device", 84}}));
  EXPECT_DOUBLE_EQ(built(entry("atlas-800t-a2")).links[0].bytes_per_s, 28e9);
}

TEST(Topology, TpuV4PodHasItsCubesAndCircuitSwitches) {
  const Graph graph = built(entry("tpu-v4-4096"));
  EXPECT_EQ(counts(graph, {"ocs", "x", "y", "z"}), (Counts{{"ocs", 48}, {"x", 4096}, {"y", 4096}, {"z", 4096}}));
  ASSERT_EQ(graph.facts.size(), 2U);
  EXPECT_EQ(graph.facts[0].value, 64) << graph.facts[0].label;
  EXPECT_EQ(graph.facts[1].value, 6144) << graph.facts[1].label;
  EXPECT_EQ(graph.passive[0].ports_used, 128);
}

TEST(Topology, TpuV5pPodHas140Cubes) {
  const Graph graph = built(entry("tpu-v5p-8960"));
  EXPECT_EQ(graph.num_devices(), 8960);
  EXPECT_EQ(graph.facts[0].value, 140);
  EXPECT_EQ(graph.facts[1].value, 13440);
}

Graph sliced(const std::string& cluster, const std::string& slice) {
  spec::Cluster tpu = entry(cluster);
  const Result<void> applied = apply_slice(tpu, slice);
  EXPECT_TRUE(applied.has_value()) << to_string(applied.error());
  return built(tpu);
}

TEST(Topology, SlicesWrapOnlyWhereTheMachineCan) {
  EXPECT_EQ(sliced("tpu-v4-4096", "4x4x8").scale_up.wraps, (std::vector<bool>{true, true, true}));
  EXPECT_EQ(sliced("tpu-v4-4096", "2x2x4").scale_up.wraps, (std::vector<bool>{false, false, false}));
  EXPECT_EQ(sliced("tpu-v5e-256", "8x16").scale_up.wraps, (std::vector<bool>{false, true}));
  EXPECT_EQ(sliced("tpu-v5e-256", "8x8").scale_up.wraps, (std::vector<bool>{false, false}));
}

TEST(Topology, ASliceOfHalfACubeIsAMeshOfCopper) {
  const Graph graph = sliced("tpu-v4-4096", "4x4x2");
  EXPECT_TRUE(graph.passive.empty());
  EXPECT_EQ(counts(graph, {"x", "y", "z"}), (Counts{{"x", 24}, {"y", 24}, {"z", 16}}));
}

TEST(Topology, AnyNumberOfChipsGetsAnEvenShape) {
  spec::Cluster tpu = entry("tpu-v4-4096");
  ASSERT_TRUE(apply_devices(tpu, 512).has_value());
  EXPECT_EQ(built(tpu).scale_up.shape, (std::vector<int>{8, 8, 8}));
  ASSERT_TRUE(apply_devices(tpu, 128).has_value());
  EXPECT_EQ(built(tpu).scale_up.shape, (std::vector<int>{4, 4, 8}));
  ASSERT_TRUE(apply_devices(tpu, 8).has_value());
  EXPECT_EQ(built(tpu).scale_up.shape, (std::vector<int>{2, 2, 2}));
  ASSERT_TRUE(apply_devices(tpu, 32).has_value());
  EXPECT_EQ(built(tpu).scale_up.shape, (std::vector<int>{2, 4, 4}));
}

TEST(Topology, MoreDevicesThanAGraphCanHoldAreRefused) {
  spec::Cluster pod = entry("h100-superpod");
  ASSERT_TRUE(apply_devices(pod, 10'000'000).has_value());
  const Result<Graph> graph = build_graph(pod);
  ASSERT_FALSE(graph.has_value());
  EXPECT_NE(graph.error().message.find("10,000,000 devices"), std::string::npos) << graph.error().message;
}

TEST(Topology, SlicesOfAPodOfCubesAreWholeCubesOrWithinOne) {
  const spec::Cluster pod = spec::Catalog(TWINPOD_CATALOG_DIR).cluster("tpu-v4-4096").value();
  using Shapes = std::vector<std::vector<int>>;
  EXPECT_EQ(slice_shapes(pod, 128), (Shapes{{4, 4, 8}, {4, 8, 4}, {8, 4, 4}}));
  EXPECT_EQ(slice_shapes(pod, 32), (Shapes{{2, 4, 4}, {4, 2, 4}, {4, 4, 2}}));
  EXPECT_EQ(slice_shapes(pod, 96), Shapes{});
  EXPECT_EQ(slice_shapes(pod, 8192), Shapes{});
  EXPECT_EQ(nearest_slice(pod, 128, {8, 2, 8}), (std::vector<int>{4, 4, 8}));
}

TEST(Topology, SlicesOfAWiredPodFitIntoIt) {
  const spec::Cluster pod = spec::Catalog(TWINPOD_CATALOG_DIR).cluster("tpu-v5e-256").value();
  EXPECT_EQ(slice_shapes(pod, 64), (std::vector<std::vector<int>>{{4, 16}, {8, 8}, {16, 4}}));
}

TEST(Topology, SlicesThatDoNotFitAreRefused) {
  spec::Cluster tpu = entry("tpu-v5e-256");
  EXPECT_EQ(apply_slice(tpu, "4x32").error().message, "slice 4x32 does not fit into the pod of 16x16");
  EXPECT_EQ(apply_slice(tpu, "4x4x4").error().message, "slice 4x4x4 has 3 axes; the pod is 16x16");
  EXPECT_EQ(apply_slice(tpu, "4by4").error().message, "slice is `4by4`; expected axes such as 4x4x8");
  spec::Cluster pod = entry("dgx-superpod-a100-140");
  EXPECT_FALSE(apply_slice(pod, "4x4x4").has_value());
}

TEST(Topology, OnlySomeShapesCanBeTwisted) {
  spec::Cluster tpu = entry("tpu-v4-4096");
  ASSERT_TRUE(apply_slice(tpu, "4x4x4_twisted").has_value());
  EXPECT_EQ(refused(tpu).message, "a 4x4x4 torus cannot be twisted");
}

TEST(Topology, EveryClusterOfTheCatalogCanBeBuilt) {
  const spec::Catalog catalog(TWINPOD_CATALOG_DIR);
  for (const std::string& name : catalog.names(spec::Shelf::clusters)) {
    const spec::Cluster cluster = entry(name);
    const Graph graph = built(cluster);
    EXPECT_EQ(graph.num_devices(), cluster.devices) << name;
  }
}

// Links leave and arrive where the indices say, and the way back of a link is its neighbour.
TEST(Topology, LinksComeInPairs) {
  const Graph graph = built(entry("dgx-superpod-a100-140"));
  for (std::size_t l = 0; l < graph.links.size(); ++l) {
    ASSERT_EQ(graph.links[l].from, graph.links[l ^ 1].to);
    ASSERT_EQ(graph.links[l].cable, graph.links[l ^ 1].cable);
  }
}

TEST(Topology, FatTreeTakesAsManyTiersAsItNeeds) {
  const auto tree = [](int devices, const std::string& topology) {
    return built(
        written("{node: xeon-8480c-2s, devices: " + std::to_string(2 * devices) + ", topology: " + topology + "}"));
  };
  EXPECT_EQ(tree(4, "{fabric: fat_tree, radix: 8}").tree.tiers.size(), 1U);
  EXPECT_EQ(tree(32, "{fabric: fat_tree, radix: 8}").tree.tiers.size(), 2U);
  EXPECT_EQ(tree(128, "{fabric: fat_tree, radix: 8}").tree.tiers.size(), 3U) << "k³/4 hosts";
  EXPECT_EQ(tree(129, "{fabric: fat_tree, radix: 8}").tree.tiers.size(), 4U);
}

TEST(Topology, OversubscriptionIsTheShareOfPortsDown) {
  const spec::Cluster cluster =
      written("{node: xeon-8480c-2s, devices: 192, topology: {fabric: fat_tree, radix: 16, oversubscription: 3}}");
  const Graph graph = built(cluster);
  EXPECT_EQ(counts(graph, {"leaf", "leaf_spine"}), (Counts{{"leaf", 8}, {"leaf_spine", 32}}));
  EXPECT_DOUBLE_EQ(measure(graph).bisection_bytes_per_s, 16 * 12.5e9);
}

TEST(Topology, TooFewTiersAreRefused) {
  const Error error =
      refused(written("{node: xeon-8480c-2s, devices: 400, topology: {fabric: fat_tree, radix: 8, tiers: 2}}"));
  EXPECT_EQ(error.message, "200 NICs need 4 tiers of 8-port switches, but tiers is 2");
  EXPECT_EQ(error.kind, ErrorKind::input);
}

TEST(Topology, ExceededPortsNameTheSwitch) {
  const Error error =
      refused(written("{base: dgx-superpod-a100-40, topology: {fabric: rail_fat_tree, unit_nodes: 24, radix: 40}}"));
  EXPECT_EQ(error.message, "leaf0 would need 48 ports, but has 40");
}

constexpr const char* kTwoSwitches =
    "device: v100-32gb\ndevices: 4\ndevices_per_node: 1\nscale_out: {bandwidth: 10 GB/s}\ntopology:\n  vertices:\n"
    "    - {name: gpu, tier: device, count: 4}\n    - {name: left, tier: switch, radix: 4}\n"
    "    - {name: right, tier: switch, radix: 4}\n  links:\n    - {from: gpu0, to: left, bandwidth: 10 GB/s}\n"
    "    - {from: gpu1, to: left, bandwidth: 10 GB/s}\n    - {from: gpu2, to: right, bandwidth: 10 GB/s}\n";

TEST(Topology, CustomGraphIsBuiltAsWritten) {
  const Graph graph =
      built(written(std::string(kTwoSwitches) + "    - {from: gpu3, to: right, bandwidth: 10 GB/s}\n"
                                                "    - {from: left, to: right, cables: 2, bandwidth: 10 GB/s}\n"));
  EXPECT_EQ(graph.num_devices(), 4);
  EXPECT_EQ(counts(graph, {"switch", "switch_switch", "device_switch"}),
            (Counts{{"switch", 2}, {"switch_switch", 2}, {"device_switch", 4}}));
}

TEST(Topology, CustomGraphInTwoPartsNamesTwoDevices) {
  const Error error =
      refused(written(std::string(kTwoSwitches) + "    - {from: gpu3, to: right, bandwidth: 10 GB/s}\n"));
  EXPECT_EQ(error.message, "no route from gpu0 to gpu2");
  EXPECT_EQ(error.file, "c.yaml");
  EXPECT_GT(error.line, 0);
}

TEST(Topology, CustomGraphWithTooManyCablesNamesTheSwitch) {
  const Error error =
      refused(written(std::string(kTwoSwitches) + "    - {from: gpu3, to: right, bandwidth: 10 GB/s}\n"
                                                  "    - {from: left, to: right, cables: 3, bandwidth: 10 GB/s}\n"));
  EXPECT_EQ(error.message, "left would need 5 ports, but has 4");
  EXPECT_EQ(error.line, 8);
}

TEST(Topology, CustomLinkToNowhereNamesTheLineAndTheNearestVertex) {
  const Error error =
      refused(written(std::string(kTwoSwitches) + "    - {from: gpu3, to: rigth, bandwidth: 10 GB/s}\n"));
  EXPECT_EQ(error.message, "a link names `rigth`, which is no vertex");
  EXPECT_EQ(error.hint, "did you mean `right`?");
  EXPECT_EQ(error.line, 14);
}

}  // namespace
}  // namespace twinpod::cluster
