#include "sim/flow.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>

#include "sim/flow_events.hpp"
#include "sim/flow_kinds.hpp"
#include "sim/flow_rates.hpp"
#include "sim/fold.hpp"

namespace twinpod::sim {
namespace {

using Index = std::uint32_t;

Result<void> check_program(const std::vector<Program>& programs, std::size_t p) {
  const Program& program = programs[p];
  if (!(program.start_s >= 0) || !std::isfinite(program.start_s)) {
    return input_error(fmt::format("program {} starts at {} s; expected 0 or later", p, program.start_s));
  }
  for (const int other : program.after) {
    if (other < 0 || static_cast<std::size_t>(other) >= programs.size()) {
      return input_error(fmt::format("program {} waits for program {}, but there are {}", p, other, programs.size()));
    }
  }
  for (std::size_t k = 0; k < program.phases.size(); ++k) {
    const PhaseFlows& phase = program.phases[k];
    if (!(phase.repeats >= 0 && phase.repeats <= 0x1p53 && phase.repeats == std::floor(phase.repeats))) {
      return input_error(
          fmt::format("program {}, phase {} repeats {} times; expected a whole number", p, k, phase.repeats));
    }
    if (phase.num_drawn > 0 && !phase.draw) {
      return input_error(
          fmt::format("program {}, phase {} has {} flows to draw and nothing that draws them", p, k, phase.num_drawn));
    }
  }
  return {};
}

// Programs that wait for each other in a circle would never start.
Result<void> check_order(const std::vector<Program>& programs) {
  std::vector<std::vector<std::size_t>> dependents(programs.size());
  std::vector<std::size_t> waits_for(programs.size());
  std::vector<std::size_t> ready;
  for (std::size_t p = 0; p < programs.size(); ++p) {
    waits_for[p] = programs[p].after.size();
    for (const int other : programs[p].after) dependents[static_cast<std::size_t>(other)].push_back(p);
    if (waits_for[p] == 0) ready.push_back(p);
  }
  for (std::size_t i = 0; i < ready.size(); ++i) {
    for (const std::size_t dependent : dependents[ready[i]]) {
      if (--waits_for[dependent] == 0) ready.push_back(dependent);
    }
  }
  const auto stuck = std::find_if(waits_for.begin(), waits_for.end(), [](std::size_t n) { return n > 0; });
  if (stuck == waits_for.end()) return {};
  return input_error(fmt::format("program {} waits for itself, directly or through others", stuck - waits_for.begin()));
}

Result<void> check_programs(const std::vector<Program>& programs) {
  for (std::size_t p = 0; p < programs.size(); ++p) {
    Result<void> checked = check_program(programs, p);
    if (!checked) return checked;
  }
  return check_order(programs);
}

Index root_of(std::vector<Index>& parent, Index node) {
  while (parent[node] != node) {
    parent[node] = parent[parent[node]];
    node = parent[node];
  }
  return node;
}

// Programs that have links in common, however indirectly: each list an island.
Result<std::vector<std::vector<Index>>> islands_of(const LinkTable& links, const std::vector<Program>& programs) {
  if (programs.size() == 1) return std::vector<std::vector<Index>>{{0}};
  std::vector<Index> parent(programs.size());
  std::iota(parent.begin(), parent.end(), Index{0});
  std::vector<Index> first_user(links.uses.size(), ~Index{0});
  Result<void> checked;
  for (Index p = 0; p < programs.size() && checked; ++p) {
    for (std::size_t k = 0; k < programs[p].phases.size() && checked; ++k) {
      each_flow(programs[p].phases[k], [&](std::size_t index, const Flow& flow) {
        checked = check_flow(links, flow, {p, k, index});
        for (std::size_t i = 0; checked && i < flow.path.size(); ++i) {
          Index& user = first_user[static_cast<std::size_t>(flow.path[i])];
          if (user == ~Index{0}) user = p;
          parent[root_of(parent, user)] = root_of(parent, p);
        }
        return checked.has_value();
      });
    }
  }
  if (!checked) return tl::unexpected(checked.error());
  std::vector<std::vector<Index>> of_root(programs.size());
  for (Index p = 0; p < programs.size(); ++p) of_root[root_of(parent, p)].push_back(p);
  std::erase_if(of_root, [](const std::vector<Index>& island) { return island.empty(); });
  return of_root;
}

// A run while it is put together.
struct Assembly {
  LinkTable links;
  const std::vector<Program>& programs;
  const RunOptions& options;
  Kinds kinds;                         // of all islands
  std::vector<Index> kind_of_program;  // among kinds.programs
  std::vector<Index> program_of_kind;  // the one that stands for the kind
  RunResult result;
};

Partition partition_of(const FlowGraph& graph, const RunOptions& options) {
  return options.fold ? refine(graph.nodes) : all_different(graph.nodes);
}

KindPhase phase_of_kinds(const std::vector<Index>& kind_of_flow, std::size_t first, std::size_t last, double repeats) {
  if (first == last) return {0, 0, repeats};
  const auto [low, high] = std::minmax_element(kind_of_flow.begin() + static_cast<std::ptrdiff_t>(first),
                                               kind_of_flow.begin() + static_cast<std::ptrdiff_t>(last));
  return {*low, *high - *low + 1, repeats};
}

// Seconds that a phase takes with all its repetitions when nothing else shares its links.
Result<double> lone_phase_s(Assembly& assembly, Index program, std::size_t phase_number) {
  const PhaseFlows& phase = assembly.programs[program].phases[phase_number];
  FlowGraph graph;
  const Result<void> added = add_phase(graph, assembly.links, phase, {program, phase_number, 0}, kNoJoint);
  finish_links(graph, assembly.links);
  if (!added) return tl::unexpected(added.error());
  FoldedFlows folded = folded_flows(graph, assembly.links, partition_of(graph, assembly.options));
  const double at_once = assembly.options.skip_repeats ? phase.repeats : 1;
  KindProgram alone;
  alone.phases.push_back(
      phase_of_kinds(folded.kind_of_flow, 0, folded.kind_of_flow.size(), phase.repeats / std::max(1.0, at_once)));
  folded.kinds.programs.push_back(std::move(alone));
  const EventTimes times = run_events(folded.kinds, assembly.options.skip_repeats);
  assembly.result.events += times.events;
  assembly.result.flows += graph.base_of_flow.size();
  assembly.result.flow_kinds += folded.kinds.flows.size();
  return at_once * times.programs[0].end_s;
}

KindProgram kind_program(const Assembly& assembly, Index program, Index island) {
  KindProgram kind;
  kind.start_s = assembly.programs[program].start_s;
  kind.island = island;
  return kind;
}

// A program whose links no other uses: its phases can be run apart, and then only take their time.
Result<void> add_lone_program(Assembly& assembly, Index program, Index island) {
  KindProgram kind = kind_program(assembly, program, island);
  for (std::size_t k = 0; k < assembly.programs[program].phases.size(); ++k) {
    const Result<double> seconds = lone_phase_s(assembly, program, k);
    if (!seconds) return tl::unexpected(seconds.error());
    kind.phases.push_back({static_cast<Index>(assembly.kinds.flows.size()), 1, 1});
    FlowKind wait;
    wait.delay_s = *seconds;
    assembly.kinds.flows.push_back(wait);
  }
  assembly.kind_of_program[program] = static_cast<Index>(assembly.kinds.programs.size());
  assembly.program_of_kind.push_back(program);
  assembly.kinds.programs.push_back(std::move(kind));
  return {};
}

// Tags of colours (those of flow_kinds.cpp are 1 and 2).
constexpr std::uint64_t kProgramTag = 3;
constexpr std::uint64_t kWaitTag = 4;
constexpr std::uint64_t kWaiterTag = 5;
constexpr std::uint64_t kWaitedTag = 6;

// Programs of other islands that one waits for are told apart by their number: nothing is known about their ends yet.
std::uint64_t program_colour(const Program& program, const std::vector<Index>& place_on_island) {
  std::uint64_t colour = colour_of(kProgramTag, {program.start_s});
  for (const PhaseFlows& phase : program.phases) colour = colour_of(colour, {phase.repeats});
  for (const int other : program.after) {
    if (place_on_island[static_cast<std::size_t>(other)] == kNoJoint) colour += colour_of(kWaitTag, {1.0 * other});
  }
  return colour;
}

struct Wait {
  Index waiter = 0;  // places on the island
  Index waited = 0;
};

// Joins a program to one that it waits for: waiter - left node - right node - left node - waited. The two left nodes
// have different colours, so that the direction is seen.
void add_waits(FlowGraph& graph, const std::vector<Wait>& waits, Index first_right) {
  for (std::size_t w = 0; w < waits.size(); ++w) {
    const Index middle = first_right + static_cast<Index>(w);
    for (const bool waiter : {true, false}) {
      graph.nodes.right.push_back(waiter ? waits[w].waiter : waits[w].waited);
      graph.nodes.right.push_back(middle);
      graph.nodes.first.push_back(static_cast<Index>(graph.nodes.right.size()));
      graph.nodes.left_colour.push_back(colour_of(waiter ? kWaiterTag : kWaitedTag, {}));
      graph.nodes.left_count.push_back(1);
    }
  }
}

// All programs of an island as one graph, and where the flows of each phase of each program begin in it.
struct IslandGraph {
  FlowGraph graph;
  std::vector<std::vector<std::size_t>> phase_begin;  // one more than phases
};

Result<IslandGraph> island_graph(Assembly& assembly, const std::vector<Index>& island) {
  std::vector<Index> place_on_island(assembly.programs.size(), kNoJoint);
  for (Index i = 0; i < island.size(); ++i) place_on_island[island[i]] = i;
  IslandGraph made;
  FlowGraph& graph = made.graph;
  std::vector<Wait> waits;
  for (Index i = 0; i < island.size(); ++i) {
    const Program& program = assembly.programs[island[i]];
    graph.nodes.right_colour.push_back(program_colour(program, place_on_island));
    for (const int other : program.after) {
      const Index place = place_on_island[static_cast<std::size_t>(other)];
      if (place != kNoJoint) waits.push_back({i, place});
    }
  }
  graph.nodes.right_colour.resize(island.size() + waits.size(), colour_of(kWaitTag, {}));
  graph.first_link = static_cast<Index>(graph.nodes.right_colour.size());
  Result<void> added;
  for (Index i = 0; i < island.size() && added; ++i) {
    const std::vector<PhaseFlows>& phases = assembly.programs[island[i]].phases;
    made.phase_begin.push_back({graph.base_of_flow.size()});
    for (std::size_t k = 0; k < phases.size() && added; ++k) {
      added = add_phase(graph, assembly.links, phases[k], {island[i], k, 0}, i);
      made.phase_begin.back().push_back(graph.base_of_flow.size());
    }
  }
  if (!added) return tl::unexpected(added.error());
  add_waits(graph, waits, static_cast<Index>(island.size()));
  finish_links(graph, assembly.links);
  return made;
}

// Appends the kinds of an island to those of the whole; where its flows begin there.
Index append_kinds(Kinds& all, const Kinds& island) {
  const Index first_flow = static_cast<Index>(all.flows.size());
  const Index first_visit = static_cast<Index>(all.visits.size());
  const Index first_link = static_cast<Index>(all.capacity.size());
  for (FlowKind flow : island.flows) {
    flow.first_visit += first_visit;
    all.flows.push_back(flow);
  }
  for (const KindVisit& visit : island.visits) all.visits.push_back({first_link + visit.link, visit.load});
  all.capacity.insert(all.capacity.end(), island.capacity.begin(), island.capacity.end());
  return first_flow;
}

// Programs that share links are folded together: alike are those whose flows in every phase are alike.
Result<void> add_joined_programs(Assembly& assembly, const std::vector<Index>& programs, Index island) {
  const Result<IslandGraph> made = island_graph(assembly, programs);
  if (!made) return tl::unexpected(made.error());
  const Partition partition = partition_of(made->graph, assembly.options);
  const FoldedFlows folded = folded_flows(made->graph, assembly.links, partition);
  const Index first_flow = append_kinds(assembly.kinds, folded.kinds);
  std::vector<Index> kind_of_class(partition.num_right, kNoJoint);
  for (std::size_t i = 0; i < programs.size(); ++i) {
    Index& kind = kind_of_class[partition.right_class[i]];
    if (kind == kNoJoint) {
      kind = static_cast<Index>(assembly.kinds.programs.size());
      KindProgram program = kind_program(assembly, programs[i], island);
      for (std::size_t k = 0; k < assembly.programs[programs[i]].phases.size(); ++k) {
        KindPhase phase = phase_of_kinds(folded.kind_of_flow, made->phase_begin[i][k], made->phase_begin[i][k + 1],
                                         assembly.programs[programs[i]].phases[k].repeats);
        phase.first_flow += first_flow;
        program.phases.push_back(phase);
      }
      assembly.program_of_kind.push_back(programs[i]);
      assembly.kinds.programs.push_back(std::move(program));
    }
    assembly.kind_of_program[programs[i]] = kind;
  }
  assembly.result.flows += made->graph.base_of_flow.size();
  assembly.result.flow_kinds += folded.kinds.flows.size();
  return {};
}

void set_waits(Assembly& assembly) {
  for (std::size_t kind = 0; kind < assembly.kinds.programs.size(); ++kind) {
    std::vector<Index>& after = assembly.kinds.programs[kind].after;
    for (const int other : assembly.programs[assembly.program_of_kind[kind]].after) {
      after.push_back(assembly.kind_of_program[static_cast<std::size_t>(other)]);
    }
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
  }
}

}  // namespace

Result<RunResult> run(const std::vector<FlowLink>& links, const std::vector<Program>& programs,
                      const RunOptions& options) {
  if (Result<void> checked = check_programs(programs); !checked) return tl::unexpected(checked.error());
  Assembly assembly{LinkTable(links), programs, options, {}, {}, {}, {}};
  const auto islands = islands_of(assembly.links, programs);
  if (!islands) return tl::unexpected(islands.error());
  assembly.kind_of_program.resize(programs.size());
  for (Index i = 0; i < islands->size(); ++i) {
    const std::vector<Index>& island = (*islands)[i];
    const Result<void> added =
        island.size() == 1 ? add_lone_program(assembly, island[0], i) : add_joined_programs(assembly, island, i);
    if (!added) return tl::unexpected(added.error());
  }
  set_waits(assembly);
  const EventTimes times = run_events(assembly.kinds, options.skip_repeats);
  RunResult& result = assembly.result;
  result.events += times.events;
  result.link_bytes.reserve(links.size());
  for (const LinkUse& use : assembly.links.uses) result.link_bytes.push_back(use.bytes);
  for (const Index kind : assembly.kind_of_program) {
    result.programs.push_back(times.programs[kind]);
    result.end_s = std::max(result.end_s, times.programs[kind].end_s);
  }
  return std::move(assembly.result);
}

Result<std::vector<double>> fair_rates(const std::vector<FlowLink>& links, const std::vector<Flow>& flows) {
  LinkTable table(links);
  FlowGraph graph;
  PhaseFlows phase;
  phase.flows = flows;
  const Result<void> added = add_phase(graph, table, phase, {}, kNoJoint);
  if (!added) return tl::unexpected(added.error());
  const FoldedFlows folded = folded_flows(graph, table, refine(graph.nodes));
  FairShare share(folded.kinds);
  for (Index kind = 0; kind < folded.kinds.flows.size(); ++kind) enter(share, kind);
  refresh(share);
  std::vector<double> rates;
  for (const Index kind : folded.kind_of_flow) rates.push_back(share.rate[kind]);
  return rates;
}

std::vector<LinkShare> hottest_links(const std::vector<FlowLink>& links, const RunResult& result, std::size_t most) {
  std::vector<LinkShare> shares;
  for (std::size_t l = 0; l < links.size(); ++l) {
    const double bytes = result.link_bytes[l];
    const double possible = links[l].bytes_per_s * result.end_s;
    if (bytes > 0) shares.push_back({static_cast<int>(l), bytes, possible > 0 ? bytes / possible : 0});
  }
  const std::size_t kept = std::min(most, shares.size());
  std::partial_sort(shares.begin(), shares.begin() + static_cast<std::ptrdiff_t>(kept), shares.end(),
                    [](const LinkShare& a, const LinkShare& b) {
                      return a.busy_share != b.busy_share ? a.busy_share > b.busy_share : a.link < b.link;
                    });
  shares.resize(kept);
  return shares;
}

}  // namespace twinpod::sim
