#include "sim/collective_time.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cluster/measured_collective.hpp"
#include "collective/phases.hpp"
#include "collective/request.hpp"
#include "sim/schedule_time.hpp"

namespace twinpod::sim {
namespace {

using cluster::CollectiveSystem;
using cluster::CollectiveVerb;
using cluster::NcclAlgorithm;
using collective::Algorithm;
using collective::Verb;

std::optional<CollectiveVerb> tuned_verb(Verb verb) {
  switch (verb) {
    case Verb::broadcast:
      return CollectiveVerb::broadcast;
    case Verb::reduce:
      return CollectiveVerb::reduce;
    case Verb::all_reduce:
      return CollectiveVerb::all_reduce;
    case Verb::reduce_scatter:
      return CollectiveVerb::reduce_scatter;
    case Verb::all_gather:
      return CollectiveVerb::all_gather;
    case Verb::all_to_all:
      return CollectiveVerb::all_to_all;
    default:
      return std::nullopt;
  }
}

// What the tuner calls an algorithm of ours; none where it has no such thing.
std::optional<NcclAlgorithm> tuned_algorithm(Algorithm algorithm, Verb verb, bool split, bool sharp) {
  const bool all_reduce = verb == Verb::all_reduce;
  if (algorithm == Algorithm::ring && verb != Verb::all_to_all) return NcclAlgorithm::ring;
  if (algorithm == Algorithm::double_tree && all_reduce) return NcclAlgorithm::tree;
  if (algorithm == Algorithm::in_network && all_reduce) {
    return !split ? NcclAlgorithm::nvls : sharp ? NcclAlgorithm::collnet : NcclAlgorithm::nvls_tree;
  }
  if (algorithm == Algorithm::direct && verb == Verb::all_to_all) return NcclAlgorithm::pairs;
  return std::nullopt;
}

// Switches can only do what the hardware can; a request for more is refused with what there is.
Result<void> check_in_network(const CollectivePlace& place, const CollectiveSystem& system,
                              const CollectiveRequest& request, bool split) {
  const bool fabric = request.sharp && split;
  if (request.sharp && !place.graph.fabric_reduces) {
    return infeasible(fmt::format("--sharp: the switches between the nodes of {} do not add up", place.cluster.name),
                      "leave --sharp out");
  }
  if (request.algorithm != Algorithm::in_network || request.verb != Verb::all_reduce || fabric) return {};
  if (system.in_network_from > 0 && place.graph.domain_reduces) return {};
  return infeasible(fmt::format("in_network: the switches inside a node of {} do not add up", place.cluster.name),
                    place.graph.fabric_reduces ? "those between nodes do: --sharp, with ranks on several nodes"
                                               : "take another algorithm, such as ring");
}

double share_of(const std::string& algorithm, const cluster::NetworkShare& share) {
  if (algorithm == name_of(NcclAlgorithm::pairs)) return share.pairs;
  if (algorithm == name_of(NcclAlgorithm::nvls)) return share.domain;
  return algorithm == name_of(NcclAlgorithm::ring) ? share.ring : share.tree;
}

std::vector<CollectiveRow> tuned_rows(const CollectiveSystem& system, CollectiveVerb verb,
                                      const CollectiveRequest& request, const cluster::CostOptions& options) {
  std::vector<CollectiveRow> rows;
  for (const double bytes : request.bytes) {
    const cluster::CollectiveCost cost = collective_cost(system, verb, request.groups.ranks, bytes, options);
    const bool works = request.groups.ranks > 1;
    rows.push_back({bytes, works ? std::string(name_of(cost.algorithm)) : "none",
                    works ? std::string(name_of(cost.protocol)) : "", cost.channels, cost.chunk_bytes, cost.time_s,
                    cost.algbw_bytes_per_s, cost.busbw_bytes_per_s});
  }
  return rows;
}

// Ways round a cut may by chance be spread better than those they replace; see collective_table.
void bound_by(const Sharing& healthy, Sharing& sharing) {
  for (const auto part : {&cluster::NetworkShare::ring, &cluster::NetworkShare::tree, &cluster::NetworkShare::domain,
                          &cluster::NetworkShare::pairs}) {
    sharing.share.*part = std::min(sharing.share.*part, healthy.share.*part);
  }
  sharing.crossing_latency_s = std::max(sharing.crossing_latency_s, healthy.crossing_latency_s);
}

Result<CollectiveTable> tuned_table(const CollectivePlace& place, CollectiveSystem system,
                                    const CollectiveRequest& request, const std::optional<NcclAlgorithm>& only) {
  const CollectiveVerb verb = *tuned_verb(request.verb);
  Result<Sharing> sharing = network_share(place, request.groups, verb, only);
  if (!sharing) return tl::unexpected(sharing.error());
  system.collnet = request.sharp;
  if (!place.graph.domain_reduces) system.in_network_from = 0;
  cluster::CostOptions options;
  options.ranks_per_domain = ranks_of_domain(place, request.groups);
  if (only != NcclAlgorithm::pairs) options.only = only;
  CollectiveTable table;
  table.tuned = true;
  if (place.has_faults()) {
    const Result<Sharing> healthy = network_share(place.before(), request.groups, verb, only);
    if (!healthy) return tl::unexpected(healthy.error());
    bound_by(*healthy, *sharing);
    if (healthy->crossing_latency_s >= 0) system.net_latency_s = healthy->crossing_latency_s;
    options.share = healthy->share;
    table.healthy_rows = tuned_rows(system, verb, request, options);
    options.belief = {healthy->share, system.net_latency_s};
  }
  if (sharing->crossing_latency_s >= 0) system.net_latency_s = sharing->crossing_latency_s;
  options.share = sharing->share;
  table.rows = tuned_rows(system, verb, request, options);
  table.hottest_link = sharing->hottest_link;
  table.hottest_share = sharing->hottest_share;
  if (!table.rows.empty()) table.network_share = share_of(table.rows.back().algorithm, sharing->share);
  return table;
}

// A machine at hand, all of whose collectives were timed for so many ranks.
bool is_measured(const CollectivePlace& place, const CollectiveRequest& request) {
  const bool alone = request.groups.groups == 1 && request.groups.stride == 1;
  return alone && cluster::measured_s(place.cluster.measured, name_of(request.verb), request.groups.ranks, 1);
}

CollectiveTable measured_table(const CollectivePlace& place, const CollectiveRequest& request) {
  CollectiveTable table;
  for (const double bytes : request.bytes) {
    CollectiveRow row;
    row.bytes = bytes;
    row.algorithm = "measured";
    row.time_s = *cluster::measured_s(place.cluster.measured, name_of(request.verb), request.groups.ranks, bytes);
    row.algbw_bytes_per_s = bytes / row.time_s;
    row.busbw_bytes_per_s = row.algbw_bytes_per_s * collective::bus_factor(request.verb, request.groups.ranks);
    table.rows.push_back(std::move(row));
  }
  return table;
}

Result<void> check_groups(const CollectivePlace& place, const CollectiveGroups& groups) {
  if (groups.ranks < 1 || groups.stride < 1 || groups.groups < 1) {
    return input_error(fmt::format("{} groups of {} ranks, {} apart; expected 1 or more of each", groups.groups,
                                   groups.ranks, groups.stride));
  }
  const long long rows = (static_cast<long long>(groups.groups) + groups.stride - 1) / groups.stride;
  const long long of_row = static_cast<long long>(groups.ranks) * groups.stride;
  // The only row may end with the last rank of a single group.
  const long long devices = groups.groups == 1 ? of_row - groups.stride + 1 : rows * of_row;
  if (devices <= place.graph.num_devices()) return {};
  return input_error(fmt::format("{} group{} of {} ranks, {} apart, need {} devices; {} has {}", groups.groups,
                                 groups.groups == 1 ? "" : "s", groups.ranks, groups.stride, devices,
                                 place.cluster.name, place.graph.num_devices()),
                     fmt::format("--ranks {} would fit",
                                 std::max(1, place.graph.num_devices() / groups.stride /
                                                 std::max(1, (groups.groups + groups.stride - 1) / groups.stride))));
}

Result<CollectiveTable> table_of(const CollectivePlace& place, const CollectiveSystem& system,
                                 const CollectiveRequest& request) {
  if (const Result<void> fits = check_groups(place, request.groups); !fits) return tl::unexpected(fits.error());
  const bool split = ranks_of_domain(place, request.groups) < request.groups.ranks;
  if (const Result<void> can = check_in_network(place, system, request, split); !can) {
    return tl::unexpected(can.error());
  }
  if (request.schedule != nullptr) return schedule_table(place, system, request);
  const bool at_hand = place.cluster.measured.has_messages();
  if (at_hand && !request.algorithm && is_measured(place, request)) return measured_table(place, request);
  const bool tunable = has_tuner(place.graph) && !at_hand && tuned_verb(request.verb).has_value();
  if (!request.algorithm) {
    return tunable ? tuned_table(place, system, request, std::nullopt) : schedule_table(place, system, request);
  }
  if (!collective::supports(request.verb, *request.algorithm)) {
    std::string known;
    for (const Algorithm algorithm : collective::algorithms_of(request.verb)) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", name_of(algorithm));
    }
    return input_error(fmt::format("{} has no algorithm {}", name_of(request.verb), name_of(*request.algorithm)),
                       fmt::format("it has {}", known));
  }
  const auto only = tuned_algorithm(*request.algorithm, request.verb, split, request.sharp);
  return tunable && only ? tuned_table(place, system, request, only) : schedule_table(place, system, request);
}

}  // namespace

