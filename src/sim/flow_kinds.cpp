#include "sim/flow_kinds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/rng.hpp"

namespace twinpod::sim {
namespace {

using Index = std::uint32_t;
constexpr Index kNoKind = ~Index{0};

std::string where(const FlowPlace& place) {
  return fmt::format("program {}, phase {}, flow {}", place.program, place.phase, place.flow);
}

bool is_right(const FlowLink& link) {
  return link.bytes_per_s >= 0 && link.latency_s >= 0 && std::isfinite(link.latency_s);
}

Result<void> refused_link(const FlowLink& link, int number, const Flow& flow, const FlowPlace& place) {
  if (!is_right(link)) {
    return input_error(fmt::format("link {} has {} bytes/s and a latency of {} s; neither may be negative", number,
                                   link.bytes_per_s, link.latency_s));
  }
  return infeasible(
      fmt::format("{} has {} bytes to move over link {}, which moves 0 bytes/s", where(place), flow.bytes, number),
      "give the link a rate, or the flow a path around it");
}

Result<void> check_path(const LinkTable& links, const Flow& flow, const FlowPlace& place) {
  for (const int number : flow.path) {
    if (number < 0 || static_cast<std::size_t>(number) >= links.uses.size()) {
      return input_error(
          fmt::format("{} crosses link {}, but there are {} links", where(place), number, links.uses.size()),
          links.uses.empty() ? "" : fmt::format("links are numbered 0 to {}", links.uses.size() - 1));
    }
    const FlowLink& link = links.kinds[links.uses[static_cast<std::size_t>(number)].kind];
    const bool moves = link.bytes_per_s > 0 || flow.bytes == 0;
    if (!moves || !is_right(link)) return refused_link(link, number, flow, place);
  }
  return {};
}

constexpr std::uint64_t kFlowTag = 1;
constexpr std::uint64_t kLinkTag = 2;

// Most flows are like the one before, or like one of few others. An old base may be entered again: only its colour
// counts.
Index base_of(FlowGraph& graph, const FlowBase& base) {
  if (!graph.base_of_flow.empty() && graph.bases[graph.base_of_flow.back()] == base) return graph.base_of_flow.back();
  const std::size_t newest = graph.bases.size() > 16 ? graph.bases.size() - 16 : 0;
  for (std::size_t i = graph.bases.size(); i-- > newest;) {
    if (graph.bases[i] == base) return static_cast<Index>(i);
  }
  graph.bases.push_back(base);
  graph.base_colour.push_back(
      colour_of(kFlowTag, {base.bytes, base.delay_s, base.max_bytes_per_s, static_cast<double>(base.phase)}));
  return static_cast<Index>(graph.bases.size() - 1);
}

Index place_of(FlowGraph& graph, LinkTable& links, std::size_t link) {
  LinkUse& use = links.uses[link];
  if (use.place < links.first_place) {
    use.place = links.first_place + static_cast<Index>(graph.links.size());
    graph.links.push_back(static_cast<Index>(link));
    graph.nodes.right_colour.push_back(links.colour_of_kind[use.kind]);
  }
  return graph.first_link + use.place - links.first_place;
}

// Room that is not used costs nothing, while growing copies.
void reserve(FlowGraph& graph, std::size_t flows, std::size_t num_links) {
  constexpr std::size_t kUsualPath = 8;
  const std::size_t all = graph.base_of_flow.size() + flows;
  graph.base_of_flow.reserve(all);
  graph.nodes.left_colour.reserve(all);
  graph.nodes.left_count.reserve(all);
  graph.nodes.first.reserve(all + 1);
  graph.nodes.right.reserve(kUsualPath * all);
  graph.nodes.right_colour.reserve(graph.first_link + std::min(num_links, kUsualPath * all));
  graph.links.reserve(std::min(num_links, kUsualPath * all));
}

const FlowLink& link_at(const FlowGraph& graph, const LinkTable& links, std::size_t place) {
  return links.kinds[links.uses[graph.links[place]].kind];
}

// Links that one flow of a kind crosses, by kind of link; each as often as it is crossed.
void add_visits(Kinds& kinds, const FlowGraph& graph, const Partition& partition, Index flow,
                const std::vector<Index>& link_kind, std::vector<Index>& crossed) {
  crossed.clear();
  for (Index i = graph.nodes.first[flow]; i < graph.nodes.first[flow + 1]; ++i) {
    const Index right = graph.nodes.right[i];
    if (right < graph.first_link) continue;
    const Index kind = link_kind[partition.right_class[right]];
    if (std::isfinite(kinds.capacity[kind])) crossed.push_back(kind);
  }
  std::sort(crossed.begin(), crossed.end());
  const std::size_t first = kinds.visits.size();
  for (const Index kind : crossed) {
    if (kinds.visits.size() > first && kinds.visits.back().link == kind) {
      kinds.visits.back().load += 1;
    } else {
      kinds.visits.push_back({kind, 1});
    }
  }
}

double latency_of(const FlowGraph& graph, const LinkTable& links, Index flow) {
  double sum = 0;
  for (Index i = graph.nodes.first[flow]; i < graph.nodes.first[flow + 1]; ++i) {
    const Index right = graph.nodes.right[i];
    if (right >= graph.first_link) sum += link_at(graph, links, right - graph.first_link).latency_s;
  }
  return sum;
}

// Kinds of links, numbered as they come; the members of each.
std::vector<double> add_link_kinds(Kinds& kinds, const FlowGraph& graph, const LinkTable& links,
                                   const Partition& partition, std::vector<Index>& link_kind) {
  std::vector<double> members;
  link_kind.assign(partition.num_right, kNoKind);
  for (std::size_t i = 0; i < graph.links.size(); ++i) {
    Index& kind = link_kind[partition.right_class[graph.first_link + i]];
    if (kind == kNoKind) {
      kind = static_cast<Index>(kinds.capacity.size());
      kinds.capacity.push_back(link_at(graph, links, i).bytes_per_s);
      members.push_back(0);
    }
    ++members[kind];
  }
  return members;
}

}  // namespace

std::size_t num_flows(const PhaseFlows& phase) { return phase.flows.size() + phase.num_drawn; }

Result<void> check_flow(const LinkTable& links, const Flow& flow, const FlowPlace& place) {
  const bool right_size =
      flow.bytes >= 0 && std::isfinite(flow.bytes) && flow.delay_s >= 0 && std::isfinite(flow.delay_s);
  if (!right_size) {
    return input_error(fmt::format("{} has {} bytes and a delay of {} s; expected numbers not below 0", where(place),
                                   flow.bytes, flow.delay_s));
  }
  if (!(flow.count >= 1 && flow.count <= 0x1p53 && flow.count == std::floor(flow.count))) {
    return input_error(
        fmt::format("{} stands for {} flows; expected a whole number, 1 or more", where(place), flow.count));
  }
  if (!(flow.max_bytes_per_s > 0)) {
    return input_error(
        fmt::format("{} may move at most {} bytes/s; expected more than 0", where(place), flow.max_bytes_per_s));
  }
  return check_path(links, flow, place);
}

std::uint64_t colour_of(std::uint64_t tag, std::initializer_list<double> values) {
  std::uint64_t state = tag;
  std::uint64_t colour = splitmix64(state);
  for (const double value : values) {
    state = colour ^ std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : value);  // one zero
    colour = splitmix64(state);
  }
  return colour;
}

