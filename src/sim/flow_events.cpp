#include "sim/flow_events.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>

#include "sim/flow_rates.hpp"

namespace twinpod::sim {
namespace {

using Index = std::uint32_t;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Times closer than this share of the clock are one event: sums that should be equal differ by rounding.
constexpr double kSameTime = 1e-14;

constexpr Index kDone = ~Index{0};

enum class What : std::uint8_t { flow_end, flow_begin, program_start };

struct Event {
  double time_s = 0;
  What what = What::flow_end;
  Index id = 0;
  Index version = 0;  // of a flow's end: an end that was expected at an older rate is passed over
  bool operator>(const Event& other) const {
    if (time_s != other.time_s) return time_s > other.time_s;
    if (what != other.what) return what > other.what;
    return id > other.id;
  }
};

struct FlowState {
  double bytes_left = 0;
  double since_s = 0;  // bytes_left was right then
  double rate = 0;
  Index version = 0;
};

enum class Stage : std::uint8_t { waiting, running, ended };

struct ProgramState {
  Stage stage = Stage::waiting;
  std::size_t waits_for = 0;  // programs that have not ended
  std::size_t phase = 0;
  double repeats_left = 0;  // of this phase, the one that runs included
  std::size_t flows_left = 0;
  std::size_t running_place = 0;  // in its island's list
};

// Programs that stood between two repetitions, and when.
struct Snapshot {
  struct Stand {
    Index program = 0;
    std::size_t phase = 0;
    double repeats_left = 0;
  };
  double time_s = 0;
  std::vector<Stand> stands;  // empty: none
};

struct Island {
  std::vector<Index> running;
  std::size_t between = 0;  // of them, between two repetitions
  bool all_between = false;
  std::size_t waits_abroad = 0;  // programs that have not started and wait for one of another island
  std::priority_queue<double, std::vector<double>, std::greater<>> starts;  // set for programs that have not started
  Snapshot last;
  double skipped_s = 0;  // at this moment
};

struct Loop {
  Loop(const Kinds& all_kinds, bool skip) : kinds(all_kinds), skip_repeats(skip), share(all_kinds) {}

