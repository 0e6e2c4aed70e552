#include "sim/network_share.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "collective/phases.hpp"

namespace twinpod::sim {
namespace {

using cluster::CollectiveVerb;
using cluster::Graph;

// Devices of a group, by the domains they lie in.
struct DomainRanks {
  std::vector<int> devices;  // in the order of ranks
  std::vector<int> first;    // of each domain, and the end
  int most = 1;              // devices of a domain

  int count() const { return static_cast<int>(first.size()) - 1; }
  int size(int domain) const {
    return first[static_cast<std::size_t>(domain) + 1] - first[static_cast<std::size_t>(domain)];
  }
  int device(int domain, int place) const {
    const int number = first[static_cast<std::size_t>(domain)] + place % size(domain);
    return devices[static_cast<std::size_t>(number)];
  }
};

DomainRanks ranks_by_domain(const Graph& graph, const CollectiveGroups& groups, int group) {
  DomainRanks domains;
  domains.devices.reserve(static_cast<std::size_t>(groups.ranks));
  int last = -1;
  for (int rank = 0; rank < groups.ranks; ++rank) {
    const int device = groups.device(group, rank);
    const int domain = domain_of(graph, device);
    if (domain != last) domains.first.push_back(rank);
    last = domain;
    domains.devices.push_back(device);
  }
  domains.first.push_back(groups.ranks);
  for (int d = 0; d < domains.count(); ++d) domains.most = std::max(domains.most, domains.size(d));
  return domains;
}

// Channels beyond this use the same links again.
constexpr int kMaxChannels = 64;

std::uint64_t salt_of(int group, int channel) {
  return static_cast<std::uint64_t>(group) * kMaxChannels + static_cast<std::uint64_t>(channel);
}

// Rings of a group on all its channels. Channel c enters each domain at device c of it, goes through all devices and
// leaves from the one before c. So channels differ in where they cross, and have nearly all their ways inside in
// common. Flows are drawn when they are needed: first those inside a domain, one from each device, then its crossings.
struct RingFlows {
  const CollectivePlace& place;
  int group = 0;
  DomainRanks domains;
  int channels = 1;
  double bytes = 0;
  std::vector<std::size_t> first_flow;  // of each domain, and the end

  int inside(int domain) const {
    // The links of a mesh are used by rings in many orders; pair_load looks at them.
    const bool mesh = place.graph.scale_up.kind == spec::ScaleUpKind::mesh;
    return mesh || domains.size(domain) == 1 ? 0 : domains.size(domain);
  }
  int crossings() const { return domains.count() > 1 ? channels : 0; }

  void route(int from, int to, int channel, std::vector<int>& path) const {
    cluster::append_route(place.graph, from, to, place.routing, salt_of(group, channel), path);
  }
  void crossing(int domain, int channel, std::vector<int>& path) const {
    const int next = domain + 1 == domains.count() ? 0 : domain + 1;
    route(domains.device(domain, channel + domains.size(domain) - 1), domains.device(next, channel), channel, path);
  }
  // Channels that take the way from this device to the next one of the domain; the others leave the domain here.
  int passing(int domain, int from) const {
    const int size = domains.size(domain);
    if (crossings() == 0) return channels;
    const int first = (from + 1) % size;  // channel that leaves here, and each `size` further
    return first >= channels ? channels : channels - (channels - 1 - first) / size - 1;
  }

