// Lays what ranks send to each other on the links of a graph. Used by the step engine.
//
//     LoadLayer layer(input);
//     std::vector<LinkLoad> loads;
//     layer.add_rings({0, 8, 16, 24}, loads);                           // a collective of these ranks
//     loads[0].link, loads[0].share                                     // of what one rank sends
//
// Without a graph there are no loads. Refused (infeasible): two devices without a route.
#pragma once

#include <cstdint>
#include <vector>

#include "core/error.hpp"
#include "sim/step.hpp"
#include "sim/step_network.hpp"
#include "sim/step_torus.hpp"

namespace twinpod::sim {

class LoadLayer {
 public:
  explicit LoadLayer(const StepInput& input);  // that must outlive it

  // Rings through all domains of the group, one for each rank of a domain, as in sim/network_share.cpp; in a mesh all
  // pairs, in a torus along its axes (sim/step_torus.hpp). The answer is how long the group alone keeps the busiest
  // link of a torus, as built, for each byte that a rank sends; 0: it uses none.
  Result<double> add_rings(const std::vector<int>& ranks, std::vector<LinkLoad>& loads);
  // An all-to-all.
  Result<void> add_pairs(const std::vector<int>& ranks, std::vector<LinkLoad>& loads);
  // A transfer between two ranks, in equal parts through all NIC ports where it leaves its domain.
  Result<void> add_transfer(int from_rank, int to_rank, std::uint64_t salt, std::vector<LinkLoad>& loads);
  // To the host of the device that is `distance` devices on, round the end. Hosts that share a scale-up domain talk
  // over a network that the graph does not hold: nothing.
  Result<void> add_replica(int rank, int distance, std::uint64_t salt, std::vector<LinkLoad>& loads);
  // Out of the node through the NICs of the rank's device, in equal parts through all their ports. Where it goes from
  // there is not known.
  void add_way_out(int rank, std::vector<LinkLoad>& loads) const;

  int device(int rank) const {
    return input_.device_of_rank.empty() ? rank : input_.device_of_rank[static_cast<std::size_t>(rank)];
  }

 private:
  using Domains = std::vector<std::vector<int>>;  // devices

  std::size_t place_of(std::size_t channel) const { return channel / static_cast<std::size_t>(ports_); }
  Domains domains_of(const std::vector<int>& ranks) const;
  Result<void> add_between(int from, int to, std::uint64_t salt, std::vector<LinkLoad>& loads);
  Result<void> add_route(int from, int to, double share, std::uint64_t salt, std::vector<LinkLoad>& loads);
  Result<double> add_torus(const std::vector<int>& devices, std::vector<LinkLoad>& loads);
  double planned_byte_s(const std::vector<TorusHop>& hops);
  Result<double> add_inside(const std::vector<int>& devices, std::size_t channels, std::vector<LinkLoad>& loads);

  const StepInput& input_;
  int ports_ = 1;                   // of the NICs of a device
  std::vector<double> axis_rates_;  // of a torus
  std::vector<int> path_;
};

}  // namespace twinpod::sim
