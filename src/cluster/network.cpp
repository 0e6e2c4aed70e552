#include "cluster/network.hpp"

#include <algorithm>
#include <cmath>

namespace twinpod::cluster {
namespace {

constexpr double kNever = 1e30;  // seconds: no path between them

double scale_out_bus(const spec::Cluster& cluster, const spec::Physics& physics) {
  return cluster.scale_out_bytes_per_s * physics.scale_out_efficiency;
}

// How many times as long the rings of a group take where they cross from unit to unit. A unit of D devices holds D / u
// groups with u members each; each of them sends d rings (one for each of its d members in a domain) to the next unit,
// and the uplinks carry D / o of them at full rate.
double crowding(const spec::Cluster& cluster, const Group& group) {
  if (group.units <= 1) return 1;
  return std::max(1.0, cluster.oversubscription * group.per_domain / group.per_unit());
}

double leg_s(double bytes, double bytes_per_s) {
  if (bytes <= 0) return 0;
  return bytes_per_s > 0 ? bytes / bytes_per_s : kNever;
}

// Gathers and scatters go round a ring of all ranks; an all-reduce has a ring inside the domain and a tree between
// them.
double latency_s(const spec::Cluster& cluster, const spec::Physics& physics, Verb verb, const Group& group) {
  const double hop = physics.collective_step_s + cluster.scale_out_latency_s;
  const double domains = group.domains();
  switch (verb) {
    case Verb::send:
      return domains > 1 ? hop : physics.collective_step_s;
    case Verb::all_reduce:
      return 2 * (group.per_domain - 1) * physics.collective_step_s + 2 * std::ceil(std::log2(domains)) * hop;
    default:
      return (group.ranks - domains) * physics.collective_step_s + (domains > 1 ? domains * hop : 0);
  }
}

}  // namespace

Group group_of(const spec::Cluster& cluster, double ranks, double stride) {
  const double domain = std::max(1, cluster.scale_up_domain);
  Group group;
  group.ranks = ranks;
  const double apart = std::max(1.0, stride);
  group.per_domain = std::clamp(std::floor(domain / apart), 1.0, ranks);
  // Not whole members: of groups that are wider than a unit, only some lie across its border.
  const double unit = std::max<double>(domain, cluster.non_blocking_devices);
  if (cluster.non_blocking_devices > 0) group.units = ranks / std::clamp(unit / apart, 1.0, ranks);
  return group;
}

double bus_bytes_per_s(const spec::Cluster& cluster, const spec::Physics& physics, const Group& group) {
  const double up = cluster.scale_up_bytes_per_s * physics.scale_up_efficiency;
  if (group.per_domain >= group.ranks && up > 0) return up;
  const double together = scale_out_bus(cluster, physics) * group.per_domain / crowding(cluster, group);
  return up > 0 && group.per_domain > 1 ? std::min(up, together) : together;
}

double collective_s(const spec::Cluster& cluster, const spec::Physics& physics, Verb verb, double bytes,
                    const Group& group) {
  if (group.ranks <= 1 || bytes <= 0) return 0;
  const double n = group.ranks;
  const double passes = verb == Verb::all_reduce ? 2 : 1;
  double volume = passes * bytes * (n - 1) / n;
  const double bus = bus_bytes_per_s(cluster, physics, group);
  if (verb == Verb::send) volume = bytes;
  if (!(bus > 0)) return kNever;
  const double latency = physics.collective_latency_s + latency_s(cluster, physics, verb, group);
  return latency + volume / bus + physics.collective_root * std::sqrt(volume);
}

double exchange_s(const spec::Cluster& cluster, const spec::Physics& physics, const Group& group, double inside_bytes,
                  double outside_bytes) {
  const double up = cluster.scale_up_bytes_per_s * physics.scale_up_efficiency;
  const double out = scale_out_bus(cluster, physics);
  const double others = group.ranks - group.per_domain;
  const double beyond_bytes = others > 0 ? outside_bytes * (group.ranks - group.per_unit()) / others : 0;
  const double inside = leg_s(inside_bytes, up);
  const double outside = leg_s(outside_bytes, out);
  const double beyond = leg_s(beyond_bytes * cluster.oversubscription, out);
  const double slower = std::max({inside, outside, beyond});
  if (slower <= 0) return 0;
  return physics.collective_latency_s + slower + physics.collective_root * std::sqrt(inside_bytes + outside_bytes);
}

}  // namespace twinpod::cluster
