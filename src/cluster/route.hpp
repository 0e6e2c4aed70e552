// Routes through a graph: the links that a flow takes from one device to another, in order.
//
//     const std::vector<int> links = route(graph, 0, 17, Routing::ecmp, salt);
//
// Inside a scale-up domain a route stays inside. Between domains it leaves through the NIC of the device, climbs only
// as far as it must and comes down again; each choice among equal links is made from a hash of the flow (ecmp,
// adaptive) or from the destination alone (rail). With Routing::rail a flow first moves inside its node to the device
// on the destination's rail, as NCCL does (PXN), so that it never needs a spine to change rails. On a torus a flow goes
// along one axis after the other, the shorter way round.
//
// Links that were cut are avoided: by another equal path, through the NIC of a neighbour, or by any way that is left.
//
// A route takes well under a microsecond and allocates nothing but its result. All of it may be used by several
// threads.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/graph.hpp"

namespace twinpod::cluster {

enum class Routing {
  ecmp,             // equal paths by a hash of flow and salt; torus: the order of the axes, too
  rail,             // static: the same path for all flows to a destination, and no changing of rails in the fabric
  adaptive,         // as ecmp; who spreads a flow over all equal paths asks equal_routes
  dimension_order,  // torus: axis x, then y, then z; elsewhere as rail
};

inline constexpr std::array<std::pair<std::string_view, Routing>, 4> kRoutingNames{
    {{"ecmp", Routing::ecmp},
     {"rail", Routing::rail},
     {"adaptive", Routing::adaptive},
     {"dimension_order", Routing::dimension_order}}};

// What the machine's own software would do: dimension order on a torus; in a tree fixed paths by destination, as
// InfiniBand's subnet manager sets them up (with rails where the fabric has them); else ecmp.
Routing usual_routing(const Graph& graph);

// Links from one device to another. `salt` tells flows between the same two devices apart. Empty when both are the
// same, and when there is no way (build_graph lets no such graph pass; cutting links can make one: check_connected).
std::vector<int> route(const Graph& graph, int from_device, int to_device, Routing routing, std::uint64_t salt = 0);

// The same, behind the links that are there already.
void append_route(const Graph& graph, int from_device, int to_device, Routing routing, std::uint64_t salt,
                  std::vector<int>& links);

// Different routes of as few links as possible, at most `limit`, for who sends a flow over the least loaded one or over
// all.
std::vector<std::vector<int>> equal_routes(const Graph& graph, int from_device, int to_device, int limit);

// Links on shortest ways from a vertex to a device: what an adaptive switch chooses from.
std::vector<int> next_hops(const Graph& graph, int vertex, int to_device);

}  // namespace twinpod::cluster
