#include "sim/flow_rates.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>

namespace twinpod::sim {
namespace {

using Index = std::uint32_t;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// The level at which a link is full or a flow at its maximum.
struct Stop {
  double level = 0;
  Index link_or_flow = 0;
  bool is_flow = false;
  bool operator>(const Stop& other) const {
    if (level != other.level) return level > other.level;
    if (is_flow != other.is_flow) return is_flow;
    return link_or_flow > other.link_or_flow;
  }
};

using Stops = std::priority_queue<Stop, std::vector<Stop>, std::greater<>>;

const KindVisit* begin_of(const Kinds& kinds, Index flow) {
  return kinds.visits.data() + kinds.flows[flow].first_visit;
}
const KindVisit* end_of(const Kinds& kinds, Index flow) { return begin_of(kinds, flow) + kinds.flows[flow].num_visits; }

void see_flow(FairShare& share, Index flow) {
  if (share.flow_growing[flow]) return;
  share.flow_growing[flow] = 1;
  share.flows.push_back(flow);
}

void see_link(FairShare& share, Index link) {
  if (share.link_seen[link]) return;
  share.link_seen[link] = 1;
  share.links.push_back(link);
}

// All flows and links that a change can reach.
void find_affected(FairShare& share) {
  share.links.clear();
  share.flows.clear();
  for (const Index link : share.touched_links) see_link(share, link);
  for (const Index flow : share.entered) see_flow(share, flow);
  share.touched_links.clear();
  share.entered.clear();
  std::size_t links_done = 0;
  std::size_t flows_done = 0;
  while (links_done < share.links.size() || flows_done < share.flows.size()) {
    for (; links_done < share.links.size(); ++links_done) {
      for (const Index flow : share.on_link[share.links[links_done]]) see_flow(share, flow);
    }
    for (; flows_done < share.flows.size(); ++flows_done) {
      const Index flow = share.flows[flows_done];
      for (const KindVisit* v = begin_of(*share.kinds, flow); v != end_of(*share.kinds, flow); ++v) {
        see_link(share, v->link);
      }
    }
  }
}

Stops first_stops(FairShare& share) {
  const Kinds& kinds = *share.kinds;
  for (const Index link : share.links) {
    share.free_capacity[link] = kinds.capacity[link];
    share.growing_load[link] = 0;
  }
  std::vector<Stop> stops;
  for (const Index flow : share.flows) {
    for (const KindVisit* v = begin_of(kinds, flow); v != end_of(kinds, flow); ++v) {
      share.growing_load[v->link] += v->load;
    }
    if (kinds.flows[flow].max_bytes_per_s < kInfinite) stops.push_back({kinds.flows[flow].max_bytes_per_s, flow, true});
  }
  for (const Index link : share.links) {
    if (share.growing_load[link] > 0) {
      stops.push_back({share.free_capacity[link] / share.growing_load[link], link, false});
    }
  }
  return Stops(std::greater<>(), std::move(stops));
}

void stop_flow(FairShare& share, Index flow, double level) {
  if (!share.flow_growing[flow]) return;
  share.flow_growing[flow] = 0;
  share.rate[flow] = level;
  for (const KindVisit* v = begin_of(*share.kinds, flow); v != end_of(*share.kinds, flow); ++v) {
    share.free_capacity[v->link] = std::max(0.0, share.free_capacity[v->link] - level * v->load);
    share.growing_load[v->link] -= v->load;
  }
}

// A link's level only rises while others stop, so an entry that has become too low goes back into the heap.
void fill(FairShare& share, Stops stops) {
  double level = 0;
  while (!stops.empty()) {
    const Stop stop = stops.top();
    stops.pop();
    if (stop.is_flow) {
      level = std::max(level, stop.level);
      stop_flow(share, stop.link_or_flow, stop.level);
      continue;
    }
    const Index link = stop.link_or_flow;
    if (share.growing_load[link] <= 0) continue;
    const double full_at = share.free_capacity[link] / share.growing_load[link];
    if (full_at > stop.level && !stops.empty() && full_at > stops.top().level) {
      stops.push({full_at, link, false});
      continue;
    }
    level = std::max(level, full_at);  // lower only by rounding
    for (const Index flow : share.on_link[link]) stop_flow(share, flow, level);
  }
  for (const Index flow : share.flows) stop_flow(share, flow, kInfinite);
}

}  // namespace

FairShare::FairShare(const Kinds& all_kinds)
    : kinds(&all_kinds),
      rate(all_kinds.flows.size(), 0.0),
      on_link(all_kinds.capacity.size()),
      link_seen(all_kinds.capacity.size(), 0),
      flow_growing(all_kinds.flows.size(), 0),
      free_capacity(all_kinds.capacity.size(), 0.0),
      growing_load(all_kinds.capacity.size(), 0.0) {}

void enter(FairShare& share, Index flow) {
  for (const KindVisit* v = begin_of(*share.kinds, flow); v != end_of(*share.kinds, flow); ++v) {
    share.on_link[v->link].push_back(flow);
    share.touched_links.push_back(v->link);
  }
  share.entered.push_back(flow);
}

void leave(FairShare& share, Index flow) {
  share.rate[flow] = 0;
  for (const KindVisit* v = begin_of(*share.kinds, flow); v != end_of(*share.kinds, flow); ++v) {
    std::vector<Index>& flows = share.on_link[v->link];
    const auto found = std::find(flows.begin(), flows.end(), flow);
    *found = flows.back();
    flows.pop_back();
    share.touched_links.push_back(v->link);
  }
}

const std::vector<Index>& refresh(FairShare& share) {
  find_affected(share);
  share.rate_before.clear();
  for (const Index flow : share.flows) share.rate_before.push_back(share.rate[flow]);
  fill(share, first_stops(share));
  for (const Index link : share.links) share.link_seen[link] = 0;
  share.changed.clear();
  for (std::size_t i = 0; i < share.flows.size(); ++i) {
    if (share.rate[share.flows[i]] != share.rate_before[i]) share.changed.push_back(share.flows[i]);
  }
  return share.changed;
}

}  // namespace twinpod::sim
