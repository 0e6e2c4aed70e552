// Programs of flows, folded into kinds: what the event loop runs on. Used by flow.cpp only.
//
// A kind stands for `count` flows that cross links alike. Only the load that a kind puts on one link of each kind
// matters: the number of its flows that cross that link.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

#include "core/error.hpp"
#include "sim/flow.hpp"
#include "sim/fold.hpp"

namespace twinpod::sim {

struct KindVisit {
  std::uint32_t link = 0;  // kind of link
  double load = 0;         // flows of the kind that cross one such link
};

struct FlowKind {
  double bytes = 0;
  double delay_s = 0;  // the latencies of the path included
  double max_bytes_per_s = std::numeric_limits<double>::infinity();
  std::uint32_t first_visit = 0;
  std::uint32_t num_visits = 0;
};

struct KindPhase {
  std::uint32_t first_flow = 0;
  std::uint32_t num_flows = 0;
  double repeats = 1;
};

// REQUIRES: programs whose flows have links in common are on the same island.
struct KindProgram {
  double start_s = 0;
  std::vector<std::uint32_t> after;  // program kinds
  std::vector<KindPhase> phases;
  std::uint32_t island = 0;
};

struct Kinds {
  std::vector<FlowKind> flows;
  std::vector<KindVisit> visits;  // links of unlimited capacity are left out
  std::vector<double> capacity;   // of one link of each kind, bytes/s
  std::vector<KindProgram> programs;
};

// What of a flow is alike besides its links.
struct FlowBase {
  double bytes = 0;
  double delay_s = 0;
  double max_bytes_per_s = 0;
  std::uint32_t phase = 0;
  bool operator==(const FlowBase&) const = default;
};

// Flows of one or more phases as nodes of the left, the links that they cross as nodes of the right. When programs are
// joined, both sides have more nodes: the right before its links, the left after its flows.
struct FlowGraph {
  Bipartite nodes;
  std::vector<FlowBase> bases;
  std::vector<std::uint64_t> base_colour;
  std::vector<std::uint32_t> base_of_flow;
  std::uint32_t first_link = 0;      // on the right
  std::vector<std::uint32_t> links;  // on the right from there
};

// A number for what is alike in these values; `tag` tells sorts of things apart.
std::uint64_t colour_of(std::uint64_t tag, std::initializer_list<double> values);

// What a run keeps of each link, side by side because a path visits links far apart.
struct LinkUse {
  std::uint32_t place =
      0;  // on the right of the graph at hand, if not below LinkTable::first_place; counted from there
  std::uint32_t kind = 0;
  double bytes = 0;  // moved by it
};

struct LinkTable {
  explicit LinkTable(const std::vector<FlowLink>& links);
  std::vector<LinkUse> uses;    // of each link
  std::vector<FlowLink> kinds;  // the same link may be there twice
  std::vector<std::uint64_t> colour_of_kind;
  std::uint32_t first_place = 1;
};

// Where a flow is, for messages.
struct FlowPlace {
  std::size_t program = 0;
  std::size_t phase = 0;
  std::size_t flow = 0;
};
Result<void> check_flow(const LinkTable& links, const Flow& flow, const FlowPlace& place);

// Adds the flows of a phase, each joined to the right node `joint` too, if there is one, and what they move to the
// links.
constexpr std::uint32_t kNoJoint = ~std::uint32_t{0};
Result<void> add_phase(FlowGraph& graph, LinkTable& links, const PhaseFlows& phase, FlowPlace place,
                       std::uint32_t joint);

// Call when all flows of a graph are there: the next graph starts with no links.
void finish_links(const FlowGraph& graph, LinkTable& links);

// Kinds of the flows, and for each flow its kind, numbered as they come. REQUIRES: a partition of graph.nodes.
struct FoldedFlows {
  Kinds kinds;  // without programs
  std::vector<std::uint32_t> kind_of_flow;
};
FoldedFlows folded_flows(const FlowGraph& graph, const LinkTable& links, const Partition& partition);

// Calls visit(index, flow) for each flow of a phase, listed or drawn, until it returns false.
template <typename Visit>
bool each_flow(const PhaseFlows& phase, Visit visit) {
  for (std::size_t i = 0; i < phase.flows.size(); ++i) {
    if (!visit(i, phase.flows[i])) return false;
  }
  Flow drawn;
  for (std::size_t i = 0; i < phase.num_drawn; ++i) {
    drawn.path.clear();
    drawn.bytes = drawn.delay_s = 0;
    drawn.count = 1;
    drawn.max_bytes_per_s = std::numeric_limits<double>::infinity();
    phase.draw(i, drawn);
    if (!visit(phase.flows.size() + i, drawn)) return false;
  }
  return true;
}

}  // namespace twinpod::sim
