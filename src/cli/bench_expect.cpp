#include "cli/bench_expect.hpp"

#include <fmt/format.h>

#include "cli/command.hpp"
#include "cluster/topology.hpp"
#include "machine/machine.hpp"
#include "sim/collective_time.hpp"
#include "spec/read.hpp"

namespace twinpod::cli {

Result<Expectation> expectation_from_file(const Arguments& arguments, const std::string& file) {
  spec::Node node;
  node.kind = spec::Node::Kind::scalar;
  node.scalar = file;
  Result<spec::Cluster> cluster = spec::read_cluster(node, "", catalog_of(arguments));
  if (!cluster) return tl::unexpected(cluster.error());
  if (!cluster->measured.has_messages()) {
    return input_error(fmt::format("--on {}: nothing was measured there", file),
                       "twinpod bench machine -o here.yaml measures this machine");
  }
  return Expectation{fmt::format("measured in {}", file), std::move(*cluster)};
}

Result<Expectation> expectation_from_messages(comm::Communicator& world, const std::string& transport) {
  machine::Machine machine;
  machine.ranks = comm::size_of(world);
  if (Result<void> done = machine::measure_messages(world, transport, true, machine); !done) {
    return tl::unexpected(done.error());
  }
  return Expectation{"from messages between two ranks, measured just before", machine::cluster_of(machine)};
}

void expect(const Expectation& expectation, int ranks, std::vector<comm::Measurement>& rows) {
  if (ranks < 2 || ranks > expectation.cluster.devices) return;
  const Result<cluster::Graph> graph = cluster::build_graph(expectation.cluster);
  if (!graph) return;
  const sim::CollectivePlace place{*graph, *graph, expectation.cluster, cluster::usual_routing(*graph)};
  for (comm::Measurement& row : rows) {
    sim::CollectiveRequest request{.verb = row.call.verb, .groups = {.ranks = ranks}};
    request.bytes = {static_cast<double>(row.bytes)};
    request.root = row.call.root;
    request.peer = row.call.peer;
    if (row.call.choice.method == comm::Method::scheduled) request.algorithm = row.call.choice.algorithm;
    const Result<sim::CollectiveTable> table = sim::collective_table(place, {}, request);
    if (table && !table->rows.empty()) row.expected_s = table->rows[0].time_s;
  }
}

}  // namespace twinpod::cli