LinkTable::LinkTable(const std::vector<FlowLink>& links) : uses(links.size()) {
  for (std::size_t l = 0; l < links.size(); ++l) {
    if (l == 0 || links[l].bytes_per_s != links[l - 1].bytes_per_s || links[l].latency_s != links[l - 1].latency_s) {
      kinds.push_back(links[l]);
      colour_of_kind.push_back(colour_of(kLinkTag, {links[l].bytes_per_s, links[l].latency_s}));
    }
    uses[l].kind = static_cast<Index>(kinds.size() - 1);
  }
}

Result<void> add_phase(FlowGraph& graph, LinkTable& links, const PhaseFlows& phase, FlowPlace place,
                       std::uint32_t joint) {
  reserve(graph, num_flows(phase), links.uses.size());
  Result<void> checked;
  each_flow(phase, [&](std::size_t index, const Flow& flow) {
    place.flow = index;
    checked = check_flow(links, flow, place);
    if (!checked) return false;
    const Index base =
        base_of(graph, {flow.bytes, flow.delay_s, flow.max_bytes_per_s, static_cast<Index>(place.phase)});
    graph.base_of_flow.push_back(base);
    graph.nodes.left_colour.push_back(graph.base_colour[base]);
    graph.nodes.left_count.push_back(flow.count);
    const double moved = flow.bytes * flow.count * phase.repeats;
    for (const int link : flow.path) {
      graph.nodes.right.push_back(place_of(graph, links, static_cast<std::size_t>(link)));
      links.uses[static_cast<std::size_t>(link)].bytes += moved;
    }
    if (joint != kNoJoint) graph.nodes.right.push_back(joint);
    graph.nodes.first.push_back(static_cast<Index>(graph.nodes.right.size()));
    return true;
  });
  return checked;
}

void finish_links(const FlowGraph& graph, LinkTable& links) {
  links.first_place += static_cast<Index>(graph.links.size());
  if (links.first_place < 0x80000000U) return;
  for (LinkUse& use : links.uses) use.place = 0;
  links.first_place = 1;
}

FoldedFlows folded_flows(const FlowGraph& graph, const LinkTable& links, const Partition& partition) {
  FoldedFlows folded;
  Kinds& kinds = folded.kinds;
  std::vector<Index> link_kind;
  const std::vector<double> members = add_link_kinds(kinds, graph, links, partition, link_kind);
  std::vector<Index> kind_of_class(partition.num_left, kNoKind);
  std::vector<double> count;
  std::vector<Index> crossed;
  const Index num_flows = static_cast<Index>(graph.base_of_flow.size());
  folded.kind_of_flow.resize(num_flows);
  for (Index flow = 0; flow < num_flows; ++flow) {
    Index& kind = kind_of_class[partition.left_class[flow]];
    if (kind == kNoKind) {
      kind = static_cast<Index>(kinds.flows.size());
      count.push_back(0);
      const FlowBase& base = graph.bases[graph.base_of_flow[flow]];
      const Index first = static_cast<Index>(kinds.visits.size());
      add_visits(kinds, graph, partition, flow, link_kind, crossed);
      kinds.flows.push_back({base.bytes, base.delay_s + latency_of(graph, links, flow), base.max_bytes_per_s, first,
                             static_cast<Index>(kinds.visits.size()) - first});
    }
    count[kind] += graph.nodes.left_count[flow];
    folded.kind_of_flow[flow] = kind;
  }
  for (Index kind = 0; kind < kinds.flows.size(); ++kind) {
    for (Index v = 0; v < kinds.flows[kind].num_visits; ++v) {
      KindVisit& visit = kinds.visits[kinds.flows[kind].first_visit + v];
      visit.load *= count[kind] / members[visit.link];
    }
  }
  return folded;
}

}  // namespace twinpod::sim
