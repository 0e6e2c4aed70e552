// An order run in unit time: each stage takes the next action of its list as soon as the model lets it.
#include <fmt/format.h>

#include <algorithm>

#include "program/order.hpp"

namespace twinpod::program {
namespace {

// When the forward and the backward pass of each chunk and micro-batch ended; below 0: not yet.
struct Ends {
  int chunks = 1;
  int micro_batches = 0;
  std::vector<double> forward;
  std::vector<double> backward;

  Ends(const Order& order) : chunks(order.chunks), micro_batches(order.micro_batches) {
    const std::size_t all =
        order.stages.size() * static_cast<std::size_t>(chunks) * static_cast<std::size_t>(micro_batches);
    forward.assign(all, -1);
    backward.assign(all, -1);
  }
  std::size_t at(StageChunk place, int micro_batch) const {
    const auto row = static_cast<std::size_t>(place.stage) * static_cast<std::size_t>(chunks) +
                     static_cast<std::size_t>(place.chunk);
    return row * static_cast<std::size_t>(micro_batches) + static_cast<std::size_t>(micro_batch);
  }
};

// When what the action needs is there; below 0: not yet. A backward pass needs the one behind it in the model, at the
// end of the model its own forward pass.
double ready_at(const Order& order, const Ends& ends, int stage, const Action& action) {
  const StageChunk own{stage, action.chunk};
  const int place = position(order, stage, action.chunk);
  if (action.phase == Phase::backward_weight) return ends.backward[ends.at(own, action.micro_batch)];
  if (action.phase == Phase::forward) {
    if (place == 0) return 0;
    return ends.forward[ends.at(at_position(order, place - 1, action.chunk), action.micro_batch)];
  }
  const double before = ends.forward[ends.at(own, action.micro_batch)];
  const StageChunk next = at_position(order, place + 1, action.chunk);
  if (next.stage < 0 || before < 0) return before;
  const double behind = ends.backward[ends.at(next, action.micro_batch)];
  return behind < 0 ? behind : std::max(before, behind);
}

double duration(const Action& action, const SlotWeights& weights) {
  switch (action.phase) {
    case Phase::forward:
      return weights.forward;
    case Phase::backward_input:
      return weights.backward_input;
    case Phase::backward_weight:
      return weights.backward_weight;
    default:
      return weights.backward_input + weights.backward_weight;
  }
}

struct Cursor {
  std::size_t next = 0;
  double free_at = 0;
};

// Runs what the stage can run now: one action, or a pair, which begins and ends together.
bool advance(const Order& order, const SlotWeights& weights, int stage, Cursor& cursor, Ends& ends,
             std::vector<Slot>& slots) {
  const std::vector<Action>& list = order.stages[static_cast<std::size_t>(stage)];
  if (cursor.next == list.size()) return false;
  const std::size_t count = list[cursor.next].beside && cursor.next + 1 < list.size() ? 2 : 1;
  double start = cursor.free_at;
  double length = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double ready = ready_at(order, ends, stage, list[cursor.next + i]);
    if (ready < 0) return false;
    start = std::max(start, ready);
    length += duration(list[cursor.next + i], weights);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Action& action = list[cursor.next++];
    slots.push_back({start, start + length});
    const std::size_t at = ends.at({stage, action.chunk}, action.micro_batch);
    if (action.phase == Phase::forward) ends.forward[at] = start + length;
    if (action.phase == Phase::backward || action.phase == Phase::backward_input) ends.backward[at] = start + length;
  }
  cursor.free_at = start + length;
  return true;
}

Error stuck(const Order& order, const std::vector<Cursor>& cursors) {
  for (std::size_t s = 0; s < cursors.size(); ++s) {
    if (cursors[s].next == order.stages[s].size()) continue;
    const Action& action = order.stages[s][cursors[s].next];
    return input_error(
               fmt::format("schedule: deadlock: stage {} waits for ever at its action {}, {} of micro-batch {}, "
                           "chunk {}: what it needs from its neighbours never comes",
                           s, cursors[s].next, name_of(action.phase), action.micro_batch, action.chunk),
               "let every stage begin a micro-batch after the stage before it can have sent it")
        .value();
  }
  return {};
}

}  // namespace

double Slots::busy(int stage) const {
  double total = 0;
  double until = -1;
  for (const Slot& slot : stages[static_cast<std::size_t>(stage)]) {
    if (slot.start < until) continue;  // the second of a pair
    total += slot.end - slot.start;
    until = slot.end;
  }
  return total;
}

double Slots::inner_bubble(int stage) const {
  const std::vector<Slot>& list = stages[static_cast<std::size_t>(stage)];
  return list.empty() ? 0 : list.back().end - list.front().start - busy(stage);
}

Result<Slots> run_slots(const Order& order, const SlotWeights& weights) {
  Slots slots;
  slots.stages.resize(order.stages.size());
  Ends ends(order);
  std::vector<Cursor> cursors(order.stages.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < order.num_stages(); ++s) {
      const auto at = static_cast<std::size_t>(s);
      while (advance(order, weights, s, cursors[at], ends, slots.stages[at])) moved = true;
    }
  }
  for (std::size_t s = 0; s < cursors.size(); ++s) {
    if (cursors[s].next < order.stages[s].size()) return tl::unexpected(stuck(order, cursors));
    slots.makespan = std::max(slots.makespan, cursors[s].free_at);
  }
  return slots;
}

int most_in_flight(const Order& order, int stage) {
  int held = 0;
  int most = 0;
  for (const Action& action : order.stages[static_cast<std::size_t>(stage)]) {
    if (action.phase == Phase::forward) most = std::max(most, ++held);
    if (action.phase == Phase::backward || action.phase == Phase::backward_weight) --held;
  }
  return most;
}

}  // namespace twinpod::program
