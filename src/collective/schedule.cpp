#include "collective/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "collective/algorithms.hpp"
#include "collective/gather_family.hpp"
#include "collective/request.hpp"

namespace twinpod::collective {
namespace {

Rounds broadcast_rounds(Algorithm algorithm, int ranks, const Shape& shape) {
  if (algorithm == Algorithm::ring) return chain_broadcast(ranks, shape.root, shape.pieces);
  if (algorithm == Algorithm::tree) return tree_broadcast(ranks, shape.root);
  if (algorithm == Algorithm::halving_doubling) return scatter_gather_broadcast(ranks, shape.root);
  return direct_broadcast(ranks, shape.root);
}

int broadcast_chunks(Algorithm algorithm, int ranks, const Shape& shape) {
  if (algorithm == Algorithm::ring) return shape.pieces;
  return algorithm == Algorithm::halving_doubling ? ranks : 1;
}

Rounds scatter_rounds(Algorithm algorithm, int ranks, int root) {
  return algorithm == Algorithm::tree ? tree_scatter(ranks, root) : direct_scatter(ranks, root);
}

void fill_all_reduce(Schedule& made, const Shape& shape) {
  const int ranks = made.ranks;
  if (made.algorithm == Algorithm::halving_doubling) {
    made.chunks = floor_power_of_two(ranks);
    made.rounds = halving_doubling_all_reduce(ranks);
  } else if (gathers(made.algorithm)) {
    made.chunks = ranks * factor_of(made.algorithm, ranks, shape);
    made.rounds =
        one_after_another(reduce_scatter(made.algorithm, ranks, shape), all_gather(made.algorithm, ranks, shape, 1));
  } else {
    const int trees = made.algorithm == Algorithm::double_tree ? 2 : 1;
    made.chunks = shape.pieces * trees;
    made.rounds = tree_all_reduce(ranks, shape.pieces, trees);
  }
}

void fill(Schedule& made, const Shape& shape) {
  const int ranks = made.ranks;
  switch (made.verb) {
    case Verb::send:
      made.in_place = false;
      made.rounds = {Round{{{shape.root, shape.peer, Buffer::input, 0, Buffer::output, 0}}}};
      return;
    case Verb::broadcast:
    case Verb::reduce:
      made.chunks = broadcast_chunks(made.algorithm, ranks, shape);
      made.rounds = broadcast_rounds(made.algorithm, ranks, shape);
      if (made.verb == Verb::reduce) made.rounds = reversed(made.rounds, true);
      return;
    case Verb::all_reduce:
      fill_all_reduce(made, shape);
      return;
    case Verb::reduce_scatter:
      made.chunks = ranks * factor_of(made.algorithm, ranks, shape);
      made.rounds = reduce_scatter(made.algorithm, ranks, shape);
      return;
    case Verb::all_gather:
      made.chunks = ranks * factor_of(made.algorithm, ranks, shape);
      made.rounds = on_buffer(all_gather(made.algorithm, ranks, shape, 1), Buffer::output);
      return;
    case Verb::scatter:
      made.chunks = ranks;
      made.rounds = scatter_rounds(made.algorithm, ranks, shape.root);
      return;
    case Verb::gather:
      made.chunks = ranks;
      made.rounds = on_buffer(reversed(scatter_rounds(made.algorithm, ranks, shape.root), false), Buffer::output);
      return;
    default:  // a barrier
      made.rounds = dissemination_barrier(ranks);
  }
}

int sum_of(const std::vector<int>& counts, int first, int stride, int ranks) {
  int sum = 0;
  for (int i = 0; i < ranks; ++i) sum += counts[static_cast<std::size_t>(first) + static_cast<std::size_t>(i) * stride];
  return sum;
}

bool divides_output(Verb verb) { return verb == Verb::all_gather || verb == Verb::gather; }
bool divides_input(Verb verb) { return verb == Verb::reduce_scatter || verb == Verb::scatter; }

Action action_of(const Step& step, int round, bool sends) {
  Action action{.round = round, .kind = ActionKind::local, .peer = sends ? step.to : step.from};
  if (step.from != step.to) action.kind = sends ? ActionKind::send : ActionKind::receive;
  action.buffer = sends ? step.source : step.target;
  action.chunk = sends ? step.source_chunk : step.target_chunk;
  action.target = step.target;
  action.target_chunk = step.target_chunk;
  action.count = step.count;
  action.reduce = step.reduce;
  return action;
}

}  // namespace

Result<Schedule> make_schedule(Verb verb, Algorithm algorithm, int ranks, const Shape& shape) {
  if (const Result<void> fits = check_request(verb, algorithm, ranks, shape); !fits) {
    return tl::unexpected(fits.error());
  }
  if (ranks > kMaxScheduleRanks) {
    return infeasible(fmt::format("a schedule of {} ranks is too long to spell out", ranks),
                      fmt::format("at most {} ranks; phases go further", kMaxScheduleRanks));
  }
  Schedule made{.verb = verb, .algorithm = algorithm, .ranks = ranks};
  if (algorithm == Algorithm::in_network) {
    made = in_network(verb, ranks, shape);
  } else if (verb == Verb::all_to_all) {
    made = all_to_all(algorithm, ranks, shape);
  } else {
    fill(made, shape);
  }
  made.root = shape.root;
  made.peer = shape.peer;
  return made;
}

Result<Schedule> make_all_to_allv(int ranks, const std::vector<int>& counts) {
  const std::size_t pairs = static_cast<std::size_t>(std::max(ranks, 0)) * static_cast<std::size_t>(std::max(ranks, 0));
  if (ranks < 1 || ranks > kMaxScheduleRanks || counts.size() != pairs) {
    return input_error(fmt::format("all_to_all over {} ranks with {} counts: expected ranks from 1 to {} and {} counts",
                                   ranks, counts.size(), kMaxScheduleRanks, pairs));
  }
  const auto negative = std::find_if(counts.begin(), counts.end(), [](int count) { return count < 0; });
  if (negative != counts.end()) {
    const auto at = static_cast<int>(negative - counts.begin());
    return input_error(
        fmt::format("rank {} sends {} chunks to rank {}: expected 0 or more", at / ranks, *negative, at % ranks));
  }
  Schedule made{.verb = Verb::all_to_all, .algorithm = Algorithm::direct, .ranks = ranks, .in_place = false};
  made.counts = counts;
  made.rounds.resize(static_cast<std::size_t>(std::max(1, ranks - 1)));
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      const int count = counts[static_cast<std::size_t>(from) * ranks + to];
      if (count == 0) continue;
      const int before = sum_of(counts, from * ranks, 1, to);
      const int after = sum_of(counts, to, ranks, from);
      const int round = std::max(0, wrap(to - from, ranks) - 1);
      made.rounds[round].steps.push_back({from, to, Buffer::input, before, Buffer::output, after, count});
    }
  }
  return made;
}

