#include "sim/step_loads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "sim/network_share.hpp"

namespace twinpod::sim {

using spec::ScaleUpKind;

LoadLayer::LoadLayer(const StepInput& input) : input_(input) {
  if (input.graph == nullptr) return;
  ports_ = std::max(1, cluster::nic_ports_of_device(*input.graph));
  if (input.graph->scale_up.kind == ScaleUpKind::torus) axis_rates_ = torus_axis_rates(*input.graph);
}

Result<void> LoadLayer::add_route(int from, int to, double share, std::uint64_t salt, std::vector<LinkLoad>& loads) {
  if (from == to || share <= 0) return {};
  path_.clear();
  cluster::append_route(*input_.graph, from, to, input_.routing, salt, path_);
  if (path_.empty()) {
    return infeasible(fmt::format("there is no route from device {} to device {}", from, to),
                      "twinpod topology shows what is connected to what");
  }
  for (const int link : path_) loads.push_back({link, static_cast<float>(share)});
  return {};
}

LoadLayer::Domains LoadLayer::domains_of(const std::vector<int>& ranks) const {
  Domains domains;
  for (const int rank : ranks) {
    const int d = device(rank);
    const bool same =
        !domains.empty() && domain_of(*input_.graph, domains.back().back()) == domain_of(*input_.graph, d);
    if (!same) domains.emplace_back();
    domains.back().push_back(d);
  }
  return domains;
}

// As if no cable were cut.
double LoadLayer::planned_byte_s(const std::vector<TorusHop>& hops) {
  std::unordered_map<int, double> shares;
  for (const TorusHop& hop : hops) {
    path_.clear();
    cluster::append_planned_route(*input_.graph, hop.from, hop.to, input_.routing, 0, path_);
    cluster::append_planned_route(*input_.graph, hop.to, hop.from, input_.routing, 0, path_);
    for (const int link : path_) shares[link] += hop.share;
  }
  const double slowest = *std::min_element(axis_rates_.begin(), axis_rates_.end());
  double most = 0;
  for (const auto& [link, share] : shares) most = std::max(most, share);
  return slowest > 0 ? most / slowest : 0;
}

Result<double> LoadLayer::add_torus(const std::vector<int>& devices, std::vector<LinkLoad>& loads) {
  const TorusUse use = torus_use(*input_.graph, axis_rates_, devices);
  loads.insert(loads.end(), use.loads.begin(), use.loads.end());
  Result<void> added;
  for (const TorusHop& hop : use.hops) {
    if (added) added = add_route(hop.from, hop.to, hop.share, 0, loads);
    if (added) added = add_route(hop.to, hop.from, hop.share, 0, loads);
  }
  if (!added) return tl::unexpected(added.error());
  return use.byte_s > 0 ? use.byte_s : planned_byte_s(use.hops);
}

// The part of rings inside a domain: `channels` of them (0: the ring stays inside), each of which leaves at a place.
Result<double> LoadLayer::add_inside(const std::vector<int>& devices, std::size_t channels,
                                     std::vector<LinkLoad>& loads) {
  const std::size_t members = devices.size();
  if (members < 2) return 0.0;
  if (input_.graph->scale_up.kind == ScaleUpKind::torus) return add_torus(devices, loads);
  for (std::size_t i = 0; i < members; ++i) {
    std::size_t passing = channels;
    for (std::size_t c = 0; c < channels; ++c) {
      if (place_of(c) % members == (i + 1) % members) --passing;
    }
    const double share = channels == 0 ? 1 : double(passing) / double(channels);
    const Result<void> added = add_route(devices[i], devices[(i + 1) % members], share, 0, loads);
    if (!added) return tl::unexpected(added.error());
  }
  return 0.0;
}

Result<double> LoadLayer::add_rings(const std::vector<int>& ranks, std::vector<LinkLoad>& loads) {
  double byte_s = 0;
  if (input_.graph == nullptr || ranks.size() < 2) return byte_s;
  const Domains domains = domains_of(ranks);
  // In a mesh rings are laid in many orders, so that all pairs' links are used alike.
  if (input_.graph->scale_up.kind == ScaleUpKind::mesh && domains.size() == 1) {
    const Result<void> added = add_pairs(ranks, loads);
    if (!added) return tl::unexpected(added.error());
    return byte_s;
  }
  std::size_t most = 1;
  for (const std::vector<int>& domain : domains) most = std::max(most, domain.size());
  // Of each place as many as a device has NIC ports; their salts take the ports in turn.
  const std::size_t channels = domains.size() > 1 ? most * static_cast<std::size_t>(ports_) : 0;
  for (std::size_t d = 0; d < domains.size(); ++d) {
    const std::vector<int>& here = domains[d];
    const std::vector<int>& next = domains[(d + 1) % domains.size()];
    const Result<double> inside = add_inside(here, channels, loads);
    if (!inside) return inside;
    byte_s = std::max(byte_s, *inside);
    for (std::size_t c = 0; c < channels; ++c) {
      const Result<void> added = add_route(here[(place_of(c) + here.size() - 1) % here.size()],
                                           next[place_of(c) % next.size()], 1.0 / double(channels), c, loads);
      if (!added) return tl::unexpected(added.error());
    }
  }
  return byte_s;
}

Result<void> LoadLayer::add_pairs(const std::vector<int>& ranks, std::vector<LinkLoad>& loads) {
  Result<void> added;
  for (const int from : ranks) {
    for (const int to : ranks) {
      if (input_.graph == nullptr || from == to || !added) continue;
      added = add_route(device(from), device(to), 1.0 / double(ranks.size() - 1), 0, loads);
    }
  }
  return added;
}

Result<void> LoadLayer::add_transfer(int from_rank, int to_rank, std::uint64_t salt, std::vector<LinkLoad>& loads) {
  if (input_.graph == nullptr) return {};
  return add_between(device(from_rank), device(to_rank), salt, loads);
}

Result<void> LoadLayer::add_replica(int rank, int distance, std::uint64_t salt, std::vector<LinkLoad>& loads) {
  if (input_.graph == nullptr || distance == 0) return {};
  const int to = (device(rank) + distance) % input_.graph->num_devices();
  if (domain_of(*input_.graph, device(rank)) == domain_of(*input_.graph, to)) return {};
  return add_between(device(rank), to, salt, loads);
}

void LoadLayer::add_way_out(int rank, std::vector<LinkLoad>& loads) const {
  if (input_.graph == nullptr || input_.graph->host.ports.empty()) return;
  for (int port = 0; port < ports_; ++port) {
    loads.push_back({cluster::port_of(*input_.graph, device(rank), port).link, 1 / static_cast<float>(ports_)});
  }
}

Result<void> LoadLayer::add_between(int from, int to, std::uint64_t salt, std::vector<LinkLoad>& loads) {
  const int parts = domain_of(*input_.graph, from) == domain_of(*input_.graph, to) ? 1 : ports_;
  Result<void> added;
  for (int part = 0; part < parts && added; ++part) {
    added = add_route(from, to, 1.0 / parts, salt + static_cast<std::uint64_t>(part), loads);
  }
  return added;
}

}  // namespace twinpod::sim
