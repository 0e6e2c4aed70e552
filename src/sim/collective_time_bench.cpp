// How long it takes to predict a collective on a cluster of the catalog: routes, flows and tuner, without the graph,
// which is built once for a table. The bars, on one core: a ring all-reduce of 1 GB over 4,096 ranks 10 ms, over
// 1,048,576 ranks 1 s; an all-reduce on a 16×16×16 torus 20 ms; an all-to-all over 4,096 ranks of a fat tree 200 ms.
#include <benchmark/benchmark.h>

#include "cluster/topology.hpp"
#include "sim/collective_time.hpp"
#include "spec/catalog.hpp"
#include "spec/node.hpp"
#include "spec/read.hpp"

namespace {

using namespace twinpod;
using collective::Algorithm;
using collective::Verb;

// A name of the catalog, or a cluster as YAML.
spec::Cluster cluster_of(const std::string& text) {
  const spec::Catalog catalog(TWINPOD_CATALOG_DIR);
  return spec::read_cluster(spec::parse_yaml(text, "bench").value(), "bench", catalog).value();
}

void collective_table(benchmark::State& state, const std::string& on, Verb verb, std::optional<Algorithm> algorithm,
                      int ranks) {
  const spec::Cluster cluster = cluster_of(on);
  const cluster::Graph graph = cluster::build_graph(cluster).value();
  const auto catalog = cluster::read_collectives(std::string(TWINPOD_CATALOG_DIR) + "/collectives.yaml");
  const cluster::CollectiveSystem system = cluster::system_of(*catalog, cluster);
  sim::CollectiveRequest request;
  request.verb = verb;
  request.algorithm = algorithm;
  request.groups.ranks = ranks;
  request.bytes = {1e9};
  for (auto _ : state) {
    const auto table = sim::collective_table({graph, graph, cluster, cluster::usual_routing(graph)}, system, request);
    state.counters["time_s"] = table->rows[0].time_s;
    state.counters["flows"] = static_cast<double>(table->flows);
  }
}

void build_graph(benchmark::State& state, const std::string& on) {
  const spec::Cluster cluster = cluster_of(on);
  for (auto _ : state) benchmark::DoNotOptimize(cluster::build_graph(cluster));
}

constexpr const char* kFatTree = "{name: tree, node: dgx-h100, devices: 4096, topology: {fabric: fat_tree, radix: 64}}";
constexpr const char* kMillion =
    "{name: million, node: dgx-h100, devices: 1048576, topology: {fabric: fat_tree, radix: 256}}";

BENCHMARK_CAPTURE(collective_table, ring_4096, kFatTree, Verb::all_reduce, Algorithm::ring, 4096)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(collective_table, ring_1048576, kMillion, Verb::all_reduce, Algorithm::ring, 1 << 20)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(collective_table, tuner_4096, kFatTree, Verb::all_reduce, std::nullopt, 4096)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(collective_table, torus_16x16x16, "tpu-v4-4096", Verb::all_reduce, Algorithm::torus, 4096)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(collective_table, all_to_all_4096, kFatTree, Verb::all_to_all, std::nullopt, 4096)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(build_graph, fat_tree_4096, kFatTree)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(build_graph, fat_tree_1048576, kMillion)->Unit(benchmark::kMillisecond);

}  // namespace
