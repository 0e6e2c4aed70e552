#include "cluster/measure.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "cluster/graph_cut.hpp"
#include "cluster/topology.hpp"
#include "spec/catalog.hpp"

namespace twinpod::cluster {
namespace {

Graph graph_of(const std::string& name, const std::string& slice = "") {
  Result<spec::Cluster> cluster = spec::Catalog(TWINPOD_CATALOG_DIR).cluster(name);
  EXPECT_TRUE(cluster.has_value()) << name;
  if (!slice.empty()) {
    EXPECT_TRUE(apply_slice(*cluster, slice).has_value());
  }
  Result<Graph> graph = build_graph(*cluster);
  EXPECT_TRUE(graph.has_value()) << to_string(graph.error());
  return graph ? std::move(*graph) : Graph{};
}

double bisection(const Graph& graph) {
  bool is_bound = false;
  return bisection_bytes_per_s(graph, is_bound);
}

// From the first half of the devices to the second.
double flow_of_halves(const Graph& graph) {
  std::vector<int> from;
  std::vector<int> to;
  for (int d = 0; d < graph.num_devices(); ++d) (d < graph.num_devices() / 2 ? from : to).push_back(d);
  return max_flow_bytes_per_s(graph, from, to);
}

TEST(Bisection, AgreesWithTheFlowThroughTrees) {
  for (const char* const name : {"dgx-superpod-a100-20", "dgx-superpod-a100-40", "dgx-superpod-a100-120", "gcp-a3-256",
                                 "simai-dcn", "gb200-superpod-8"}) {
    const Graph graph = graph_of(name);
    EXPECT_NEAR(flow_of_halves(graph) / bisection(graph), 1, 1e-9) << name;
  }
}

TEST(Bisection, AgreesWithTheFlowThroughTori) {
  for (const char* const slice : {"4x4x4", "4x4x8", "8x4x4", "2x2x4"}) {
    Graph graph = graph_of("tpu-v4-4096", slice);
    const double known = bisection(graph);
    EXPECT_LE(known, flow_of_halves(graph) * (1 + 1e-9)) << slice;
    if (graph.scale_up.shape[0] == 8) {
      EXPECT_NEAR(flow_of_halves(graph) / known, 1, 1e-9);
    }
  }
}

TEST(Bisection, AgreesWithTheFlowThroughDomains) {
  for (const char* const name : {"dgx-a100", "dgx-2", "gb200-nvl72", "mi300x-8", "cloudmatrix-384"}) {
    const Graph graph = graph_of(name);
    EXPECT_NEAR(flow_of_halves(graph) / bisection(graph), 1, 1e-9) << name;
  }
}

TEST(Bisection, OfTpuPodsIsTheOneTheirMakerPrints) {
  EXPECT_NEAR(bisection(graph_of("tpu-v4-4096")), 24e12, 0.07 * 24e12) << "printed with 47 GB/s a link, here 50";
  EXPECT_DOUBLE_EQ(bisection(graph_of("tpu-v5e-256")), 1.6e12);
  EXPECT_DOUBLE_EQ(bisection(graph_of("tpu-v3-1024")), 6.4e12);
}

TEST(Bisection, OfASuperPodIsFull) { EXPECT_DOUBLE_EQ(bisection(graph_of("dgx-superpod-a100-140")), 560 * 25e9); }

TEST(Bisection, OfHpnIsWhatItsLeavesSendUp) { EXPECT_DOUBLE_EQ(bisection(graph_of("alibaba-hpn-7")), 7200 * 50e9); }

TEST(Bisection, OfTheHybridCubeMeshIsSixLinks) { EXPECT_DOUBLE_EQ(bisection(graph_of("dgx-1v")), 6 * 25e9); }

TEST(Bisection, GrowsWhenATorusIsTwisted) {
  EXPECT_GT(bisection(graph_of("tpu-v4-4096", "4x4x8_twisted")), bisection(graph_of("tpu-v4-4096", "4x4x8")));
}

TEST(Bisection, FallsWhenCablesAreCut) {
  Graph graph = graph_of("tpu-v5e-256");
  cut_links(graph, *find_links(graph, "chip(0,0)-chip(0,1)"));
  EXPECT_DOUBLE_EQ(bisection(graph), 1.55e12);
}

TEST(Measure, PortsStayWithinTheRadix) {
  const spec::Catalog catalog(TWINPOD_CATALOG_DIR);
  for (const std::string& name : catalog.names(spec::Shelf::clusters)) {
    const Result<Graph> graph = build_graph(*catalog.cluster(name));
    ASSERT_TRUE(graph.has_value()) << name;
    for (std::size_t v = 0; v < graph->vertices.size(); ++v) {
      const int radix = graph->vertices[v].radix;
      ASSERT_TRUE(radix == 0 || ports_used(*graph, static_cast<int>(v)) <= radix) << name;
    }
  }
}

TEST(Measure, DiameterOfASuperPodIsFiveSwitches) {
  const Measures measures = measure(graph_of("dgx-superpod-a100-140"));
  EXPECT_EQ(measures.diameter_switches, 5);
  EXPECT_EQ(measures.diameter_links, 10) << "two PCIe links and a NIC at each end";
}

TEST(Measure, DiameterOfATorusIsHalfOfEachAxis) {
  EXPECT_EQ(measure(graph_of("tpu-v4-4096")).diameter_links, 24);
  EXPECT_EQ(measure(graph_of("tpu-v5e-256", "8x16")).diameter_links, 7 + 8);
}

TEST(MaxFlow, IsTheNarrowestPlace) {
  const Graph graph = graph_of("dgx-1v");
  EXPECT_DOUBLE_EQ(max_flow_bytes_per_s(graph, {0}, {7}), 6 * 25e9) << "all links of the device";
}

}  // namespace
}  // namespace twinpod::cluster