bool has_tuner(const cluster::Graph& graph) {
  const bool nodes = graph.kind == cluster::GraphKind::nodes;
  return nodes && graph.scale_up.kind != spec::ScaleUpKind::torus;
}

int ranks_of_domain(const CollectivePlace& place, const CollectiveGroups& groups) {
  int most = 1;
  int here = 0;
  int last = -1;
  for (int rank = 0; rank < groups.ranks; ++rank) {
    const int domain = domain_of(place.graph, groups.device(0, rank));
    here = domain == last ? here + 1 : 1;
    last = domain;
    most = std::max(most, here);
  }
  return most;
}

std::vector<int> torus_by_rank(const cluster::Graph& graph) {
  return {graph.scale_up.shape.rbegin(), graph.scale_up.shape.rend()};
}

std::vector<Algorithm> usual_algorithms(const cluster::Graph& graph, const CollectiveRequest& request) {
  const cluster::ScaleUpRoutes& up = graph.scale_up;
  const bool whole_torus = up.kind == spec::ScaleUpKind::torus && request.groups.ranks == up.domain &&
                           request.groups.groups == 1 && graph.num_devices() == up.domain;
  std::vector<Algorithm> tried;
  if (whole_torus && request.groups.ranks > 1) tried = {Algorithm::torus};
  for (const Algorithm algorithm :
       {Algorithm::hierarchical, Algorithm::bidirectional_ring, Algorithm::ring, Algorithm::double_tree,
        Algorithm::tree, Algorithm::halving_doubling, Algorithm::direct}) {
    tried.push_back(algorithm);
  }
  std::erase_if(tried, [&](Algorithm algorithm) {
    const bool gathers_by_all = algorithm == Algorithm::direct && request.verb != Verb::all_to_all &&
                                request.verb != Verb::send && request.groups.ranks > 64;
    const bool long_ring = algorithm == Algorithm::ring && request.verb == Verb::all_to_all;
    const bool one_domain = algorithm == Algorithm::hierarchical &&
                            (request.verb == Verb::all_to_all || request.groups.ranks <= up.domain ||
                             request.groups.stride > 1 || request.groups.ranks % std::max(1, up.domain) != 0);
    return !collective::supports(request.verb, algorithm) || gathers_by_all || long_ring || one_domain;
  });
  if (tried.empty()) tried = collective::algorithms_of(request.verb);
  return tried;
}

Result<CollectiveTable> collective_table(const CollectivePlace& place, const CollectiveSystem& system,
                                         const CollectiveRequest& request) {
  Result<CollectiveTable> table = table_of(place, system, request);
  if (!table || !place.has_faults() || table->tuned) return table;
  Result<CollectiveTable> healthy = table_of(place.before(), system, request);
  if (!healthy) return healthy;
  for (std::size_t i = 0; i < table->rows.size(); ++i) {
    if (table->rows[i].time_s < healthy->rows[i].time_s) table->rows[i] = healthy->rows[i];
  }
  table->healthy_rows = std::move(healthy->rows);
  return table;
}

}  // namespace twinpod::sim
