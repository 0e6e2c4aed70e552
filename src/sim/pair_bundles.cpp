// An all-to-all of many ranks: flows that go the same way are one.
#include "sim/pair_bundles.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "cluster/fabric_load.hpp"

namespace twinpod::sim {
namespace {

using cluster::Graph;
using cluster::Routing;

// Devices in whose node, or scale-up domain, something is cut: their routes are looked at one by one.
std::vector<char> near_cuts(const Graph& graph) {
  std::vector<char> near(graph.devices.size());
  if (graph.num_cut == 0) return near;
  const int per_node = graph.host.devices_per_node;
  const int block = std::max({1, per_node, graph.scale_up.domain});
  const auto mark = [&](int device) {
    const int first = device / block * block;
    const int last = std::min(first + block, graph.num_devices());
    std::fill(near.begin() + first, near.begin() + last, char{1});
  };
  for (const cluster::GraphLink& link : graph.links) {
    if (link.bytes_per_s > 0) continue;
    for (const int end : {link.from, link.to}) {
      const cluster::Vertex& vertex = graph.vertices[static_cast<std::size_t>(end)];
      if (end < graph.num_devices()) {
        mark(end);
      } else if (vertex.node >= 0) {
        mark(vertex.node * per_node);
      }
    }
  }
  return near;
}

// An all-to-all of many ranks through a fabric. The way of a source into the fabric depends on nothing of the receiver
// but its place in its node, and from there on all that enters at one switch goes together (cluster/fabric_load.hpp).
class Bundles {
 public:
  Bundles(const Graph& graph, const CollectiveGroups& groups, Routing routing, Loads& loads)
      : graph_(graph), groups_(groups), routing_(routing), loads_(loads), fabric_(graph), near_(near_cuts(graph)) {
    domain_ = std::max(1, graph.scale_up.domain);
    nic_ports_ = cluster::nic_ports_of_device(graph);
    period_ = std::max(1, graph.host.devices_per_node) * nic_ports_;
    first_switch_ = std::max(graph.tree.first_vertex, graph.dragonfly.first_vertex);
    fixed_ = is_fixed(graph, routing);
  }

  void add() {
    uniform_ = has_uniform_tori(graph_);
    if (uniform_) kinds_ = torus_link_kinds(graph_);
    for (int g = 0; g < groups_.groups; ++g) add_group(g);
    for (std::size_t l = 0; l < loads_.bytes.size(); ++l) loads_.bytes[l] += fabric_.bytes[l];
  }

 private:
  // Sources whose flows to receivers at one place arrive at one port.
  struct Senders {
    struct OfDomain {
      int domain = 0;
      cluster::FabricSource source;
      int device = 0;  // one of them
    };
    std::vector<cluster::FabricSource> all;
    std::unordered_map<int, std::size_t> of_leaf;  // index into all
    std::vector<OfDomain> domains;                 // in their order
    struct Lifted {
      std::vector<cluster::FabricLoads::Arrived> arrived;
      double destinations = 0;
    };
    std::map<int, Lifted> lifted;  // by the slot of receivers: see FabricLoads::lift
  };

  bool is_near(int device) const { return near_[static_cast<std::size_t>(device)] != 0; }
  Senders& senders(int device, int nic_port) {
    return senders_[static_cast<std::size_t>(device % period_) * static_cast<std::size_t>(nic_ports_) +
                    static_cast<std::size_t>(nic_port)];
  }

  void add_group(int group) {
    senders_.assign(static_cast<std::size_t>(period_) * static_cast<std::size_t>(nic_ports_), {});
    std::vector<std::vector<int>> at_place(static_cast<std::size_t>(period_));
    std::vector<int> devices;
    for (int rank = 0; rank < groups_.ranks; ++rank) {
      const int device = groups_.device(group, rank);
      if (is_near(device)) continue;
      devices.push_back(device);
      at_place[static_cast<std::size_t>(device % period_)].push_back(device);
    }
    add_near_cuts(group);
    add_inside(devices);
    for (const int from : devices) {
      for (const std::vector<int>& there : at_place) add_entrance(from, there);
    }
    for (const int to : devices) add_ways_to(to);
    add_first_steps();
    if (!fixed_) add_evenly();
  }

  void add_near_cuts(int group) {
    for (int i = 0; i < groups_.ranks; ++i) {
      const int a = groups_.device(group, i);
      if (!is_near(a)) continue;
      for (int j = 0; j < groups_.ranks; ++j) {
        const int b = groups_.device(group, j);
        if (a != b) add_route(graph_, a, b, routing_, loads_);
        if (a != b && !is_near(b)) add_route(graph_, b, a, routing_, loads_);
      }
    }
  }

