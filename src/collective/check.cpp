#include "collective/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace twinpod::collective {
namespace {

struct Contribution {
  int rank = 0;
  int chunk = 0;
  auto operator<=>(const Contribution&) const = default;
};
using Contributions = std::vector<Contribution>;  // sorted

struct Cell {
  std::optional<Contributions> holds;  // none: nobody has written it
  int line = 0;                        // of the last step that wrote it
};

// cells[rank][buffer][chunk], buffers that are one memory in one place.
using Memory = std::vector<std::array<std::vector<Cell>, 3>>;

constexpr std::array<std::string_view, 3> kBufferNames{"input", "output", "scratch"};

std::string_view name_of_buffer(Buffer buffer) { return kBufferNames[static_cast<std::size_t>(buffer)]; }

tl::unexpected<Error> refuse(std::string message, int line) {
  tl::unexpected<Error> error = input_error(std::move(message));
  error.value().line = line;
  return error;
}

std::vector<Cell>& cells_of(Memory& memory, int rank, Buffer buffer) {
  return memory[rank][static_cast<std::size_t>(buffer)];
}

Cell& cell_at(const Schedule& schedule, Memory& memory, int rank, Buffer buffer, int chunk) {
  const Place place = place_of(schedule, rank, buffer, chunk);
  return cells_of(memory, rank, place.buffer)[place.chunk];
}

bool is_root(const Schedule& schedule, int rank) { return rank == schedule.root; }

// Whether the rank's input is there at the start: of some verbs only the root's is.
bool has_input(const Schedule& schedule, int rank) {
  const Verb verb = schedule.verb;
  const bool only_root = verb == Verb::send || verb == Verb::broadcast || verb == Verb::scatter;
  return !only_root || is_root(schedule, rank);
}

Memory start(const Schedule& schedule) {
  Memory memory(static_cast<std::size_t>(schedule.ranks + schedule.switches));
  for (int rank = 0; rank < schedule.ranks + schedule.switches; ++rank) {
    for (const Buffer buffer : {Buffer::input, Buffer::output, Buffer::scratch}) {
      const Place first = place_of(schedule, rank, buffer, 0);
      if (first.buffer != buffer) continue;  // part of another
      cells_of(memory, rank, buffer).resize(static_cast<std::size_t>(num_chunks(schedule, rank, buffer)));
    }
    if (rank >= schedule.ranks) {
      for (Cell& cell : cells_of(memory, rank, Buffer::scratch)) cell.holds = Contributions{};
      continue;
    }
    for (int c = 0; has_input(schedule, rank) && c < num_chunks(schedule, rank, Buffer::input); ++c) {
      cell_at(schedule, memory, rank, Buffer::input, c).holds = Contributions{{rank, c}};
    }
  }
  return memory;
}

Result<void> check_range(const Schedule& schedule, const Step& step, std::size_t round) {
  const int last = schedule.ranks + schedule.switches - 1;
  if (step.from < 0 || step.to < 0 || step.from > last || step.to > last) {
    return refuse(fmt::format("round {}: a step from rank {} to rank {}, but ranks go from 0 to {}", round, step.from,
                              step.to, last),
                  step.line);
  }
  const auto inside = [&](int rank, Buffer buffer, int chunk) {
    return chunk >= 0 && step.count > 0 && chunk <= num_chunks(schedule, rank, buffer) - step.count;
  };
  const bool reads = inside(step.from, step.source, step.source_chunk);
  if (reads && inside(step.to, step.target, step.target_chunk)) return {};
  const int rank = reads ? step.to : step.from;
  const Buffer buffer = reads ? step.target : step.source;
  const int chunk = reads ? step.target_chunk : step.source_chunk;
  return refuse(fmt::format("round {}: rank {} {} {} chunks from chunk {} on in its {}, which has {}", round, rank,
                            reads ? "writes" : "reads", step.count, chunk, name_of_buffer(buffer),
                            num_chunks(schedule, rank, buffer)),
                step.line);
}

// What a step does to one chunk.
struct Write {
  int rank = 0;
  Place place;
  bool reduce = false;
  Contributions value;
  int line = 0;
  int from = 0;
};

Result<std::vector<Write>> read_round(const Schedule& schedule, Memory& memory, std::size_t round) {
  std::vector<Write> writes;
  for (const Step& step : schedule.rounds[round].steps) {
    if (const Result<void> range = check_range(schedule, step, round); !range) return tl::unexpected(range.error());
    for (int i = 0; i < step.count; ++i) {
      const Cell& cell = cell_at(schedule, memory, step.from, step.source, step.source_chunk + i);
      if (!cell.holds) {
        return refuse(
            fmt::format("round {}: rank {} reads chunk {} of its {} for rank {}, but nothing has been written "
                        "there",
                        round, step.from, step.source_chunk + i, name_of_buffer(step.source), step.to),
            step.line);
      }
      const Place place = place_of(schedule, step.to, step.target, step.target_chunk + i);
      writes.push_back({step.to, place, step.reduce, *cell.holds, step.line, step.from});
    }
  }
  return writes;
}

// In a round nobody reads what is written, nor writes twice what is not added up.
Result<void> check_races(const Schedule& schedule, const std::vector<Write>& writes, std::size_t round) {
  struct Use {
    int rank = 0;
    Place place;
    bool writes = false;
    bool reduce = false;
    int line = 0;
    auto key() const { return std::tuple{rank, place.buffer, place.chunk, !writes, reduce}; }
  };
  std::vector<Use> uses;
  for (const Write& write : writes) uses.push_back({write.rank, write.place, true, write.reduce, write.line});
  for (const Step& step : schedule.rounds[round].steps) {
    for (int i = 0; i < step.count; ++i) {
      const Place place = place_of(schedule, step.from, step.source, step.source_chunk + i);
      uses.push_back({step.from, place, false, false, step.line});
    }
  }
  std::sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) { return a.key() < b.key(); });
  for (std::size_t i = 1; i < uses.size(); ++i) {
    const Use& first = uses[i - 1];  // writes come before reads
    const Use& second = uses[i];
    if (first.rank != second.rank || first.place != second.place || !first.writes) continue;
    if (second.writes && first.reduce && second.reduce) continue;
    return refuse(fmt::format("round {}: rank {} {} chunk {} of its {} in the same round", round, first.rank,
                              second.writes ? "writes twice" : "reads and writes", first.place.chunk,
                              name_of_buffer(first.place.buffer)),
                  second.line);
  }
  return {};
}

