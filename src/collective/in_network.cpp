// Reduction and copying in the switch: every rank sends once and receives once, in p pieces that follow each other.
//   all_reduce (p + 1) (α + B/p β): B up and B down for a rank, whatever n is
// Graham et al., "Scalable Hierarchical Aggregation Protocol (SHARP)" (2016); NVLS does the same in NVSwitch.
//
// The switch is rank number n of the schedule. It stands for the tree of switches between the ranks.
#include <algorithm>
#include <cstddef>
#include <numeric>

#include "collective/algorithms.hpp"

namespace twinpod::collective {
namespace {

bool divided(Verb verb) { return verb == Verb::all_gather || verb == Verb::reduce_scatter; }
bool adds(Verb verb) { return verb == Verb::all_reduce || verb == Verb::reduce || verb == Verb::reduce_scatter; }

// Parts of the buffer that a rank sends up, or gets down; the buffer has one part, or one for each rank if it is
// divided.
double num_parts(Verb verb, int ranks, bool is_root, bool up) {
  switch (verb) {
    case Verb::broadcast:
      return up == is_root ? 1 : 0;
    case Verb::reduce:
      return up || is_root ? 1 : 0;
    case Verb::all_gather:
      return up ? 1 : ranks - 1;
    case Verb::reduce_scatter:
      return up ? ranks : 1;
    default:
      return 1;
  }
}

std::vector<int> parts_of(Verb verb, int ranks, int rank, int root, bool up) {
  if (!divided(verb)) return num_parts(verb, ranks, rank == root, up) > 0 ? std::vector<int>{0} : std::vector<int>{};
  if (up == (verb == Verb::all_gather)) return {rank};
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  if (verb == Verb::all_gather) all.erase(all.begin() + rank);
  return all;
}

// The parts' chunks of this piece.
std::vector<int> chunks_of(const std::vector<int>& parts, int piece, int pieces) {
  std::vector<int> chunks;
  for (const int part : parts) chunks.push_back(part * pieces + piece);
  return chunks;
}

void aim(Round& round, std::size_t first, Buffer source, Buffer target) {
  for (std::size_t i = first; i < round.steps.size(); ++i) {
    round.steps[i].source = source;
    round.steps[i].target = target;
  }
}

}  // namespace

Schedule in_network(Verb verb, int ranks, const Shape& shape) {
  const int pieces = shape.pieces;
  Schedule made{.verb = verb, .algorithm = Algorithm::in_network, .ranks = ranks, .switches = 1};
  made.chunks = pieces * (divided(verb) ? ranks : 1);
  made.scratch_chunks = made.chunks;
  if (ranks < 2) return made;
  made.rounds.resize(static_cast<std::size_t>(pieces) + 1);
  const Buffer mine = verb == Verb::all_gather ? Buffer::output : Buffer::input;
  for (int piece = 0; piece < pieces; ++piece) {
    for (int rank = 0; rank < ranks; ++rank) {
      Round& up = made.rounds[piece];
      const std::size_t first_up = up.steps.size();
      add_steps(up, rank, ranks, chunks_of(parts_of(verb, ranks, rank, shape.root, true), piece, pieces), adds(verb));
      aim(up, first_up, mine, Buffer::scratch);
      Round& down = made.rounds[piece + 1];
      const std::size_t first_down = down.steps.size();
      add_steps(down, ranks, rank, chunks_of(parts_of(verb, ranks, rank, shape.root, false), piece, pieces));
      aim(down, first_down, Buffer::scratch, mine);
    }
  }
  return made;
}

std::vector<Phase> in_network_phases(Verb verb, int ranks, double bytes, const Shape& shape) {
  if (ranks < 2) return {};
  const double part = bytes / shape.pieces / (divided(verb) ? ranks : 1);
  std::vector<Transfer> up;
  std::vector<Transfer> down;
  for (int rank = 0; rank < ranks; ++rank) {
    const double parts_up = num_parts(verb, ranks, rank == shape.root, true);
    const double parts_down = num_parts(verb, ranks, rank == shape.root, false);
    if (parts_up > 0) up.push_back({rank, ranks, part * parts_up});
    if (parts_down > 0) down.push_back({ranks, rank, part * parts_down});
  }
  std::vector<Transfer> both = up;
  both.insert(both.end(), down.begin(), down.end());
  return folded({{.transfers = up, .ranks = ranks},
                 {.transfers = both, .repeats = shape.pieces - 1.0, .ranks = ranks},
                 {.transfers = down, .ranks = ranks}});
}

Volume in_network_volume(Verb verb, int ranks, double bytes, const Shape& shape) {
  if (ranks < 2) return {};
  const double part = bytes / (divided(verb) ? ranks : 1);
  const double of_root = part * num_parts(verb, ranks, true, true);
  const double of_other = part * num_parts(verb, ranks, false, true);
  return {shape.pieces + 1.0, std::max(of_root, of_other), of_root + (ranks - 1) * of_other};
}

}  // namespace twinpod::collective
