#include "report/topology_report.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cluster/measure.hpp"
#include "cluster/topology.hpp"
#include "spec/catalog.hpp"

namespace twinpod::report {
namespace {

struct Seen {
  spec::Cluster cluster;
  cluster::Graph graph;
  cluster::Measures measures;
  TopologyView view() const { return {cluster, graph, measures, {}, {}}; }
};

Seen seen(const std::string& name) {
  Seen s;
  s.cluster = *spec::Catalog(TWINPOD_CATALOG_DIR).cluster(name);
  s.graph = *cluster::build_graph(s.cluster);
  s.measures = cluster::measure(s.graph);
  return s;
}

TEST(TopologyReport, JsonHasTheKeysThatScriptsUse) {
  const Seen pod = seen("dgx-superpod-a100-140");
  const nlohmann::json json = nlohmann::json::parse(topology_json(pod.view()));
  EXPECT_EQ(json["devices"], 1120);
  EXPECT_EQ(json["switches"]["leaf"], 56);
  EXPECT_EQ(json["switches"]["spine"], 80);
  EXPECT_EQ(json["switches"]["core"], 28);
  EXPECT_EQ(json["cables"]["node_leaf"], 1120);
  EXPECT_EQ(json["cables"]["leaf_spine"], 1120);
  EXPECT_EQ(json["cables"]["spine_core"], 1120);
  EXPECT_EQ(json["bisection_bytes_per_s"], 14e12);
}

TEST(TopologyReport, JsonOfATorusHasItsCubes) {
  const Seen pod = seen("tpu-v4-4096");
  const nlohmann::json json = nlohmann::json::parse(topology_json(pod.view()));
  EXPECT_EQ(json["cubes"], 64);
  EXPECT_EQ(json["optical_links"], 6144);
  EXPECT_EQ(json["switches"]["ocs"], 48);
  EXPECT_EQ(json["torus"]["shape"], (std::vector<int>{16, 16, 16}));
}

TEST(TopologyReport, TextSaysWhenTheWiringIsAGuess) {
  EXPECT_NE(topology_text(seen("mi300x-1024").view()).find("not known: assumed"), std::string::npos);
  EXPECT_EQ(topology_text(seen("dgx-superpod-a100-20").view()).find("assumed"), std::string::npos);
}

TEST(TopologySvg, IsWellFormedAndOfModestSizeForEveryKindOfGraph) {
  for (const char* const name : {"dgx-superpod-a100-140", "h100-superpod", "alibaba-hpn-7", "meta-24k-h100", "dgx-1v",
                                 "dgx-2", "gb200-nvl72", "gb200-superpod-8", "cloudmatrix-384", "dragonfly-h100",
                                 "tpu-v4-4096", "tpu-v5e-256", "tpu-v5e-32x256", "trn2-ultra", "rail-only-h100"}) {
    const std::string svg = topology_svg(seen(name).view());
    EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n")) << name;
    EXPECT_EQ(std::count(svg.begin(), svg.end(), '<'), std::count(svg.begin(), svg.end(), '>')) << name;
    EXPECT_EQ(std::count(svg.begin(), svg.end(), '\'') % 2, 0) << name;
    EXPECT_LT(svg.size(), 700'000U) << name;
    EXPECT_EQ(svg.find("nan"), std::string::npos) << name;
  }
}

TEST(TopologySvg, NamesTheNumbersOfFigure4) {
  const std::string svg = topology_svg(seen("dgx-superpod-a100-140").view());
  for (const char* const text : {"28 core switches", "80 spine switches", "56 leaf switches", "140 nodes",
                                 "1,120 cables of 200 Gbit/s", "a line is 70: 5 × 14 switches × 1",
                                 "a line is 20: 1 × 10 switches × 2", "rail 7: 10 spines", "unit 6: 20 nodes"}) {
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  }
}

TEST(TopologySvg, EscapesNames) {
  Seen node = seen("dgx-a100");
  node.cluster.name = "a < b & c";
  EXPECT_NE(topology_svg(node.view()).find("a &lt; b &amp; c"), std::string::npos);
}

}  // namespace
}  // namespace twinpod::report
