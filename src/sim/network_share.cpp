#include "sim/network_share.hpp"

#include <fmt/format.h>

#include <algorithm>

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

// More of them would use the same links again.
constexpr int kMaxPlaces = 64;

// Channels of a group: one for each way out of each device of a domain. The fullest domain has `places` of them.
struct Channels {
  int places = 1;
  int nic_ports = 1;
  int count() const { return places * nic_ports; }
  int place(int channel) const { return channel / nic_ports; }
};

Channels channels_of(const Graph& graph, const DomainRanks& domains) {
  if (domains.count() == 1) return {};
  return {std::min(domains.most, kMaxPlaces), cluster::nic_ports_of_device(graph)};
}

std::uint64_t salt_of(int group, int channel) {
  constexpr std::uint64_t kGroupSalts = 4096;
  return static_cast<std::uint64_t>(group) * kGroupSalts + static_cast<std::uint64_t>(channel);
}

// Rings of a group on all its channels. A channel of place p enters each domain at device p of it, goes through all
// devices and leaves from the one before p. So channels differ in where they cross, and have nearly all their ways
// inside in common.
struct RingFlows {
  const CollectivePlace& place;
  int group = 0;
  DomainRanks domains;
  Channels channels;
  double bytes = 0;

  int inside(int domain) const {
    // The links of a mesh are used by rings in many orders; pair_load looks at them.
    const bool mesh = place.graph.scale_up.kind == spec::ScaleUpKind::mesh;
    return mesh || domains.size(domain) == 1 ? 0 : domains.size(domain);
  }
  int crossings() const { return domains.count() > 1 ? channels.count() : 0; }

  void route(int from, int to, int channel, std::vector<int>& path) const {
    cluster::append_route(place.graph, from, to, place.routing, salt_of(group, channel), path);
  }
  void crossing(int domain, int channel, std::vector<int>& path) const {
    const int next = domain + 1 == domains.count() ? 0 : domain + 1;
    const int at = channels.place(channel);
    route(domains.device(domain, at + domains.size(domain) - 1), domains.device(next, at), channel, path);
  }
  // Channels that take the way from this device to the next one of the domain; the others leave the domain here.
  int passing(int domain, int from) const {
    const int size = domains.size(domain);
    const int places = channels.places;
    if (crossings() == 0) return channels.count();
    const int first = (from + 1) % size;  // the place that leaves here, and each `size` further
    return channels.nic_ports * (first >= places ? places : places - (places - 1 - first) / size - 1);
  }

  // Adds what each link has to carry. All flows are as long, so that max-min fair shares end them with the busiest
  // link: its share is the least of all, and whoever has more is done before.
  void add_loads(std::vector<double>& loads) const {
    std::vector<int> path;
    const auto add = [&](double amount) {
      for (const int link : path) loads[static_cast<std::size_t>(link)] += amount;
      path.clear();
    };
    for (int d = 0; d < domains.count(); ++d) {
      for (int i = 0; i < inside(d); ++i) {
        const int count = passing(d, i);
        if (count == 0) continue;
        route(domains.device(d, i), domains.device(d, i + 1), 0, path);
        add(bytes * count);
      }
      for (int c = 0; c < crossings(); ++c) {
        crossing(d, c, path);
        add(bytes);
      }
    }
  }
};

RingFlows ring_flows(const CollectivePlace& place, const CollectiveGroups& groups, int group) {
  RingFlows ring{place, group, ranks_by_domain(place.graph, groups, group), {}, 0};
  ring.channels = channels_of(place.graph, ring.domains);
  ring.bytes = 1.0 / groups.ranks / ring.channels.count();
  return ring;
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
  const Channels channels = channels_of(place.graph, domains);
  std::vector<int> path;
  for (const collective::Phase& phase : *phases) {
    collective::for_each_transfer(phase, [&](const collective::Transfer& transfer) {
      const double bytes = transfer.bytes * phase.repeats / channels.count();
      for (int channel = 0; channel < channels.count(); ++channel) {
        const int at = channels.place(channel);
        path.clear();
        cluster::append_route(place.graph, domains.device(transfer.from, at), domains.device(transfer.to, at),
                              place.routing, salt_of(group, channel), path);
        for (const int link : path) loads[static_cast<std::size_t>(link)] += bytes;
      }
    });
  }
  return {};
}

// The link that needs longest for what it has to carry, and how long.
struct Busiest {
  double seconds = 0;
  int link = -1;
};

Busiest busiest(const Graph& graph, const std::vector<double>& loads) {
  Busiest most;
  for (std::size_t l = 0; l < loads.size(); ++l) {
    if (loads[l] <= 0) continue;
    const double seconds = loads[l] / graph.links[l].bytes_per_s;
    if (seconds > most.seconds) most = {seconds, static_cast<int>(l)};
  }
  return most;
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

void add_ring_share(const CollectivePlace& place, const CollectiveGroups& groups, Sharing& sharing) {
  std::vector<double> loads(place.graph.links.size());
  for (int g = 0; g < groups.groups; ++g) {
    const RingFlows ring = ring_flows(place, groups, g);
    if (g == 0 && ring.crossings() > 0) sharing.crossing_latency_s = crossing_latency_s(ring);
    ring.add_loads(loads);
  }
  const Busiest most = busiest(place.graph, loads);
  const double nominal_s = 1.0 / groups.ranks / nominal_bus(place, groups);
  if (most.seconds > 0) sharing.share.ring = std::min(1.0, nominal_s / most.seconds);
  sharing.hottest_link = most.link;
  sharing.hottest_share = 1;
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
  const double seconds = busiest(place.graph, loads).seconds;
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
    if (added && mesh && one_domain) {
      added = add_mesh_share(place, groups, sharing);
    } else {
      add_ring_share(place, groups, sharing);
    }
    add_domain_share(place, groups, sharing);
    // A tree goes through the devices of a domain one after the other: their slowest link bounds it.
    const double inside = place.cluster.scale_up_bytes_per_s * sharing.share.domain / nominal_bus(place, groups);
    if (ranks_by_domain(place.graph, groups, 0).most > 1) sharing.share.tree = std::min(sharing.share.tree, inside);
  }
  if (!added) return tl::unexpected(added.error());
  return sharing;
}

}  // namespace twinpod::sim
