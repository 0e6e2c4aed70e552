// A collective as a schedule: rounds of steps, each of which moves chunks from a rank to a rank.
//
// A schedule is a description. `check` (check.hpp) proves it, `phases` (phases.hpp) says the same in the few words that
// timing needs, an executor sends the bytes, and MSCCL reads it as XML (msccl.hpp). Nothing here knows seconds.
//
//     Result<Schedule> ring = make_schedule(Verb::all_reduce, Algorithm::ring, 4, {});
//     ring->rounds[0].steps[0]   // rank 0 to rank 1, chunk 3, added up there
//
// Rules that every schedule keeps, and that `check` enforces:
// - all steps of a round read what was there when the round began;
// - in a round, nobody reads a chunk that is written, and nobody writes a chunk twice unless every write adds.
//   So an executor may start everything in a round at once and needs no copies.
// - a step from a rank to itself is a local copy or addition: no transfer.
#pragma once

#include <vector>

#include "collective/names.hpp"
#include "core/error.hpp"

namespace twinpod::collective {

// What an algorithm needs to know beside the number of ranks. Fields that it does not use are ignored.
struct Shape {
  int ranks_per_node = 1;       // hierarchical, rail; ranks of a node are consecutive, and the last node may be smaller
  std::vector<int> torus = {};  // torus: its extents, x first; rank = x + X (y + Y z)
  bool split_axes = false;      // torus: the buffer is divided over the axes, which then work at once and both ways
  int root = 0;                 // broadcast, reduce, scatter, gather; the sender of a send
  int peer = 1;                 // send: who receives
  int pieces = 1;               // parts that follow each other through a chain, a binary tree or a switch
  bool all_pairs = false;       // all_to_all, direct: all pairs at once, not one round for each distance
};

enum class Buffer { input, output, scratch };

// `count` consecutive chunks go from one rank to another.
struct Step {
  int from = 0;
  int to = 0;
  Buffer source = Buffer::input;
  int source_chunk = 0;
  Buffer target = Buffer::input;
  int target_chunk = 0;
  int count = 1;
  bool reduce = false;  // added to what is there, else it takes its place
  int line = 0;         // of the file that it was read from; 0: made here
  bool operator==(const Step&) const = default;
};

struct Round {
  std::vector<Step> steps;
  bool operator==(const Round&) const = default;
};
using Rounds = std::vector<Round>;

// In place, input and output are one memory, as nccl-tests and MSCCL mean it: the same buffer for broadcast, reduce and
// all_reduce; the rank's part of the whole output is the input of gather and all_gather; the rank's part of the whole
// input is the output of scatter and reduce_scatter. Ranks that are no root hold the whole buffer too.
struct Schedule {
  Verb verb = Verb::all_reduce;
  Algorithm algorithm = Algorithm::ring;
  int ranks = 0;
  int root = 0;
  int peer = 0;
  int chunks = 1;          // of the buffer whose size counts: see bytes in phases.hpp
  int scratch_chunks = 0;  // of each rank
  bool in_place = true;    // all_to_all and send are not
  int switches = 0;        // 1: rank number `ranks` is a switch that adds up in its scratch, which starts at zero
  Rounds rounds = {};
  std::vector<int> counts = {};  // all_to_allv: chunks from rank i to rank j at [i * ranks + j]; empty: all alike
  std::vector<int> lines = {};   // of each rank in the file that the schedule was read from; empty: made here
};

// Beyond this many ranks a schedule is too long to spell out; phases() goes further.
inline constexpr int kMaxScheduleRanks = 4096;

// Refuses a pair that is not there, and ranks, nodes, a torus or a root that do not fit together.
Result<Schedule> make_schedule(Verb verb, Algorithm algorithm, int ranks, const Shape& shape);

// Rank i sends counts[i * ranks + j] chunks to rank j, in ranks - 1 rounds: in round s, i sends to i + s.
Result<Schedule> make_all_to_allv(int ranks, const std::vector<int>& counts);

// Chunks of a rank's buffer; the whole buffer on every rank when in place.
int num_chunks(const Schedule& schedule, int rank, Buffer buffer);

// Chunks of one rank's part of the whole buffer.
int part_chunks(const Schedule& schedule);

// Where a chunk lies when buffers are shared: the same memory has the same place.
struct Place {
  Buffer buffer = Buffer::input;
  int chunk = 0;
  bool operator==(const Place&) const = default;
};
Place place_of(const Schedule& schedule, int rank, Buffer buffer, int chunk);

// What one rank does in a round, in the order of the schedule; receives and sends of a round all start together.
enum class ActionKind { send, receive, local };
struct Action {
  int round = 0;
  ActionKind kind = ActionKind::send;
  int peer = 0;                   // the other rank; its own for a local action
  Buffer buffer = Buffer::input;  // read by a send, written by a receive
  int chunk = 0;
  Buffer target = Buffer::input;  // local: where to
  int target_chunk = 0;
  int count = 1;
  bool reduce = false;
};
std::vector<Action> actions_of(const Schedule& schedule, int rank);

}  // namespace twinpod::collective
