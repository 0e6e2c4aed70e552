// Closed form of communication between the ranks of a group: how the group lies on the machine, and how long it takes.
//
//     const Group dp = group_of(cluster, 16, 8);                       // 16 ranks, every 8th device
//     collective_s(cluster, physics, Verb::reduce_scatter, bytes, dp);
//
// For larger questions (who shares which cable) the simulator has the graph; this is what a search can afford.
#pragma once

#include "spec/cluster.hpp"
#include "spec/physics.hpp"

namespace twinpod::cluster {

enum class Verb { all_reduce, all_gather, reduce_scatter, send };

// `ranks` devices, `stride` apart in the order of devices. Which tiers it spans follows from the group, not from the
// job: one that lies in a single non-blocking unit does not feel what joins the units.
struct Group {
  double ranks = 1;
  double per_domain = 1;  // of them inside one scale-up domain
  double units = 1;       // non-blocking units of the scale-out network that it spans
  double domains() const { return ranks / per_domain; }
  double per_unit() const { return ranks / units; }
};

Group group_of(const spec::Cluster& cluster, double ranks, double stride);

// Bus bandwidth of one rank: the scale-up link inside a domain; beyond it the interfaces of all its ranks in the
// domain; beyond a non-blocking unit its share of the unit's uplinks.
double bus_bytes_per_s(const spec::Cluster& cluster, const spec::Physics& physics, const Group& group);

// bytes: of the whole buffer (gathered, or to be reduced); send: what one rank sends.
//   t = a + s * steps + V / bus + r * sqrt(V);  V = bytes (n-1)/n, twice that for an all-reduce
double collective_s(const spec::Cluster& cluster, const spec::Physics& physics, Verb verb, double bytes,
                    const Group& group);

// An all-to-all in which one rank sends `inside_bytes` within its scale-up domain and `outside_bytes` beyond it; the
// two run side by side. Of the latter, what is for other non-blocking units shares the unit's uplinks.
double exchange_s(const spec::Cluster& cluster, const spec::Physics& physics, const Group& group, double inside_bytes,
                  double outside_bytes);

}  // namespace twinpod::cluster