int part_chunks(const Schedule& schedule) {
  const bool divided =
      divides_input(schedule.verb) || divides_output(schedule.verb) || schedule.verb == Verb::all_to_all;
  return divided ? schedule.chunks / schedule.ranks : schedule.chunks;
}

int num_chunks(const Schedule& schedule, int rank, Buffer buffer) {
  if (buffer == Buffer::scratch) return schedule.scratch_chunks;
  if (rank >= schedule.ranks) return 0;  // a switch
  if (!schedule.counts.empty()) {
    const int ranks = schedule.ranks;
    return buffer == Buffer::input ? sum_of(schedule.counts, rank * ranks, 1, ranks)
                                   : sum_of(schedule.counts, rank, ranks, ranks);
  }
  const bool part = (buffer == Buffer::input && divides_output(schedule.verb)) ||
                    (buffer == Buffer::output && divides_input(schedule.verb));
  return part ? part_chunks(schedule) : schedule.chunks;
}

Place place_of(const Schedule& schedule, int rank, Buffer buffer, int chunk) {
  if (!schedule.in_place || buffer == Buffer::scratch) return {buffer, chunk};
  const int own = rank * part_chunks(schedule);
  if (divides_output(schedule.verb)) return {Buffer::output, buffer == Buffer::input ? own + chunk : chunk};
  if (divides_input(schedule.verb)) return {Buffer::input, buffer == Buffer::output ? own + chunk : chunk};
  return {Buffer::input, chunk};
}

std::vector<Action> actions_of(const Schedule& schedule, int rank) {
  std::vector<Action> actions;
  for (std::size_t round = 0; round < schedule.rounds.size(); ++round) {
    for (const Step& step : schedule.rounds[round].steps) {
      if (step.from == rank) actions.push_back(action_of(step, static_cast<int>(round), true));
      if (step.to == rank && step.from != rank) actions.push_back(action_of(step, static_cast<int>(round), false));
    }
  }
  return actions;
}

}  // namespace twinpod::collective