  void add_inside(const std::vector<int>& devices) {
    for (std::size_t first = 0; first < devices.size();) {
      std::size_t last = first;
      while (last < devices.size() && devices[last] / domain_ == devices[first] / domain_) ++last;
      if (uniform_ && last - first == static_cast<std::size_t>(domain_)) {
        add_torus_domain(graph_, devices[first], routing_, kinds_, loads_);
      } else {
        for (std::size_t i = first; i < last; ++i) {
          for (std::size_t j = first; j < last; ++j) {
            if (i != j) add_route(graph_, devices[i], devices[j], routing_, loads_);
          }
        }
      }
      first = last;
    }
  }

  // The way of one source into the fabric, for all receivers at a place.
  void add_entrance(int from, const std::vector<int>& there) {
    const int domain = from / domain_;
    // Devices are in order, so those of the domain are neighbours.
    const auto first = std::lower_bound(there.begin(), there.end(), domain * domain_);
    const auto last = std::lower_bound(first, there.end(), (domain + 1) * domain_);
    const auto receivers = static_cast<double>(there.size()) - static_cast<double>(last - first);
    if (receivers <= 0) return;
    const int to = first == there.begin() ? *last : there.front();
    loads_.path.clear();
    cluster::append_planned_route(graph_, from, to, routing_, 0, loads_.path);  // the fabric knows its cuts
    int leaf = -1;
    for (std::size_t i = 0; i < loads_.path.size() && leaf < 0; ++i) {
      const auto link = static_cast<std::size_t>(loads_.path[i]);
      loads_.bytes[link] += receivers;
      leaf = graph_.links[link].to >= first_switch_ ? graph_.links[link].to - first_switch_ : -1;
    }
    note_sender(senders(to, cluster::nic_port_for(graph_, from, to, 0)), from, leaf);
  }

  void note_sender(Senders& senders, int from, int leaf) const {
    const auto [found, is_new] = senders.of_leaf.try_emplace(leaf, senders.all.size());
    if (is_new) senders.all.push_back({leaf, 0});
    senders.all[found->second].bytes += 1;
    const int domain = from / domain_;
    const bool same = !senders.domains.empty() && senders.domains.back().domain == domain &&
                      senders.domains.back().source.leaf == leaf;
    if (!same) senders.domains.push_back({domain, {leaf, 0}, from});
    senders.domains.back().source.bytes -= 1;  // what to take away again
  }

  // From each switch to one device; sources of its own domain reach it inside.
  void add_ways_to(int to) {
    for (int nic_port = 0; nic_port < nic_ports_; ++nic_port) {
      Senders& from = senders(to, nic_port);
      if (from.all.empty()) continue;
      own_.clear();
      const auto before = [](const Senders::OfDomain& of, int domain) { return of.domain < domain; };
      auto of = std::lower_bound(from.domains.begin(), from.domains.end(), to / domain_, before);
      for (; of != from.domains.end() && of->domain == to / domain_; ++of) own_.push_back(of->source);
      double arriving = 0;
      for (const cluster::FabricSource& source : from.all) arriving += source.bytes;
      for (const cluster::FabricSource& source : own_) arriving += source.bytes;
      if (arriving <= 0) continue;
      loads_.path.clear();
      cluster::append_arrival(graph_, to, nic_port, loads_.path);
      for (const int link : loads_.path) loads_.bytes[static_cast<std::size_t>(link)] += arriving;
      const cluster::NicPort& port = cluster::port_of(graph_, to, nic_port);
      if (fixed_) {
        add_fixed(from, port, to);
      } else {
        note_evenly(port, from, to);
      }
    }
  }

  void add_fixed(Senders& from, const cluster::NicPort& port, int to) {
    if (!fabric_.can_lift()) {
      add_stuck(fabric_.spread(from.all, port, true), from, to);
      add_stuck(fabric_.spread(own_, port, true), from, to);
      return;
    }
    std::erase_if(own_, [&](const cluster::FabricSource& source) { return source.leaf == port.leaf; });
    take_away_leaf(from, port.leaf);
    Senders::Lifted& lifted = from.lifted[port.slot];
    if (lifted.destinations == 0) lifted.arrived = fabric_.lift(from.all, port.slot, true, 1);
    lifted.destinations += 1;
    fabric_.spread_lifted(lifted.arrived, own_, port, true);
  }

  // What is at the receiver's own leaf already does not climb.
  void take_away_leaf(const Senders& from, int leaf) {
    const auto here = from.of_leaf.find(leaf);
    if (here != from.of_leaf.end()) own_.push_back({leaf, -from.all[here->second].bytes});
  }

  // What has no way up and down again takes any way that is left.
  void add_stuck(const std::vector<cluster::FabricSource>& stuck, const Senders& senders, int to) {
    for (const cluster::FabricSource& source : stuck) {
      const auto of = std::find_if(senders.domains.begin(), senders.domains.end(), [&](const auto& one) {
        return one.source.leaf == source.leaf && one.domain != to / domain_;
      });
      if (of == senders.domains.end()) continue;
      loads_.path.clear();
      cluster::append_route(graph_, of->device, to, routing_, 0, loads_.path);
      for (const int link : loads_.path) loads_.bytes[static_cast<std::size_t>(link)] += source.bytes;
    }
  }