Result<void> add_to(Cell& cell, const Write& write, std::size_t round, bool again_is_fine) {
  const auto refuse_here = [&](const std::string& what) {
    return refuse(fmt::format("round {}: rank {}, chunk {} of its {}: rank {} adds {}", round, write.rank,
                              write.place.chunk, name_of_buffer(write.place.buffer), write.from, what),
                  write.line);
  };
  if (!cell.holds) return refuse_here("to it, but nothing has been written there");
  Contributions both;
  both.reserve(cell.holds->size() + write.value.size());
  std::set_union(cell.holds->begin(), cell.holds->end(), write.value.begin(), write.value.end(),
                 std::back_inserter(both));
  const bool again = both.size() < cell.holds->size() + write.value.size();
  if (again && !again_is_fine) {
    Contributions twice;
    std::set_intersection(cell.holds->begin(), cell.holds->end(), write.value.begin(), write.value.end(),
                          std::back_inserter(twice));
    return refuse_here(fmt::format("the contribution of rank {} a second time", twice[0].rank));
  }
  cell.holds = std::move(both);
  return {};
}

Result<void> run_round(const Schedule& schedule, Memory& memory, std::size_t round) {
  const bool barrier = schedule.verb == Verb::barrier;  // to hear of a rank twice does no harm
  const Result<std::vector<Write>> writes = read_round(schedule, memory, round);
  if (!writes) return tl::unexpected(writes.error());
  if (!barrier) {
    if (const Result<void> races = check_races(schedule, *writes, round); !races) return races;
  }
  for (const Write& write : *writes) {
    Cell& cell = cells_of(memory, write.rank, write.place.buffer)[write.place.chunk];
    cell.line = write.line;
    if (!write.reduce) {
      cell.holds = write.value;
    } else if (const Result<void> added = add_to(cell, write, round, barrier); !added) {
      return added;
    }
  }
  return {};
}