  void draw(std::size_t index, Flow& flow) const {
    const auto after = std::upper_bound(first_flow.begin(), first_flow.end(), index);
    const int domain = static_cast<int>(after - first_flow.begin()) - 1;
    const int place_in = static_cast<int>(index - *(after - 1));
    flow.bytes = bytes;
    if (place_in >= inside(domain)) {
      crossing(domain, place_in - inside(domain), flow.path);
      return;
    }
    flow.count = passing(domain, place_in);
    if (flow.count > 0) route(domains.device(domain, place_in), domains.device(domain, place_in + 1), 0, flow.path);
    if (flow.count == 0) flow = Flow{};  // nobody passes: nothing, over no link
  }
};

std::shared_ptr<const RingFlows> ring_flows(const CollectivePlace& place, const CollectiveGroups& groups, int group) {
  auto ring =
      std::make_shared<RingFlows>(RingFlows{place, group, ranks_by_domain(place.graph, groups, group), 1, 0, {}});
  if (ring->domains.count() > 1) ring->channels = std::min(ring->domains.most, kMaxChannels);
  ring->bytes = 1.0 / groups.ranks / ring->channels;
  ring->first_flow.push_back(0);
  for (int d = 0; d < ring->domains.count(); ++d) {
    ring->first_flow.push_back(ring->first_flow.back() + static_cast<std::size_t>(ring->inside(d) + ring->crossings()));
  }
  return ring;
}

Program ring_program(const std::shared_ptr<const RingFlows>& ring, double repeats) {
  PhaseFlows phase;
  phase.repeats = repeats;
  phase.num_drawn = ring->first_flow.back();
  phase.draw = [ring](std::size_t index, Flow& flow) { ring->draw(index, flow); };
  Program program;
  program.phases.push_back(std::move(phase));
  return program;
}

// Mean over at most so many of a ring's crossings.
constexpr int kSampledCrossings = 4096;

double crossing_latency_s(const RingFlows& ring) {
  const int step = std::max(1, ring.domains.count() / kSampledCrossings);
  double sum = 0;
  double count = 0;
  std::vector<int> path;
  for (int d = 0; d < ring.domains.count(); d += step) {
    path.clear();
    ring.crossing(d, 0, path);
    for (const int link : path) sum += ring.place.graph.links[static_cast<std::size_t>(link)].latency_s;
    count += 1;
  }
  return sum / count;
}

// Two trees between domains. Everything is under way at once, as in a long pipeline, so that the busiest link decides.
Result<void> add_tree_loads(const CollectivePlace& place, const DomainRanks& domains, int group,
                            std::vector<double>& loads) {
  const auto phases =
      collective::phases(collective::Verb::all_reduce, collective::Algorithm::double_tree, domains.count(), 1, {});
  if (!phases) return tl::unexpected(phases.error());
  const int channels = std::min(domains.most, kMaxChannels);
  std::vector<int> path;
  for (const collective::Phase& phase : *phases) {
    collective::for_each_transfer(phase, [&](const collective::Transfer& transfer) {
      for (int channel = 0; channel < channels; ++channel) {
        path.clear();
        cluster::append_route(place.graph, domains.device(transfer.from, channel), domains.device(transfer.to, channel),
                              place.routing, salt_of(group, channel), path);
        for (const int link : path) loads[static_cast<std::size_t>(link)] += transfer.bytes * phase.repeats / channels;
      }
    });
  }
  return {};
}

void note_hottest(const std::vector<FlowLink>& links, const RunResult& result, Sharing& sharing) {
  const std::vector<LinkShare> hottest = hottest_links(links, result, 1);
  if (hottest.empty()) return;
  sharing.hottest_link = hottest[0].link;
  sharing.hottest_share = hottest[0].busy_share;
}

// What NCCL's rings could use by data sheet: see Placement in cluster/collective_cost.cpp.
double nominal_bus(const CollectivePlace& place, const CollectiveGroups& groups) {
  const DomainRanks domains = ranks_by_domain(place.graph, groups, 0);
  const double per_domain = domains.most;
  const double up = place.cluster.scale_up_bytes_per_s;
  if (domains.count() == 1) return up;
  const double net = place.cluster.scale_out_bytes_per_s * per_domain;
  return per_domain > 1 ? std::min(up, net) : net;
}

Result<void> add_ring_share(const CollectivePlace& place, const CollectiveGroups& groups, Sharing& sharing) {
  const std::vector<FlowLink> links = flow_links(place.graph, false);
  std::vector<Program> programs;
  for (int g = 0; g < groups.groups; ++g) {
    const auto ring = ring_flows(place, groups, g);
    if (g == 0 && ring->crossings() > 0) sharing.crossing_latency_s = crossing_latency_s(*ring);
    programs.push_back(ring_program(ring, 2.0 * (groups.ranks - 1)));
  }
  const Result<RunResult> run_result = run(links, programs);
  if (!run_result) return tl::unexpected(run_result.error());
  const double nominal_s = 2.0 * (groups.ranks - 1) / groups.ranks / nominal_bus(place, groups);
  if (run_result->end_s > 0) sharing.share.ring = std::min(1.0, nominal_s / run_result->end_s);
  note_hottest(links, *run_result, sharing);
  sharing.flows += run_result->flows;
  sharing.flow_kinds += run_result->flow_kinds;
  return {};
}

Result<void> add_tree_share(const CollectivePlace& place, const CollectiveGroups& groups, Sharing& sharing) {
  if (ranks_by_domain(place.graph, groups, 0).count() < 2) return {};
  std::vector<double> loads(place.graph.links.size());
  int per_domain = 1;
  for (int g = 0; g < groups.groups; ++g) {
    const DomainRanks domains = ranks_by_domain(place.graph, groups, g);
    per_domain = std::max(per_domain, domains.most);
    const Result<void> added = add_tree_loads(place, domains, g, loads);
    if (!added) return added;
  }
  double seconds = 0;
  for (std::size_t l = 0; l < loads.size(); ++l) {
    if (loads[l] > 0) seconds = std::max(seconds, loads[l] / place.graph.links[l].bytes_per_s);
  }
  // A node takes in at most two halves from children and one from each parent.
  const double net = place.cluster.scale_out_bytes_per_s * per_domain;
  if (seconds > 0) sharing.share.tree = std::min(1.0, 2 / net / seconds);
  return {};
}

// Links to the switch of a domain: the slowest over what the data sheet says.
void add_domain_share(const CollectivePlace& place, const CollectiveGroups& groups, Sharing& sharing) {
  const cluster::ScaleUpRoutes& up = place.graph.scale_up;
  if (up.kind != spec::ScaleUpKind::switched || up.up.empty()) return;
  for (int g = 0; g < groups.groups; ++g) {
    for (int rank = 0; rank < groups.ranks; ++rank) {
      const int link = up.up[static_cast<std::size_t>(groups.device(g, rank))];
      if (link < 0) continue;
      const auto l = static_cast<std::size_t>(link);
      const double now = std::min(place.graph.links[l].bytes_per_s, place.graph.links[l ^ 1].bytes_per_s);
      sharing.share.domain = std::min(sharing.share.domain, now / place.healthy.links[l].bytes_per_s);
    }
  }
}

// The mesh of one domain: all pairs at once show what its links can do, whatever rings are laid through them.
Result<void> add_mesh_share(const CollectivePlace& place, const CollectiveGroups& groups, Sharing& sharing) {
  const Result<PairLoad> now = pair_load(place.graph, groups, place.routing);
  if (!now) return tl::unexpected(now.error());
  const Result<PairLoad> before = pair_load(place.healthy, {groups.ranks, groups.stride, 1}, place.routing);
  if (!before) return tl::unexpected(before.error());
  if (now->seconds > 0) sharing.share.ring = std::min(1.0, before->seconds / now->seconds);
  sharing.hottest_link = now->link;
  sharing.hottest_share = 1;
  return {};
}

Result<void> add_pair_share(const CollectivePlace& place, const CollectiveGroups& groups, Sharing& sharing) {
  const Result<PairLoad> load = pair_load(place.graph, groups, place.routing);
  if (!load) return tl::unexpected(load.error());
  const DomainRanks domains = ranks_by_domain(place.graph, groups, 0);
  const double inside = domains.most;
  double nominal_s = inside > 1 ? (inside - 1) / place.cluster.scale_up_bytes_per_s : 0;
  if (domains.count() > 1) {
    nominal_s = std::max(nominal_s, (groups.ranks - inside) / place.cluster.scale_out_bytes_per_s);
  }
  if (place.graph.scale_up.kind == spec::ScaleUpKind::mesh && domains.count() == 1) {
    const Result<PairLoad> healthy = pair_load(place.healthy, {groups.ranks, groups.stride, 1}, place.routing);
    if (!healthy) return tl::unexpected(healthy.error());
    nominal_s = healthy->seconds;
  }
  if (load->seconds > 0) sharing.share.pairs = std::min(1.0, nominal_s / load->seconds);
  sharing.hottest_link = load->link;
  sharing.hottest_share = 1;
  return {};
}

}  // namespace

int domain_of(const Graph& graph, int device) {
  return graph.kind == cluster::GraphKind::custom ? device : device / std::max(1, graph.scale_up.domain);
}

std::vector<FlowLink> flow_links(const Graph& graph, bool with_latency) {
  std::vector<FlowLink> links;
  links.reserve(graph.links.size());
  for (const cluster::GraphLink& link : graph.links) {
    links.push_back({link.bytes_per_s, with_latency ? link.latency_s : 0});
  }
  return links;
}

Result<Sharing> network_share(const CollectivePlace& place, const CollectiveGroups& groups, CollectiveVerb verb,
                              const std::optional<cluster::NcclAlgorithm>& only) {
  if (groups.devices() > place.graph.num_devices()) {
    return input_error(fmt::format("{} groups of {} ranks, {} apart, need {} devices, but there are {}", groups.groups,
                                   groups.ranks, groups.stride, groups.devices(), place.graph.num_devices()));
  }
  Sharing sharing;
  if (groups.ranks < 2) return sharing;
  Result<void> added;
  if (verb == CollectiveVerb::all_to_all) {
    added = add_pair_share(place, groups, sharing);
  } else {
    const bool mesh = place.graph.scale_up.kind == spec::ScaleUpKind::mesh;
    const bool one_domain = ranks_by_domain(place.graph, groups, 0).count() == 1;
    if (verb == CollectiveVerb::all_reduce && only != cluster::NcclAlgorithm::ring)
      added = add_tree_share(place, groups, sharing);
    if (added)
      added = mesh && one_domain ? add_mesh_share(place, groups, sharing) : add_ring_share(place, groups, sharing);
    add_domain_share(place, groups, sharing);
    // A tree goes through the devices of a domain one after the other: their slowest link bounds it.
    const double inside = place.cluster.scale_up_bytes_per_s * sharing.share.domain / nominal_bus(place, groups);
    if (ranks_by_domain(place.graph, groups, 0).most > 1) sharing.share.tree = std::min(sharing.share.tree, inside);
  }
  if (!added) return tl::unexpected(added.error());
  return sharing;
}

}  // namespace twinpod::sim
