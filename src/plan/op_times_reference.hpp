// A plain executor of a Program with given seconds, for tests: one rank of each kind, op by op in the order of the
// lists, nothing contends.
//
//     const ReferenceRun run = run_reference(program, times);
//     run.total_s, run.end_of_kind[3]
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "program/program.hpp"
#include "sim/op_time.hpp"

namespace twinpod::plan {

struct ReferenceRun {
  bool done = false;  // false: kinds wait for each other for ever
  double total_s = 0;
  std::vector<double> end_of_kind;
};

namespace reference {

struct InstanceState {
  double released = 0;        // all its ops
  double sent[2] = {-1, -1};  // to the next and to the previous chunk; below 0: not yet
  bool done = false;
};

struct KindState {
  std::size_t instance = 0;
  std::size_t op = 0;
  std::array<double, program::kNumLanes> free{};
  std::vector<double> released;  // of the ops of the instance at work
  std::vector<InstanceState> instances;
  std::map<int, int> met;  // collectives with other kinds so far, by group
  bool waits = false;      // has come to such a collective
};

struct Meeting {
  std::vector<int> kinds;
  double start = 0;
  double seconds = 0;
};

struct World {
  const program::Program& program;
  const sim::StepTimes& times;
  std::vector<KindState> kinds;
  std::map<std::array<int, 3>, Meeting> meetings;  // group, which pair of stages, number
};

inline int slot_of(program::Peer peer) { return peer == program::Peer::next_chunk ? 0 : 1; }

// Stages that take part in a collective of stage `stage`.
inline std::vector<int> stages_of(const program::Program& program, layout::Group group, int stage) {
  const int p = program.mesh.pp;
  std::vector<int> stages = {stage};
  if (group == layout::Group::ends) stages = {0, p - 1};
  if (group == layout::Group::mirror) stages = {std::min(stage, p - 1 - stage), std::max(stage, p - 1 - stage)};
  if (group == layout::Group::world) {
    stages.clear();
    for (int s = 0; s < p; ++s) stages.push_back(s);
  }
  return stages;
}

// When what an entry waits for is there; below 0: not known yet.
inline double entry_time(const World& world, const program::Op& op, const program::Source& from) {
  if (from.kind < 0) return 0;
  const InstanceState& other =
      world.kinds[static_cast<std::size_t>(from.kind)].instances[static_cast<std::size_t>(from.instance)];
  if (op.kind == program::OpKind::recv) return other.sent[1 - slot_of(op.peer)];
  return other.done ? other.released : -1;
}

// The start of a collective of several kinds once all have come; below 0: not yet.
inline double meet(World& world, int k, const program::Op& op, double ready, double seconds) {
  KindState& own = world.kinds[static_cast<std::size_t>(k)];
  const std::vector<int> stages = stages_of(world.program, op.group, k);
  const int group = static_cast<int>(op.group);
  Meeting& meeting = world.meetings[{group, stages.front(), own.met[group]}];
  if (!own.waits) {
    meeting.kinds.push_back(k);
    meeting.start = std::max(meeting.start, ready);
    meeting.seconds = std::max(meeting.seconds, seconds);
    own.waits = true;
  }
  if (meeting.kinds.size() < stages.size()) return -1;
  own.waits = false;
  ++own.met[group];
  return meeting.start;
}

// Runs one op of a kind; false: it has to wait for another kind.
inline bool run_op(World& world, int k, const program::Instance& instance, const program::Block& block) {
  KindState& own = world.kinds[static_cast<std::size_t>(k)];
  const program::Op& op = block.ops[own.op];
  const sim::OpTime& time = world.times.ops[static_cast<std::size_t>(instance.block)][own.op];
  const bool receives = op.kind == program::OpKind::recv;
  double& lane = own.free[static_cast<std::size_t>(op.lane)];
  double start = receives ? 0 : lane;
  for (int w = op.waits.first; w < op.waits.first + op.waits.count; ++w)
    start = std::max(start, own.released[static_cast<std::size_t>(block.waits[static_cast<std::size_t>(w)])]);
  if (op.entry) {
    const double entry = entry_time(world, op, instance.from[op.half]);
    if (entry < 0) return false;
    start = std::max(start, entry);
  }
  if (op.kind == program::OpKind::collective && stages_of(world.program, op.group, k).size() > 1) {
    start = meet(world, k, op, start, time.seconds());
    if (start < 0) return false;
  }
  const double released = start + time.exposed * time.seconds();
  own.released[own.op] = released;
  if (!receives) lane = start + time.seconds();
  InstanceState& state = own.instances[own.instance];
  state.released = std::max(state.released, released);
  if (op.kind == program::OpKind::send && op.lane == program::Lane::pipe) state.sent[slot_of(op.peer)] = released;
  return true;
}

// As far as it comes; true: it has done something.
inline bool advance(World& world, int k) {
  const program::Kind& kind = world.program.kinds[static_cast<std::size_t>(k)];
  KindState& own = world.kinds[static_cast<std::size_t>(k)];
  bool moved = false;
  while (own.instance < kind.instances.size()) {
    const program::Instance& instance = kind.instances[own.instance];
    const program::Block& block = world.program.blocks[static_cast<std::size_t>(instance.block)];
    own.released.resize(block.ops.size());
    while (own.op < block.ops.size()) {
      if (!run_op(world, k, instance, block)) return moved;
      moved = true;
      ++own.op;
    }
    own.instances[own.instance].done = true;
    ++own.instance;
    own.op = 0;
    moved = true;
  }
  return moved;
}

}  // namespace reference

inline ReferenceRun run_reference(const program::Program& program, const sim::StepTimes& times) {
  reference::World world{program, times, {}, {}};
  world.kinds.resize(program.kinds.size());
  for (std::size_t k = 0; k < program.kinds.size(); ++k)
    world.kinds[k].instances.resize(program.kinds[k].instances.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (int k = 0; k < static_cast<int>(world.kinds.size()); ++k) moved = reference::advance(world, k) || moved;
  }
  ReferenceRun run;
  run.done = true;
  for (std::size_t k = 0; k < world.kinds.size(); ++k) {
    run.done = run.done && world.kinds[k].instance == program.kinds[k].instances.size();
    const double end = *std::max_element(world.kinds[k].free.begin(), world.kinds[k].free.end());
    run.end_of_kind.push_back(end);
    run.total_s = std::max(run.total_s, end);
  }
  run.total_s += times.tail_s;
  return run;
}

}  // namespace twinpod::plan