// Where the parts of rank i for rank j begin, in i's input or in j's output.
int offset(const Schedule& schedule, int of_rank, int to_part, bool in_input) {
  int before = 0;
  for (int k = 0; k < to_part; ++k) {
    before += schedule.counts[in_input ? of_rank * schedule.ranks + k : k * schedule.ranks + of_rank];
  }
  return before;
}

Contribution expected_all_to_all(const Schedule& schedule, int rank, int chunk) {
  if (schedule.counts.empty()) {
    const int part = part_chunks(schedule);
    return {chunk / part, rank * part + chunk % part};
  }
  int from = 0;
  while (offset(schedule, rank, from + 1, false) <= chunk) ++from;
  return {from, offset(schedule, from, rank, true) + chunk - offset(schedule, rank, from, false)};
}

Contributions of_all(const Schedule& schedule, int chunk) {
  Contributions all;
  for (int rank = 0; rank < schedule.ranks; ++rank) all.push_back({rank, chunk});
  return all;
}

// What a chunk of the rank's output must hold at the end.
Contributions expected(const Schedule& schedule, int rank, int chunk) {
  const int part = part_chunks(schedule);
  switch (schedule.verb) {
    case Verb::send:
    case Verb::broadcast:
      return {{schedule.root, chunk}};
    case Verb::scatter:
      return {{schedule.root, rank * part + chunk}};
    case Verb::gather:
    case Verb::all_gather:
      return {{chunk / part, chunk % part}};
    case Verb::reduce_scatter:
      return of_all(schedule, rank * part + chunk);
    case Verb::all_to_all:
      return {expected_all_to_all(schedule, rank, chunk)};
    default:
      return of_all(schedule, chunk);
  }
}

bool has_output(const Schedule& schedule, int rank) {
  if (schedule.verb == Verb::send) return rank == schedule.peer;
  const bool only_root = schedule.verb == Verb::reduce || schedule.verb == Verb::gather;
  return !only_root || is_root(schedule, rank);
}

Result<void> check_result(const Schedule& schedule, int rank, int chunk, const Cell& cell) {
  const Contributions wanted = expected(schedule, rank, chunk);
  const Contributions held = cell.holds.value_or(Contributions{});
  if (held == wanted) return {};
  Contributions missing;
  Contributions extra;
  std::set_difference(wanted.begin(), wanted.end(), held.begin(), held.end(), std::back_inserter(missing));
  std::set_difference(held.begin(), held.end(), wanted.begin(), wanted.end(), std::back_inserter(extra));
  const int line = cell.line != 0 || schedule.lines.empty() ? cell.line : schedule.lines[rank];
  if (!missing.empty()) {
    return refuse(fmt::format("rank {} ends without the contribution of rank {} in chunk {} of its output", rank,
                              missing[0].rank, chunk),
                  line);
  }
  return refuse(fmt::format("rank {} ends with chunk {} of rank {} in chunk {} of its output, where it does not belong",
                            rank, extra[0].chunk, extra[0].rank, chunk),
                line);
}

}  // namespace

Result<void> check(const Schedule& schedule) {
  Memory memory = start(schedule);
  for (std::size_t round = 0; round < schedule.rounds.size(); ++round) {
    if (const Result<void> run = run_round(schedule, memory, round); !run) return run;
  }
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    if (!has_output(schedule, rank)) continue;
    for (int chunk = 0; chunk < num_chunks(schedule, rank, Buffer::output); ++chunk) {
      const Cell& cell = cell_at(schedule, memory, rank, Buffer::output, chunk);
      if (const Result<void> result = check_result(schedule, rank, chunk, cell); !result) return result;
    }
  }
  return {};
}

}  // namespace twinpod::collective