  const Kinds& kinds;
  bool skip_repeats;
  FairShare share;
  double now_s = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue;
  std::vector<FlowState> flows;
  std::vector<Index> program_of_flow;
  std::vector<ProgramState> programs;
  std::vector<std::vector<Index>> dependents;  // of each program
  std::vector<Island> islands;
  std::vector<Index> between;          // programs that stand between two repetitions now
  std::vector<Index> islands_between;  // islands of those
  EventTimes result;
};

const KindPhase& phase_of(const Loop& loop, Index program) {
  return loop.kinds.programs[program].phases[loop.programs[program].phase];
}

Island& island_of(Loop& loop, Index program) { return loop.islands[loop.kinds.programs[program].island]; }

bool waits_abroad(const Loop& loop, Index program) {
  const KindProgram& p = loop.kinds.programs[program];
  return std::any_of(p.after.begin(), p.after.end(),
                     [&](Index other) { return loop.kinds.programs[other].island != p.island; });
}

void set_start(Loop& loop, Index program) {
  const double time_s = std::max(loop.now_s, loop.kinds.programs[program].start_s);
  island_of(loop, program).starts.push(time_s);
  loop.queue.push({time_s, What::program_start, program, 0});
}

void prepare(Loop& loop) {
  const std::vector<KindProgram>& programs = loop.kinds.programs;
  loop.flows.resize(loop.kinds.flows.size());
  loop.program_of_flow.resize(loop.kinds.flows.size());
  loop.programs.resize(programs.size());
  loop.dependents.resize(programs.size());
  loop.result.programs.resize(programs.size());
  Index num_islands = 0;
  for (const KindProgram& program : programs) num_islands = std::max(num_islands, program.island + 1);
  loop.islands.resize(num_islands);
  for (Index p = 0; p < programs.size(); ++p) {
    for (const KindPhase& phase : programs[p].phases) {
      for (Index f = 0; f < phase.num_flows; ++f) loop.program_of_flow[phase.first_flow + f] = p;
    }
    loop.programs[p].waits_for = programs[p].after.size();
    for (const Index other : programs[p].after) loop.dependents[other].push_back(p);
    if (waits_abroad(loop, p)) ++island_of(loop, p).waits_abroad;
  }
  for (Index p = 0; p < programs.size(); ++p) {
    if (loop.programs[p].waits_for == 0) set_start(loop, p);
  }
}

void end_program(Loop& loop, Index program) {
  loop.programs[program].stage = Stage::ended;
  loop.result.programs[program].end_s = loop.now_s;
  Island& island = island_of(loop, program);
  const std::size_t place = loop.programs[program].running_place;
  island.running[place] = island.running.back();
  loop.programs[island.running[place]].running_place = place;
  island.running.pop_back();
  for (const Index dependent : loop.dependents[program]) {
    if (--loop.programs[dependent].waits_for > 0) continue;
    if (waits_abroad(loop, dependent)) --island_of(loop, dependent).waits_abroad;
    set_start(loop, dependent);
  }
}

void stand_between(Loop& loop, Index program) {
  loop.between.push_back(program);
  const Index island = loop.kinds.programs[program].island;
  if (loop.islands[island].between++ == 0) loop.islands_between.push_back(island);
}

void start_repetition(Loop& loop, Index program, double start_s) {
  const KindPhase& phase = phase_of(loop, program);
  loop.programs[program].flows_left = phase.num_flows;
  for (Index f = phase.first_flow; f < phase.first_flow + phase.num_flows; ++f) {
    loop.queue.push({start_s + loop.kinds.flows[f].delay_s, What::flow_begin, f, 0});
  }
}

// The next phase that has something to do, or the end.
void start_phase(Loop& loop, Index program) {
  ProgramState& state = loop.programs[program];
  const std::vector<KindPhase>& phases = loop.kinds.programs[program].phases;
  while (state.phase < phases.size() && (phases[state.phase].num_flows == 0 || phases[state.phase].repeats == 0)) {
    loop.result.programs[program].phase_end_s.push_back(loop.now_s);
    ++state.phase;
  }
  if (state.phase == phases.size()) return end_program(loop, program);
  state.repeats_left = phases[state.phase].repeats;
  start_repetition(loop, program, loop.now_s);
}

void start_program(Loop& loop, Index program) {
  Island& island = island_of(loop, program);
  island.starts.pop();  // events come in order, so it is the earliest
  island.last.stands.clear();
  loop.programs[program].running_place = island.running.size();
  island.running.push_back(program);
  loop.programs[program].stage = Stage::running;
  loop.result.programs[program].start_s = loop.now_s;
  start_phase(loop, program);
}

void end_flow(Loop& loop, Index flow) {
  const Index program = loop.program_of_flow[flow];
  if (--loop.programs[program].flows_left == 0) stand_between(loop, program);
}

void begin_flow(Loop& loop, Index flow) {
  const FlowKind& kind = loop.kinds.flows[flow];
  if (kind.bytes == 0) return end_flow(loop, flow);
  loop.flows[flow].bytes_left = kind.bytes;
  loop.flows[flow].since_s = loop.now_s;
  loop.flows[flow].rate = 0;
  enter(loop.share, flow);
}

void handle(Loop& loop, const Event& event) {
  switch (event.what) {
    case What::program_start:
      return start_program(loop, event.id);
    case What::flow_begin:
      return begin_flow(loop, event.id);
    case What::flow_end:
      if (event.version != loop.flows[event.id].version) return;
      ++loop.flows[event.id].version;
      leave(loop.share, event.id);
      return end_flow(loop, event.id);
  }
}

// How often what happened between the last snapshot and now can be taken again: repetitions left, and no event from
// outside the island before the end. The last repetition of a phase is never skipped.
double rounds_to_skip(const Loop& loop, const Island& island) {
  const Snapshot& last = island.last;
  if (last.stands.size() != island.running.size()) return 0;
  double rounds = kInfinite;
  for (const Snapshot::Stand& stand : last.stands) {
    const ProgramState& state = loop.programs[stand.program];
    if (state.stage != Stage::running || state.phase != stand.phase) return 0;
    const double in_round = stand.repeats_left - state.repeats_left;
    rounds = std::min(rounds, std::floor((state.repeats_left - 1) / in_round));
  }
  double until_s = island.starts.empty() ? kInfinite : island.starts.top();
  if (island.waits_abroad > 0 && !loop.queue.empty()) until_s = std::min(until_s, loop.queue.top().time_s);
  const double round_s = loop.now_s - last.time_s;
  if (round_s > 0) rounds = std::min(rounds, std::floor((until_s - loop.now_s) / round_s));
  return std::max(0.0, rounds);
}

void take_snapshot(Loop& loop, Island& island) {
  island.last.time_s = loop.now_s;
  island.last.stands.clear();
  for (const Index program : island.running) {
    island.last.stands.push_back({program, loop.programs[program].phase, loop.programs[program].repeats_left});
  }
}

// When all programs of the island stand between two repetitions: how long to skip.
double skip(Loop& loop, Island& island) {
  const double rounds = rounds_to_skip(loop, island);
  if (rounds < 1) {
    take_snapshot(loop, island);
    return 0;
  }
  for (const Snapshot::Stand& stand : island.last.stands) {
    ProgramState& state = loop.programs[stand.program];
    state.repeats_left -= rounds * (stand.repeats_left - state.repeats_left);
  }
  const double skipped_s = rounds * (loop.now_s - island.last.time_s);
  island.last.stands.clear();
  return skipped_s;
}

void next_phase(Loop& loop, Index program) {
  loop.result.programs[program].phase_end_s.push_back(loop.now_s);
  ++loop.programs[program].phase;
  start_phase(loop, program);
}

// Phases that end come first: what starts after them keeps others from skipping.
void handle_between(Loop& loop) {
  std::vector<Index> programs;
  std::vector<Index> islands;
  programs.swap(loop.between);
  islands.swap(loop.islands_between);
  for (const Index i : islands) {
    loop.islands[i].all_between = loop.islands[i].between == loop.islands[i].running.size();
    loop.islands[i].between = 0;
  }
  for (Index& p : programs) {
    if (--loop.programs[p].repeats_left > 0) continue;
    next_phase(loop, p);
    p = kDone;
  }
  for (const Index i : islands) {
    Island& island = loop.islands[i];
    island.skipped_s = island.all_between && loop.skip_repeats ? skip(loop, island) : 0;
  }
  for (const Index p : programs) {
    if (p != kDone) start_repetition(loop, p, loop.now_s + island_of(loop, p).skipped_s);
  }
}

void refresh_rates(Loop& loop) {
  for (const Index f : refresh(loop.share)) {
    FlowState& state = loop.flows[f];
    state.bytes_left = std::max(0.0, state.bytes_left - state.rate * (loop.now_s - state.since_s));
    state.since_s = loop.now_s;
    state.rate = loop.share.rate[f];
    loop.queue.push({loop.now_s + state.bytes_left / state.rate, What::flow_end, f, ++state.version});
  }
}

}  // namespace

EventTimes run_events(const Kinds& kinds, bool skip_repeats) {
  Loop loop(kinds, skip_repeats);
  prepare(loop);
  while (!loop.queue.empty()) {
    loop.now_s = loop.queue.top().time_s;
    const double until_s = loop.now_s * (1 + kSameTime);
    while (!loop.queue.empty() && loop.queue.top().time_s <= until_s) {
      while (!loop.queue.empty() && loop.queue.top().time_s <= until_s) {
        const Event event = loop.queue.top();
        loop.queue.pop();
        handle(loop, event);
      }
      if (!loop.between.empty()) handle_between(loop);
    }
    ++loop.result.events;
    refresh_rates(loop);
  }
  return std::move(loop.result);
}

}  // namespace twinpod::sim
