#include "sim/collective_time.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cluster/measured_collective.hpp"
#include "collective/phases.hpp"
#include "collective/request.hpp"
#include "spec/physics.hpp"

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

bool has_tuner(const cluster::Graph& graph) {
  const bool nodes = graph.kind == cluster::GraphKind::nodes;
  return nodes && graph.scale_up.kind != spec::ScaleUpKind::torus;
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

Result<CollectiveTable> tuned_table(const CollectivePlace& place, CollectiveSystem system,
                                    const CollectiveRequest& request, const std::optional<NcclAlgorithm>& only) {
  const CollectiveVerb verb = *tuned_verb(request.verb);
  const Result<Sharing> sharing = network_share(place, request.groups, verb, only);
  if (!sharing) return tl::unexpected(sharing.error());
  if (sharing->crossing_latency_s >= 0) system.net_latency_s = sharing->crossing_latency_s;
  system.collnet = request.sharp;
  if (!place.graph.domain_reduces) system.in_network_from = 0;
  cluster::CostOptions options;
  options.ranks_per_domain = ranks_of_domain(place, request.groups);
  options.share = sharing->share;
  if (only != NcclAlgorithm::pairs) options.only = only;
  CollectiveTable table;
  table.tuned = true;
  table.hottest_link = sharing->hottest_link;
  table.hottest_share = sharing->hottest_share;
  table.flows = sharing->flows;
  table.flow_kinds = sharing->flow_kinds;
  for (const double bytes : request.bytes) {
    const cluster::CollectiveCost cost = collective_cost(system, verb, request.groups.ranks, bytes, options);
    const bool works = request.groups.ranks > 1;
    table.rows.push_back({bytes, works ? std::string(name_of(cost.algorithm)) : "none",
                          works ? std::string(name_of(cost.protocol)) : "", cost.channels, cost.chunk_bytes,
                          cost.time_s, cost.algbw_bytes_per_s, cost.busbw_bytes_per_s});
  }
  if (!table.rows.empty()) table.network_share = share_of(table.rows.back().algorithm, sharing->share);
  return table;
}

// Seconds beside the flows of a schedule.
struct MessageCosts {
  double start_s = 0;       // of the collective
  double inside_s = 0;      // of a message inside a domain
  double crossing_s = 0;    // of one that leaves it
  double inside_share = 1;  // of the links' rates that a message reaches
  double crossing_share = 1;
};

// As measured for NCCL's Simple protocol; where nothing was measured, the priors that plans use.
MessageCosts message_costs(const CollectivePlace& place, const CollectiveSystem& system) {
  const spec::Measured& measured = place.cluster.measured;
  if (measured.has_messages()) return {0, measured.message_inside_s, measured.message_between_s, 1, 1};
  if (!has_tuner(place.graph)) {
    const spec::Physics physics = spec::default_physics();
    return {physics.collective_latency_s, physics.collective_step_s, physics.collective_step_s,
            physics.scale_up_efficiency, physics.scale_out_efficiency};
  }
  const auto simple = static_cast<std::size_t>(cluster::NcclProtocol::simple);
  const cluster::SystemNumbers& numbers = system.numbers;
  return {numbers.latency_simple * system.nccl.base_ring[simple],
          numbers.latency_simple * system.shared.hop_simple * system.nccl.link_ring[simple],
          numbers.latency_net * system.nccl.net_ring[simple],
          std::min(1.0, system.family.bus_share * numbers.share_simple), std::min(1.0, numbers.share_simple)};
}

// Links that a flow inside a domain uses reach another share of their rate than those between domains.
std::vector<FlowLink> schedule_links(const CollectivePlace& place, const MessageCosts& costs) {
  std::vector<FlowLink> links = flow_links(place.graph, true);
  for (std::size_t l = 0; l < links.size(); ++l) {
    const cluster::GraphLink& link = place.graph.links[l];
    const cluster::Vertex& from = place.graph.vertices[static_cast<std::size_t>(link.from)];
    const cluster::Vertex& to = place.graph.vertices[static_cast<std::size_t>(link.to)];
    const std::string& tier = place.graph.cable_tiers[static_cast<std::size_t>(link.tier)];
    const bool beyond = from.node < 0 || to.node < 0 || tier.find("nic") != std::string::npos ||
                        tier.find("pcie") != std::string::npos || tier.find("leaf") != std::string::npos;
    const bool torus = place.graph.scale_up.kind == spec::ScaleUpKind::torus && tier.size() == 1;
    links[l].bytes_per_s *= beyond && !torus ? costs.crossing_share : costs.inside_share;
  }
  return links;
}

constexpr double kMostTransfers = 5e7;
constexpr int kAllPairs = 128;  // ranks of an all-to-all whose pairs are flows of their own

// Rings through several domains are laid in as many ways as a domain has ranks, so that all interfaces are used.
// Channel c is at the device c places on in its domain; the other algorithms use all interfaces by themselves.
struct Channels {
  int number = 1;
  int of_domain = 1;
  int rank(int channel, int rank, int ranks) const {
    const int first = rank / of_domain * of_domain;
    const int size = std::min(of_domain, ranks - first);
    return first + (rank - first + channel) % size;
  }
};

Channels channels_for(const CollectivePlace& place, const CollectiveRequest& request, Algorithm algorithm) {
  const int of_domain = ranks_of_domain(place, request.groups);
  const bool ring = algorithm == Algorithm::ring || algorithm == Algorithm::bidirectional_ring;
  const bool rooted = request.verb == Verb::broadcast || request.verb == Verb::reduce;
  if (!ring || rooted || request.schedule != nullptr || of_domain == request.groups.ranks) return {};
  return {of_domain, of_domain};
}

// The phases of one group as flows.
Program schedule_program(const CollectivePlace& place, const CollectiveGroups& groups, int group,
                         const std::vector<collective::Phase>& phases, const Channels& channels,
                         const MessageCosts& costs) {
  Program program;
  program.start_s = costs.start_s;
  for (const collective::Phase& phase : phases) {
    PhaseFlows flows;
    flows.repeats = phase.repeats;
    collective::for_each_transfer(phase, [&](const collective::Transfer& transfer) {
      for (int c = 0; c < channels.number; ++c) {
        const int from = groups.device(group, channels.rank(c, transfer.from, groups.ranks));
        const int to = groups.device(group, channels.rank(c, transfer.to, groups.ranks));
        const auto salt = static_cast<std::uint64_t>(group) * 64 + static_cast<std::uint64_t>(c);
        Flow flow;
        cluster::append_route(place.graph, from, to, place.routing, salt, flow.path);
        flow.bytes = transfer.bytes / channels.number;
        const bool crosses = domain_of(place.graph, from) != domain_of(place.graph, to);
        flow.delay_s = crosses ? costs.crossing_s : costs.inside_s;
        flows.flows.push_back(std::move(flow));
      }
    });
    program.phases.push_back(std::move(flows));
  }
  return program;
}

// Whether all ranks send along an axis of the torus, each as far as the others.
bool is_translation(const std::vector<int>& torus, const collective::Shift& shift) {
  int stride = 1;
  for (const int extent : torus) {
    if (shift.stride == stride && shift.extent == extent && shift.count < 0) return true;
    stride *= extent;
  }
  return false;
}

// On a torus that looks the same from every device, phases of translations need only the flows of the first device: the
// links of an axis and direction are alike, and each is crossed by as many flows as a route has links of its kind.
bool is_one_of_each(const CollectivePlace& place, const CollectiveGroups& groups,
                    const std::vector<collective::Phase>& phases) {
  if (place.graph.scale_up.twisted || !is_uniform_torus(place.graph, groups)) return false;
  const std::vector<int> torus = torus_by_rank(place.graph);
  return std::all_of(phases.begin(), phases.end(), [&](const collective::Phase& phase) {
    return phase.transfers.empty() &&
           std::all_of(phase.shifts.begin(), phase.shifts.end(),
                       [&](const collective::Shift& shift) { return is_translation(torus, shift); });
  });
}

Program translation_program(const CollectivePlace& place, const std::vector<collective::Phase>& phases,
                            const MessageCosts& costs) {
  const std::vector<int> kinds = torus_link_kinds(place.graph);
  std::vector<int> first_of_kind;  // the link that stands for its kind
  for (std::size_t l = 0; l < kinds.size(); ++l) {
    if (kinds[l] < 0) continue;
    first_of_kind.resize(std::max(first_of_kind.size(), static_cast<std::size_t>(kinds[l]) + 1), -1);
    int& first = first_of_kind[static_cast<std::size_t>(kinds[l])];
    if (first < 0) first = static_cast<int>(l);
  }
  Program program;
  program.start_s = costs.start_s;
  for (const collective::Phase& phase : phases) {
    PhaseFlows flows;
    flows.repeats = phase.repeats;
    for (const collective::Shift& shift : phase.shifts) {
      Flow flow;
      cluster::append_route(place.graph, 0, shift.by * shift.stride, place.routing, 0, flow.path);
      for (int& link : flow.path) {
        link = first_of_kind[static_cast<std::size_t>(kinds[static_cast<std::size_t>(link)])];
      }
      flow.bytes = shift.bytes;
      flow.delay_s = costs.inside_s;
      flows.flows.push_back(std::move(flow));
    }
    program.phases.push_back(std::move(flows));
  }
  return program;
}

collective::Shape shape_for(const CollectivePlace& place, const CollectiveRequest& request, Algorithm algorithm,
                            double bytes) {
  collective::Shape shape;
  shape.ranks_per_node = ranks_of_domain(place, request.groups);
  if (algorithm == Algorithm::torus) {
    shape.torus = torus_by_rank(place.graph);
    shape.split_axes = true;
  }
  if (request.verb == Verb::all_to_all && algorithm == Algorithm::direct) {
    // Hardware starts all sends of a small group at once.
    shape.all_pairs = request.groups.ranks <= kAllPairs;
  }
  // As many pieces as chunks of NCCL's buffers, so that a chain or a tree is a pipeline.
  constexpr double kPieceBytes = 512 * 1024;
  shape.pieces = static_cast<int>(std::clamp(bytes / kPieceBytes, 1.0, 64.0));
  shape.root = request.root;
  shape.peer = request.peer;
  return shape;
}

Result<std::vector<Program>> schedule_programs(const CollectivePlace& place, const CollectiveRequest& request,
                                               Algorithm algorithm, const std::vector<collective::Phase>& phases,
                                               const MessageCosts& costs) {
  const CollectiveGroups& groups = request.groups;
  if (is_one_of_each(place, groups, phases)) return std::vector<Program>{translation_program(place, phases, costs)};
  const Channels channels = channels_for(place, request, algorithm);
  double transfers = 0;
  for (const collective::Phase& phase : phases) transfers += num_transfers(phase) * groups.groups * channels.number;
  if (transfers > kMostTransfers) {
    return infeasible(fmt::format("{} {} over {} ranks has {:.3g} transfers, at most {:.3g} are simulated",
                                  name_of(algorithm), name_of(request.verb), groups.ranks, transfers, kMostTransfers),
                      "take fewer ranks");
  }
  std::vector<Program> programs;
  for (int g = 0; g < groups.groups; ++g) {
    programs.push_back(schedule_program(place, groups, g, phases, channels, costs));
  }
  return programs;
}

struct Timed {
  double time_s = 0;
  int hottest_link = -1;
  double hottest_share = 0;
  std::size_t flows = 0;
  std::size_t flow_kinds = 0;
};

Result<Timed> schedule_time(const CollectivePlace& place, const CollectiveSystem& system,
                            const CollectiveRequest& request, Algorithm algorithm, double bytes) {
  const CollectiveGroups& groups = request.groups;
  Result<std::vector<collective::Phase>> phases;
  if (request.schedule != nullptr) {
    phases = collective::phases_of(*request.schedule, bytes);
  } else {
    phases =
        collective::phases(request.verb, algorithm, groups.ranks, bytes, shape_for(place, request, algorithm, bytes));
  }
  if (!phases) return tl::unexpected(phases.error());
  const MessageCosts costs = message_costs(place, system);
  const std::vector<FlowLink> links = schedule_links(place, costs);
  const Result<std::vector<Program>> programs = schedule_programs(place, request, algorithm, *phases, costs);
  if (!programs) return tl::unexpected(programs.error());
  const Result<RunResult> result = run(links, *programs);
  if (!result) return tl::unexpected(result.error());
  Timed timed{groups.ranks > 1 ? result->end_s : 0, -1, 0, result->flows, result->flow_kinds};
  const std::vector<LinkShare> hottest = hottest_links(links, *result, 1);
  if (!hottest.empty()) {
    timed.hottest_link = hottest[0].link;
    timed.hottest_share = hottest[0].busy_share;
  }
  return timed;
}

// On a whole torus every chip sends to every other at once; the busiest link decides.
Result<Timed> pairs_time(const CollectivePlace& place, const CollectiveSystem& system, const CollectiveRequest& request,
                         double bytes) {
  const Result<PairLoad> load = pair_load(place.graph, request.groups, place.routing);
  if (!load) return tl::unexpected(load.error());
  const MessageCosts costs = message_costs(place, system);
  const double part = bytes / request.groups.ranks;
  double latency_s = costs.start_s + costs.inside_s;
  if (load->link >= 0) latency_s += place.graph.links[static_cast<std::size_t>(load->link)].latency_s;
  return Timed{latency_s + part * load->seconds / costs.inside_share, load->link, 1, 0, 0};
}

Result<Timed> one_time(const CollectivePlace& place, const CollectiveSystem& system, const CollectiveRequest& request,
                       Algorithm algorithm, double bytes) {
  const bool large = request.schedule == nullptr && request.verb == Verb::all_to_all &&
                     algorithm == Algorithm::direct && request.groups.ranks > kAllPairs;
  if (large && !has_tuner(place.graph)) return pairs_time(place, system, request, bytes);
  return schedule_time(place, system, request, algorithm, bytes);
}

// Seconds that an algorithm takes at least: its rounds one after the other, and what one rank sends over all its links.
double least_time(const CollectivePlace& place, const CollectiveSystem& system, const CollectiveRequest& request,
                  Algorithm algorithm, double bytes) {
  const auto volume = collective::volume(request.verb, algorithm, request.groups.ranks, bytes,
                                         shape_for(place, request, algorithm, bytes));
  if (!volume || request.schedule != nullptr) return 0;
  const MessageCosts costs = message_costs(place, system);
  double fastest = 0;  // of all devices
  for (const int vertex : place.graph.devices) {
    double out = 0;
    for (int i = place.graph.first_out[static_cast<std::size_t>(vertex)];
         i < place.graph.first_out[static_cast<std::size_t>(vertex) + 1]; ++i) {
      out += place.graph.links[static_cast<std::size_t>(place.graph.out[static_cast<std::size_t>(i)])].bytes_per_s;
    }
    fastest = std::max(fastest, out);
  }
  const double share = std::max(costs.inside_share, costs.crossing_share);
  const double message = std::min(costs.inside_s, costs.crossing_s);
  return costs.start_s + volume->rounds * message + volume->sent_bytes / (fastest * share);
}

Result<CollectiveTable> schedule_table(const CollectivePlace& place, const CollectiveSystem& system,
                                       const CollectiveRequest& request) {
  std::vector<Algorithm> algorithms = usual_algorithms(place.graph, request);
  if (request.algorithm) algorithms = {*request.algorithm};
  if (request.schedule != nullptr) algorithms = {request.schedule->algorithm};
  CollectiveTable table;
  for (const double bytes : request.bytes) {
    CollectiveRow row;
    row.bytes = bytes;
    for (const Algorithm algorithm : algorithms) {
      const bool hopeless =
          !row.algorithm.empty() && least_time(place, system, request, algorithm, bytes) >= row.time_s;
      if (hopeless) continue;
      const Result<Timed> timed = one_time(place, system, request, algorithm, bytes);
      if (!timed) return tl::unexpected(timed.error());
      table.flows = std::max(table.flows, timed->flows);
      table.flow_kinds = std::max(table.flow_kinds, timed->flow_kinds);
      if (!row.algorithm.empty() && timed->time_s >= row.time_s) continue;
      row.algorithm = request.schedule != nullptr ? "schedule" : name_of(algorithm);
      row.time_s = timed->time_s;
      table.hottest_link = timed->hottest_link;
      table.hottest_share = timed->hottest_share;
    }
    if (row.time_s > 0) row.algbw_bytes_per_s = bytes / row.time_s;
    row.busbw_bytes_per_s = row.algbw_bytes_per_s * collective::bus_factor(request.verb, request.groups.ranks);
    table.rows.push_back(std::move(row));
  }
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

}  // namespace

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

}  // namespace twinpod::sim
