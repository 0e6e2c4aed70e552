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
  const double bus = bus_bytes_per_s(cluster, physics, group);
  if (verb == Verb::send) volume = bytes;
  if (!(bus > 0)) return 1e30;  // no path between them
  const double inside = verb == Verb::send ? 1 : group.per_domain - 1;
  const double between = group.per_domain < n ? std::ceil(std::log2(group.domains())) : 0;
  const double latency = physics.collective_latency_s + passes * inside * physics.collective_step_s +
                         passes * between * (physics.collective_step_s + cluster.scale_out_latency_s);
  return latency + volume / bus + physics.collective_root * std::sqrt(volume);
}

double exchange_s(const spec::Cluster& cluster, const spec::Physics& physics, double inside_bytes, double outside_bytes) {
  const double up = cluster.scale_up_bytes_per_s * physics.scale_up_efficiency;
  const double out = cluster.scale_out_bytes_per_s * physics.scale_out_efficiency;
  const double inside = up > 0 ? inside_bytes / up : 0;
  const double outside = outside_bytes > 0 ? (out > 0 ? outside_bytes / out : 1e30) : 0;
  const double slower = std::max(inside, outside);
  if (slower <= 0) return 0;
  return physics.collective_latency_s + slower + physics.collective_root * std::sqrt(inside_bytes + outside_bytes);
}

}  // namespace twinpod::cluster
