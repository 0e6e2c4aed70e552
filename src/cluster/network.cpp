#include "cluster/network.hpp"

#include <algorithm>
#include <cmath>

namespace twinpod::cluster {

Group group_of(const spec::Cluster& cluster, double ranks, double stride) {
  const double domain = std::max(1, cluster.scale_up_domain);
  Group group;
  group.ranks = ranks;
  group.per_domain = std::clamp(std::floor(domain / std::max(1.0, stride)), 1.0, ranks);
  return group;
}

double bus_bytes_per_s(const spec::Cluster& cluster, const spec::Physics& physics, const Group& group) {
  const double up = cluster.scale_up_bytes_per_s * physics.scale_up_efficiency;
  if (group.per_domain >= group.ranks && up > 0) return up;
  double out = cluster.scale_out_bytes_per_s * physics.scale_out_efficiency;
  if (cluster.oversubscription > 1 && cluster.non_blocking_devices > 0 && cluster.devices > cluster.non_blocking_devices) {
    out /= cluster.oversubscription;
  }
  const double together = out * group.per_domain;
  return up > 0 && group.per_domain > 1 ? std::min(up, together) : together;
}

double collective_s(const spec::Cluster& cluster, const spec::Physics& physics, Verb verb, double bytes, const Group& group) {
  if (group.ranks <= 1 || bytes <= 0) return 0;
  const double n = group.ranks;
  const double passes = verb == Verb::all_reduce ? 2 : 1;
  double volume = passes * bytes * (n - 1) / n;
  double bus = bus_bytes_per_s(cluster, physics, group);
  if (verb == Verb::send) volume = bytes;
  if (verb == Verb::all_to_all && group.per_domain < n) {
    // Each rank sends (n - per_domain)/n of its bytes out of the domain through its own interface.
    const double outside = bytes * (n - group.per_domain) / n;
    const double out = cluster.scale_out_bytes_per_s * physics.scale_out_efficiency;
    const double up = cluster.scale_up_bytes_per_s * physics.scale_up_efficiency;
    bus = volume / std::max(outside / out, up > 0 ? (volume - outside) / up : 0.0);
  }
  if (!(bus > 0)) return 1e30;  // no path between them
  const double inside = verb == Verb::all_to_all || verb == Verb::send ? 1 : group.per_domain - 1;
  const double between = group.per_domain < n ? std::ceil(std::log2(group.domains())) : 0;
  const double latency = physics.collective_latency_s + passes * inside * physics.collective_step_s +
                         passes * between * (physics.collective_step_s + cluster.scale_out_latency_s);
  return latency + volume / bus + physics.collective_root * std::sqrt(volume);
}

}  // namespace twinpod::cluster