  // The first step has been made once for all receivers with a slot; here is what the others put on its links.
  void add_first_steps() {
    for (Senders& from : senders_) {
      for (const auto& [slot, lifted] : from.lifted) {
        if (lifted.destinations > 1) fabric_.lift(from.all, slot, fixed_, lifted.destinations - 1);
      }
    }
  }

  // Where equal links carry the same, receivers behind a switch are one.
  struct Receivers {
    cluster::NicPort port;
    int device = 0;  // one of them
    const Senders* senders = nullptr;
    std::map<Senders*, double> from;  // and how often
    std::vector<double> besides;      // of each leaf: what is not so
  };
  void note_evenly(const cluster::NicPort& port, Senders& from, int to) {
    Receivers& receivers = evenly_[port.leaf];
    receivers.port = port;
    receivers.device = to;
    receivers.senders = &from;
    receivers.from[&from] += 1;
    if (fabric_.can_lift()) {
      Senders::Lifted& lifted = from.lifted[0];
      if (lifted.destinations == 0) lifted.arrived = fabric_.lift(from.all, 0, false, 1);
      lifted.destinations += 1;
      std::erase_if(own_, [&](const cluster::FabricSource& source) { return source.leaf == port.leaf; });
      take_away_leaf(from, port.leaf);
    }
    for (const cluster::FabricSource& source : own_) add_at(receivers.besides, source.leaf, source.bytes);
  }
  static void add_at(std::vector<double>& amounts, int place, double amount) {
    const auto at = static_cast<std::size_t>(place);
    if (at >= amounts.size()) amounts.resize(at + 1);
    amounts[at] += amount;
  }
  static std::vector<cluster::FabricSource> sources_of(const std::vector<double>& amounts) {
    std::vector<cluster::FabricSource> sources;
    for (std::size_t l = 0; l < amounts.size(); ++l) {
      if (amounts[l] != 0) sources.push_back({static_cast<int>(l), amounts[l]});
    }
    return sources;
  }
  void add_evenly() {
    for (auto& [leaf, receivers] : evenly_) {
      if (fabric_.can_lift()) {
        fabric_.spread_lifted(lifted_to(receivers), sources_of(receivers.besides), receivers.port, false);
        continue;
      }
      for (const auto& [from, times] : receivers.from) {
        for (const cluster::FabricSource& source : from->all)
          add_at(receivers.besides, source.leaf, source.bytes * times);
      }
      add_stuck(fabric_.spread(sources_of(receivers.besides), receivers.port, false), *receivers.senders,
                receivers.device);
    }
    evenly_.clear();
  }
  // What all senders together have brought to the second tier.
  std::vector<cluster::FabricLoads::Arrived> lifted_to(const Receivers& receivers) const {
    std::vector<double> amounts;
    std::vector<int> groups;
    for (const auto& [from, times] : receivers.from) {
      for (const cluster::FabricLoads::Arrived& arrived : from->lifted.at(0).arrived) {
        add_at(amounts, arrived.at, arrived.bytes * times);
        groups.resize(amounts.size());
        groups[static_cast<std::size_t>(arrived.at)] = arrived.group;
      }
    }
    std::vector<cluster::FabricLoads::Arrived> lifted;
    for (std::size_t at = 0; at < amounts.size(); ++at) {
      if (amounts[at] != 0) lifted.push_back({static_cast<int>(at), groups[at], {}, amounts[at]});
    }
    return lifted;
  }

  const Graph& graph_;
  const CollectiveGroups& groups_;
  Routing routing_;
  Loads& loads_;
  cluster::FabricLoads fabric_;
  std::vector<char> near_;  // to cuts, of each device
  int domain_ = 1;
  int nic_ports_ = 1;
  int period_ = 1;  // devices this far apart are at the same place
  int first_switch_ = 0;
  bool fixed_ = true;
  bool uniform_ = false;          // every domain is a torus that looks the same from every device
  std::vector<int> kinds_;        // of its links
  std::vector<Senders> senders_;  // by place and port
  std::vector<cluster::FabricSource> own_;
  std::map<int, Receivers> evenly_;  // by leaf
};

}  // namespace

bool is_fixed(const Graph& graph, Routing routing) {
  return (routing == Routing::rail || routing == Routing::dimension_order) && graph.dragonfly.groups == 0;
}

double routes_near_cuts(const Graph& graph, const CollectiveGroups& groups) {
  const std::vector<char> near = near_cuts(graph);
  double count = 0;
  for (int g = 0; g < groups.groups; ++g) {
    for (int rank = 0; rank < groups.ranks; ++rank) {
      count += near[static_cast<std::size_t>(groups.device(g, rank))] != 0 ? 1 : 0;
    }
  }
  return 2 * count * groups.ranks;
}

void add_bundles(const Graph& graph, const CollectiveGroups& groups, Routing routing, Loads& loads) {
  Bundles(graph, groups, routing, loads).add();
}

}  // namespace twinpod::sim
