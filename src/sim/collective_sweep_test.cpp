// What must hold for every cluster, verb and group: more bytes never take less time, and neither does a cable that is
// cut or slow.
#include <gtest/gtest.h>

#include <cmath>

#include "cluster/topology.hpp"
#include "sim/collective_time.hpp"
#include "spec/catalog.hpp"

namespace twinpod::sim {
namespace {

using cluster::Graph;
using collective::Verb;

// One of each way of joining devices. At most 64 of them, so that the sweep takes seconds.
constexpr const char* kClusters[] = {"dgx-superpod-a100-20", "gb200-superpod-8", "gaudi3-1024",      "mi300x-1024",
                                     "p5-ultracluster",      "meta-24k-h100",    "dragonfly-h100",   "v100-dgx1-64",
                                     "tpu-v4-4096",          "tpu-v5e-256",      "trn2-ultracluster"};
constexpr Verb kVerbs[] = {Verb::all_reduce, Verb::all_gather, Verb::reduce_scatter,
                           Verb::all_to_all, Verb::broadcast,  Verb::reduce};

struct Machine {
  spec::Cluster cluster;
  Graph healthy;
  cluster::CollectiveSystem system;

  explicit Machine(const std::string& name) : cluster(spec::Catalog(TWINPOD_CATALOG_DIR).cluster(name).value()) {
    if (cluster.devices > 64) {
      EXPECT_TRUE(cluster::apply_devices(cluster, 64).has_value());
    }
    healthy = cluster::build_graph(cluster).value();
    static const auto catalog = cluster::read_collectives(std::string(TWINPOD_CATALOG_DIR) + "/collectives.yaml");
    system = cluster::system_of(*catalog, cluster);
  }
  std::vector<double> times(const Graph& graph, Verb verb, int ranks, const std::vector<double>& bytes) const {
    CollectiveRequest request;
    request.verb = verb;
    request.groups.ranks = ranks;
    request.bytes = bytes;
    const CollectivePlace place{graph, healthy, cluster, cluster::usual_routing(graph)};
    const Result<CollectiveTable> table = collective_table(place, system, request);
    EXPECT_TRUE(table.has_value()) << cluster.name << " " << to_string(table.error());
    std::vector<double> seconds;
    for (std::size_t i = 0; table && i < table->rows.size(); ++i) seconds.push_back(table->rows[i].time_s);
    return seconds;
  }
};

TEST(CollectiveSweep, MoreBytesNeverTakeLessTime) {
  std::vector<double> bytes;
  for (double size = 8; size <= 0x1p33; size *= 4) bytes.push_back(size);
  for (const char* name : kClusters) {
    const Machine machine(name);
    for (const Verb verb : kVerbs) {
      for (const int ranks : {2, 8, 9, 16, 64}) {
        if (ranks > machine.healthy.num_devices()) continue;
        const std::vector<double> seconds = machine.times(machine.healthy, verb, ranks, bytes);
        for (std::size_t i = 0; i < seconds.size(); ++i) {
          EXPECT_TRUE(seconds[i] > 0 && std::isfinite(seconds[i])) << name << " " << name_of(verb) << " " << ranks;
          if (i > 0) {
            EXPECT_GE(seconds[i], seconds[i - 1] * (1 - 1e-12))
                << name << " " << name_of(verb) << " " << ranks << " ranks, " << bytes[i] << " bytes";
          }
        }
      }
    }
  }
}

// Cables of every tier: the first and the last.
std::vector<int> some_cables(const Graph& graph) {
  std::vector<int> cables;
  for (std::size_t tier = 0; tier < graph.cable_tiers.size(); ++tier) {
    std::vector<int> of_tier;
    for (std::size_t l = 0; l < graph.links.size(); l += 2) {
      if (graph.links[l].tier == static_cast<int>(tier)) of_tier.push_back(static_cast<int>(l));
    }
    if (of_tier.empty()) continue;
    cables.insert(cables.end(), {of_tier.front(), of_tier.back()});
  }
  return cables;
}

TEST(CollectiveSweep, ABadCableNeverHelps) {
  const std::vector<double> bytes = {1024, 0x1p20, 0x1p30};
  for (const char* name : kClusters) {
    const Machine machine(name);
    for (const Verb verb : {Verb::all_reduce, Verb::all_gather, Verb::all_to_all}) {
      for (const int ranks : {9, 16}) {  // nine: a node that is filled in part
        const std::vector<double> whole = machine.times(machine.healthy, verb, ranks, bytes);
        for (const int cable : some_cables(machine.healthy)) {
          std::vector<double> before = whole;
          for (const double left : {0.5, 0.1, 0.0}) {
            Graph graph = machine.healthy;
            if (left > 0) cluster::slow_links(graph, {cable, cable ^ 1}, left);
            if (left == 0) cluster::cut_links(graph, {cable, cable ^ 1});
            if (!cluster::check_connected(graph)) continue;
            if (left == 0) before = whole;  // a way round may beat a slow cable
            const std::vector<double> seconds = machine.times(graph, verb, ranks, bytes);
            for (std::size_t i = 0; i < seconds.size(); ++i) {
              EXPECT_GE(seconds[i], before[i] * (1 - 1e-9))
                  << name << " " << name_of(verb) << " " << ranks << " ranks, " << bytes[i] << " bytes, "
                  << cluster::link_name(machine.healthy, cable) << " at " << left;
            }
            before = seconds;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace twinpod::sim
