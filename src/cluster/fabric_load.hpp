// What much traffic to one place puts on the links of a fabric, without a route for each flow: flows that have met in a
// switch go on together.
//
//     FabricLoads loads(graph);                                    // of each link, in bytes
//     loads.spread({{0, 8.0}, {1, 8.0}}, port, true);              // 8 bytes from each of two leaves to a port of a
//     NIC loads.bytes[link]
//
// fixed: the links that Routing::rail takes, to the last byte. Otherwise all equal links carry the same, which is what
// adaptive switches do and what the hashes of very many flows come near to. Links that are cut, and switches from which
// only such links lead on, are left out.
#pragma once

#include <array>
#include <vector>

#include "cluster/graph.hpp"

namespace twinpod::cluster {

struct FabricSource {
  int leaf = 0;  // or router: number of the switch
  double bytes = 0;
};

class FabricLoads {
 public:
  explicit FabricLoads(const Graph& graph);

  static constexpr std::size_t kMostTiers = 8;
  using ByTier = std::array<int, kMostTiers>;
  // Traffic that has reached a switch, with the numbers that its fixed route is made of.
  struct Arrived {
    int at = 0;
    int group = 0;
    ByTier key{};
    double bytes = 0;
    int picked = 0;  // by which of its links the switch below has sent it
    int count = 1;
  };

  // Where nothing is cut, the first step from a leaf is the same for all destinations with the same slot, wherever they
  // are: it can be made once for all of them. `destinations` is how many they are.
  bool can_lift() const { return !has_cuts_ && graph_.dragonfly.groups == 0 && graph_.tree.tiers.size() > 1; }
  std::vector<Arrived> lift(const std::vector<FabricSource>& sources, int slot, bool fixed, double destinations);
  // From there to one of them; `besides` still are at their leaves, also at that of the destination.
  void spread_lifted(const std::vector<Arrived>& lifted, const std::vector<FabricSource>& besides, const NicPort& to,
                     bool fixed);

  // Adds to `bytes`. Says which sources have no way that climbs and comes down again; they are not counted.
  std::vector<FabricSource> spread(const std::vector<FabricSource>& sources, const NicPort& to, bool fixed);

  std::vector<double> bytes;

 private:
  void set_goal(const NicPort& to);
  void go_on(bool fixed);
  void climb(const Arrived& from, std::size_t tier, bool fixed);
  void descend(const Arrived& from, std::size_t tier, bool fixed);
  void meet(std::vector<Arrived>& there, int link, const Arrived& arrived);
  double ways_from(int at, int group, std::size_t tier);
  double ways_by(int link, int group, std::size_t tier);
  template <typename Take>
  void share_out(const int* links, int count, int fixed, int group, std::size_t tier, const Take& take);
  bool spread_dragonfly(const FabricSource& source, int to_router);
  int switch_behind(int link) const { return behind_[static_cast<std::size_t>(link)]; }
  bool is_cut(int link) const { return graph_.links[static_cast<std::size_t>(link)].bytes_per_s <= 0; }
  void load(int link, double amount) { bytes[static_cast<std::size_t>(link)] += amount; }

  const Graph& graph_;
  std::vector<int> behind_;  // of each link the switch it leads to, by itself because links are large
  int first_vertex_ = 0;
  bool has_cuts_ = false;           // among the links of the fabric
  ByTier goal_{};                   // groups of the destination, tier by tier
  int slot_ = 0;                    // of the destination
  std::vector<Arrived> up_, down_;  // at the next tier up or down
  std::vector<int> met_;            // of each switch its place in what is being collected; -1: not yet
  std::vector<double> ways_;        // of each switch: see ways_from; -1: not looked at
};

// The number that a fixed route is made of. At the leaf it is the destination's slot; above, which of the links that a
// switch has to the destination's group. Flows to different destinations below one leaf then never share a link on the
// way down (d-mod-k routing, Zahavi 2010, https://doi.org/10.1002/cpe.1646).
int next_key(int picked, int links, int spread, int local);

}  // namespace twinpod::cluster
