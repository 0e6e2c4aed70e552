#include "sim/schedule_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "collective/phases.hpp"
#include "collective/request.hpp"
#include "spec/physics.hpp"

namespace twinpod::sim {
namespace {

using cluster::CollectiveSystem;
using collective::Algorithm;
using collective::Verb;

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
          system.shared.hop_simple * system.nccl.link_ring[simple], numbers.latency_net * system.nccl.net_ring[simple],
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

constexpr double kManyFlows = 1 << 14;  // beyond, a phase is as long as its busiest link
constexpr double kMostFlows = 1 << 20;  // of an algorithm that is one of several
constexpr double kMostTransfers = 5e7;  // of one that was asked for
constexpr int kAllPairs = 128;          // ranks of an all-to-all whose pairs are flows of their own

// Rings through several domains are laid in as many ways as a domain has ranks, so that all interfaces are used.
// Channel c is at the device c places on in its domain; the other algorithms use all devices by themselves. Whatever
// leaves a domain takes all ways out of its device.
struct Channels {
  int number = 1;
  int of_domain = 1;
  int nic_ports = 1;
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
  const int nic_ports = cluster::nic_ports_of_device(place.graph);
  if (!ring || rooted || request.schedule != nullptr || of_domain == request.groups.ranks) return {1, 1, nic_ports};
  return {of_domain, of_domain, nic_ports};
}

// Calls with every flow of a phase of one group; the same object each time.
template <typename Visit>
void for_each_flow(const CollectivePlace& place, const CollectiveGroups& groups, int group,
                   const collective::Phase& phase, const Channels& channels, const MessageCosts& costs,
                   const Visit& visit) {
  Flow flow;
  collective::for_each_transfer(phase, [&](const collective::Transfer& transfer) {
    for (int c = 0; c < channels.number; ++c) {
      const int from = groups.device(group, channels.rank(c, transfer.from, groups.ranks));
      const int to = groups.device(group, channels.rank(c, transfer.to, groups.ranks));
      const bool crosses = domain_of(place.graph, from) != domain_of(place.graph, to);
      const int nic_ports = crosses ? channels.nic_ports : 1;
      for (int nic_port = 0; nic_port < nic_ports; ++nic_port) {
        const auto channel = static_cast<std::uint64_t>(group) * 64 + static_cast<std::uint64_t>(c);
        const auto salt =
            channel * static_cast<std::uint64_t>(channels.nic_ports) + static_cast<std::uint64_t>(nic_port);
        flow.path.clear();
        cluster::append_route(place.graph, from, to, place.routing, salt, flow.path);
        flow.bytes = transfer.bytes / channels.number / nic_ports;
        flow.delay_s = crosses ? costs.crossing_s : costs.inside_s;
        visit(std::as_const(flow));
      }
    }
  });
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
    for_each_flow(place, groups, group, phase, channels, costs, [&](const Flow& flow) { flows.flows.push_back(flow); });
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

double num_flows(const CollectiveRequest& request, const std::vector<collective::Phase>& phases,
                 const Channels& channels) {
  double flows = 0;
  for (const collective::Phase& phase : phases) flows += num_transfers(phase);
  return flows * request.groups.groups * channels.number;
}

std::vector<Program> schedule_programs(const CollectivePlace& place, const CollectiveRequest& request,
                                       const std::vector<collective::Phase>& phases, const Channels& channels,
                                       const MessageCosts& costs) {
  const CollectiveGroups& groups = request.groups;
  if (is_one_of_each(place, groups, phases)) return {translation_program(place, phases, costs)};
  std::vector<Program> programs;
  for (int g = 0; g < groups.groups; ++g) {
    programs.push_back(schedule_program(place, groups, g, phases, channels, costs));
  }
  return programs;
}

// A phase of very many flows takes as long as its slowest message, and then as its busiest link. Where all flows are as
// long this is what fair shares come to; where they are not, it was within one percent (trees on a torus).
struct PhaseLoad {
  double repeats = 1;
  double latency_s = 0;
  double busy_s = 0;  // for each byte of the collective
  int link = -1;
};

std::vector<PhaseLoad> phase_loads(const CollectivePlace& place, const CollectiveRequest& request,
                                   const std::vector<collective::Phase>& phases, const Channels& channels,
                                   const MessageCosts& costs, double bytes) {
  const std::vector<FlowLink> links = schedule_links(place, costs);
  std::vector<double> loads(links.size());
  std::vector<int> used;
  std::vector<PhaseLoad> result;
  for (const collective::Phase& phase : phases) {
    PhaseLoad load;
    load.repeats = phase.repeats;
    for (int g = 0; g < request.groups.groups; ++g) {
      for_each_flow(place, request.groups, g, phase, channels, costs, [&](const Flow& flow) {
        double latency_s = flow.delay_s;
        for (const int link : flow.path) {
          const auto l = static_cast<std::size_t>(link);
          latency_s += links[l].latency_s;
          if (loads[l] == 0) used.push_back(link);
          loads[l] += flow.bytes;
        }
        load.latency_s = std::max(load.latency_s, latency_s);
      });
    }
    for (const int link : used) {
      const auto l = static_cast<std::size_t>(link);
      const double busy_s = loads[l] / links[l].bytes_per_s / bytes;
      if (busy_s > load.busy_s) load.link = link;
      load.busy_s = std::max(load.busy_s, busy_s);
      loads[l] = 0;
    }
    used.clear();
    result.push_back(load);
  }
  return result;
}

struct Timed {
  double time_s = 0;
  int hottest_link = -1;
  double hottest_share = 0;
  std::size_t flows = 0;
  std::size_t flow_kinds = 0;
};

// Loads of phases by algorithm and pieces: the sizes of a table share them.
using KnownLoads = std::map<std::pair<Algorithm, int>, std::vector<PhaseLoad>>;

Timed time_of(const std::vector<PhaseLoad>& loads, const MessageCosts& costs, double bytes) {
  Timed timed;
  timed.time_s = costs.start_s;
  double most = 0;
  for (const PhaseLoad& load : loads) {
    const double busy_s = load.repeats * load.busy_s * bytes;
    timed.time_s += load.repeats * load.latency_s + busy_s;
    if (busy_s <= most) continue;
    most = busy_s;
    timed.hottest_link = load.link;
  }
  timed.hottest_share = most / timed.time_s;
  return timed;
}

Result<Timed> flows_time(const CollectivePlace& place, const CollectiveRequest& request,
                         const std::vector<collective::Phase>& phases, const Channels& channels,
                         const MessageCosts& costs) {
  const std::vector<FlowLink> links = schedule_links(place, costs);
  const Result<RunResult> result = run(links, schedule_programs(place, request, phases, channels, costs));
  if (!result) return tl::unexpected(result.error());
  Timed timed{request.groups.ranks > 1 ? result->end_s : 0, -1, 0, result->flows, result->flow_kinds};
  const std::vector<LinkShare> hottest = hottest_links(links, *result, 1);
  if (!hottest.empty()) {
    timed.hottest_link = hottest[0].link;
    timed.hottest_share = hottest[0].busy_share;
  }
  return timed;
}

Result<std::vector<collective::Phase>> phases_for(const CollectiveRequest& request, Algorithm algorithm,
                                                  const collective::Shape& shape, double bytes) {
  if (request.schedule != nullptr) return collective::phases_of(*request.schedule, bytes);
  return collective::phases(request.verb, algorithm, request.groups.ranks, bytes, shape);
}

// None: too many flows to look at, and others will do. `must`: there is nothing else.
Result<std::optional<Timed>> schedule_time(const CollectivePlace& place, const CollectiveSystem& system,
                                           const CollectiveRequest& request, Algorithm algorithm, double bytes,
                                           bool must, KnownLoads& known) {
  const MessageCosts costs = message_costs(place, system);
  const collective::Shape shape = shape_for(place, request, algorithm, bytes);
  const auto found = known.find({algorithm, shape.pieces});
  if (found != known.end()) return time_of(found->second, costs, bytes);
  const auto phases = phases_for(request, algorithm, shape, bytes);
  if (!phases) return tl::unexpected(phases.error());
  const Channels channels = channels_for(place, request, algorithm);
  const double flows = num_flows(request, *phases, channels);
  if (flows <= kManyFlows || is_one_of_each(place, request.groups, *phases)) {
    const Result<Timed> timed = flows_time(place, request, *phases, channels, costs);
    if (!timed) return tl::unexpected(timed.error());
    return *timed;
  }
  if (flows > kMostFlows && !must) return std::nullopt;
  if (flows > kMostTransfers) {
    return infeasible(
        fmt::format("{} {} over {} ranks has {:.3g} transfers, at most {:.3g} are simulated", name_of(algorithm),
                    name_of(request.verb), request.groups.ranks, flows, kMostTransfers),
        "take fewer ranks");
  }
  const auto added = known.insert(
      {{algorithm, shape.pieces}, phase_loads(place, request, *phases, channels, costs, std::max(1.0, bytes))});
  return time_of(added.first->second, costs, bytes);
}

// Every rank sends to every other at once; the busiest link decides.
Result<std::vector<PhaseLoad>> pair_loads(const CollectivePlace& place, const CollectiveGroups& groups,
                                          const MessageCosts& costs) {
  const Result<PairLoad> load = pair_load(place.graph, groups, place.routing);
  if (!load) return tl::unexpected(load.error());
  double latency_s = costs.inside_s;
  if (load->link >= 0) latency_s += place.graph.links[static_cast<std::size_t>(load->link)].latency_s;
  return std::vector<PhaseLoad>{{1, latency_s, load->seconds / groups.ranks / costs.inside_share, load->link}};
}

Result<std::optional<Timed>> one_time(const CollectivePlace& place, const CollectiveSystem& system,
                                      const CollectiveRequest& request, Algorithm algorithm, double bytes, bool must,
                                      KnownLoads& known) {
  const bool large = request.schedule == nullptr && request.verb == Verb::all_to_all &&
                     algorithm == Algorithm::direct && request.groups.ranks > kAllPairs;
  if (!large || has_tuner(place.graph)) return schedule_time(place, system, request, algorithm, bytes, must, known);
  const MessageCosts costs = message_costs(place, system);
  auto found = known.find({algorithm, 0});
  if (found == known.end()) {
    const Result<std::vector<PhaseLoad>> loads = pair_loads(place, request.groups, costs);
    if (!loads) return tl::unexpected(loads.error());
    found = known.insert({{algorithm, 0}, *loads}).first;
  }
  return time_of(found->second, costs, bytes);
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

// The most hopeful first, so that the others need not be simulated.
std::vector<std::pair<double, Algorithm>> by_least_time(const CollectivePlace& place, const CollectiveSystem& system,
                                                        const CollectiveRequest& request,
                                                        const std::vector<Algorithm>& algorithms, double bytes) {
  std::vector<std::pair<double, Algorithm>> sorted;
  for (const Algorithm algorithm : algorithms) {
    const double least_s = algorithms.size() > 1 ? least_time(place, system, request, algorithm, bytes) : 0;
    sorted.emplace_back(least_s, algorithm);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return sorted;
}

}  // namespace

Result<CollectiveTable> schedule_table(const CollectivePlace& place, const CollectiveSystem& system,
                                       const CollectiveRequest& request) {
  std::vector<Algorithm> algorithms = usual_algorithms(place.graph, request);
  if (request.algorithm) algorithms = {*request.algorithm};
  if (request.schedule != nullptr) algorithms = {request.schedule->algorithm};
  CollectiveTable table;
  KnownLoads known;
  for (const double bytes : request.bytes) {
    CollectiveRow row;
    row.bytes = bytes;
    const auto sorted = by_least_time(place, system, request, algorithms, bytes);
    for (const auto& [least_s, algorithm] : sorted) {
      if (!row.algorithm.empty() && least_s >= row.time_s) break;
      const bool must = row.algorithm.empty() && algorithm == sorted.back().second;
      const Result<std::optional<Timed>> one = one_time(place, system, request, algorithm, bytes, must, known);
      if (!one) return tl::unexpected(one.error());
      if (!*one) continue;
      const std::optional<Timed>& timed = *one;
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

}  // namespace twinpod::sim
