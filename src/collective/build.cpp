#include "collective/build.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <tuple>
#include <utility>

namespace twinpod::collective {

int ceil_log2(int n) { return n <= 1 ? 0 : std::bit_width(static_cast<unsigned>(n - 1)); }

int floor_power_of_two(int n) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(n))); }

void add_steps(Round& round, int from, int to, const std::vector<int>& chunks, bool reduce) {
  for (std::size_t i = 0; i < chunks.size();) {
    std::size_t end = i + 1;
    while (end < chunks.size() && chunks[end] == chunks[end - 1] + 1) ++end;
    Step step{.from = from, .to = to, .source_chunk = chunks[i], .target_chunk = chunks[i], .reduce = reduce};
    step.count = static_cast<int>(end - i);
    round.steps.push_back(step);
    i = end;
  }
}

Rounds one_after_another(Rounds first, Rounds second) {
  first.insert(first.end(), std::make_move_iterator(second.begin()), std::make_move_iterator(second.end()));
  return first;
}

Rounds side_by_side(const std::vector<Rounds>& parts) {
  Rounds all;
  for (const Rounds& part : parts) {
    if (part.size() > all.size()) all.resize(part.size());
    for (std::size_t r = 0; r < part.size(); ++r) {
      all[r].steps.insert(all[r].steps.end(), part[r].steps.begin(), part[r].steps.end());
    }
  }
  return all;
}

Rounds reversed(const Rounds& rounds, bool reduce) {
  Rounds backwards(rounds.rbegin(), rounds.rend());
  for (Round& round : backwards) {
    for (Step& step : round.steps) {
      std::swap(step.from, step.to);
      std::swap(step.source, step.target);
      std::swap(step.source_chunk, step.target_chunk);
      step.reduce = reduce;
    }
    std::stable_sort(round.steps.begin(), round.steps.end(),
                     [](const Step& a, const Step& b) { return a.from < b.from; });
  }
  return backwards;
}

Rounds on_buffer(Rounds rounds, Buffer buffer) {
  for (Round& round : rounds) {
    for (Step& step : round.steps) step.source = step.target = buffer;
  }
  return rounds;
}

std::vector<Phase> one_after_another(std::vector<Phase> first, const std::vector<Phase>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

std::vector<Phase> side_by_side(const std::vector<std::vector<Phase>>& parts) {
  std::vector<std::size_t> at(parts.size(), 0);
  std::vector<double> done(parts.size(), 0);
  std::vector<Phase> all;
  while (true) {
    Phase phase;
    double repeats = 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if (at[p] == parts[p].size()) continue;
      const Phase& part = parts[p][at[p]];
      const double left = part.repeats - done[p];
      repeats = repeats == 0 ? left : std::min(repeats, left);
      phase.ranks = part.ranks;
      phase.transfers.insert(phase.transfers.end(), part.transfers.begin(), part.transfers.end());
      phase.shifts.insert(phase.shifts.end(), part.shifts.begin(), part.shifts.end());
    }
    if (repeats == 0) return all;
    phase.repeats = repeats;
    all.push_back(std::move(phase));
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if (at[p] == parts[p].size()) continue;
      done[p] += repeats;
      if (done[p] < parts[p][at[p]].repeats) continue;
      done[p] = 0;
      ++at[p];
    }
  }
}

std::vector<Phase> reversed(const std::vector<Phase>& phases) {
  std::vector<Phase> backwards(phases.rbegin(), phases.rend());
  for (Phase& phase : backwards) {
    for (Transfer& transfer : phase.transfers) std::swap(transfer.from, transfer.to);
    for (Shift& shift : phase.shifts) {
      shift.first = shift.count < 0 ? 0 : wrap(shift.first + shift.by, shift.extent);
      shift.by = -shift.by;
    }
    // By sender, as forwards, so that like phases are seen to be alike.
    std::sort(phase.transfers.begin(), phase.transfers.end(),
              [](const Transfer& a, const Transfer& b) { return std::pair(a.from, a.to) < std::pair(b.from, b.to); });
  }
  return backwards;
}

namespace {

bool moves_something(const Phase& phase) {
  const bool any_shift = std::any_of(phase.shifts.begin(), phase.shifts.end(), [](const Shift& shift) {
    return wrap(shift.by, shift.extent) != 0 && shift.count != 0;
  });
  return phase.repeats > 0 && (any_shift || !phase.transfers.empty());
}

// One way to write the same shifts: distances from 1 to extent - 1, and in order.
void write_alike(std::vector<Shift>& shifts) {
  for (Shift& shift : shifts) shift.by = wrap(shift.by, shift.extent);
  std::sort(shifts.begin(), shifts.end(), [](const Shift& a, const Shift& b) {
    return std::tie(a.stride, a.extent, a.by, a.bytes, a.first) < std::tie(b.stride, b.extent, b.by, b.bytes, b.first);
  });
}

}  // namespace

std::vector<Phase> folded(std::vector<Phase> phases) {
  std::vector<Phase> fold;
  for (Phase& phase : phases) {
    if (!moves_something(phase)) continue;
    write_alike(phase.shifts);
    const bool alike = !fold.empty() && fold.back().shifts == phase.shifts && fold.back().transfers == phase.transfers;
    if (alike) {
      fold.back().repeats += phase.repeats;
    } else {
      fold.push_back(std::move(phase));
    }
  }
  return fold;
}

}  // namespace twinpod::collective
