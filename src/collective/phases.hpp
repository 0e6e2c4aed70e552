// A collective as phases: who sends how many bytes to whom at the same time, and how often that is repeated.
//
// This is what timing needs, at any number of ranks: a ring all-reduce of a million ranks is one phase. For every
// number of ranks for which a schedule can be spelled out, phases() says the same as its rounds; a test holds them
// together.
//
//     Result<std::vector<Phase>> ring = phases(Verb::all_reduce, Algorithm::ring, 1 << 20, 1e9, {});
//     for_each_transfer((*ring)[0], [](const Transfer& transfer) { ... });   // 1,048,576 transfers, 2,097,150 times
//
// `bytes` is the size as nccl-tests prints it: the buffer of one rank for send, broadcast, reduce and all_reduce, the
// whole input of reduce_scatter and scatter, the whole output of all_gather and gather, what one rank sends in
// all_to_all (its own part included).
#pragma once

#include <algorithm>
#include <vector>

#include "collective/schedule.hpp"
#include "core/error.hpp"

namespace twinpod::collective {

// A rank equal to the number of ranks is the switch that adds up (in_network).
struct Transfer {
  int from = 0;
  int to = 0;
  double bytes = 0;
  bool operator==(const Transfer&) const = default;
};

// Many like transfers in a few numbers. Write a rank as a + stride (b + extent c) with a < stride and b < extent: every
// rank sends to the one with b + by (mod extent) and the same a and c. A ring has stride 1 and extent n; rings of ranks
// that are alike on all nodes have stride ranks_per_node; an axis of a torus has the product of the axes before it;
// a pairwise exchange over a distance of 2^k has stride 2^k and extent 2.
struct Shift {
  int stride = 1;
  int extent = 1;
  int by = 1;  // from 1 to extent - 1 in what phases() gives; backwards is extent - 1
  double bytes = 0;
  int first = 0;   // only ranks with b in first .. first + count - 1 (mod extent) send
  int count = -1;  // -1: all of them
  bool operator==(const Shift&) const = default;
};

// All transfers start together, the next repetition when all have ended.
struct Phase {
  std::vector<Transfer> transfers = {};  // those that are no shift
  std::vector<Shift> shifts = {};        // those that are; expand() or for_each_transfer() spell them out
  double repeats = 1;
  int ranks = 0;
  bool operator==(const Phase&) const = default;
};

Result<std::vector<Phase>> phases(Verb verb, Algorithm algorithm, int ranks, double bytes, const Shape& shape);

// bytes[i * ranks + j] go from rank i to rank j; pairs with none are left out.
Result<std::vector<Phase>> all_to_allv_phases(int ranks, const std::vector<double>& bytes);

// Of any schedule, such as one that was imported: a phase for each round that moves something, like ones folded.
std::vector<Phase> phases_of(const Schedule& schedule, double bytes);

// Transfers of a round, one for each pair, by sender and receiver; local steps are none.
std::vector<Transfer> transfers_of(const Schedule& schedule, const Round& round, double bytes);

double num_transfers(const Phase& phase);

template <typename F>
void for_each_transfer(const Phase& phase, const Shift& shift, int begin, int end, F&& f) {
  for (int rank = begin; rank < std::min(end, phase.ranks); ++rank) {
    const int digit = rank / shift.stride % shift.extent;
    const int in_window = ((digit - shift.first) % shift.extent + shift.extent) % shift.extent;
    if (shift.count >= 0 && in_window >= shift.count) continue;
    const int to_digit = ((digit + shift.by) % shift.extent + shift.extent) % shift.extent;
    f(Transfer{rank, rank + (to_digit - digit) * shift.stride, shift.bytes});
  }
}

template <typename F>
void for_each_transfer(const Phase& phase, const Shift& shift, F&& f) {
  const bool in_one_piece =
      shift.stride == 1 && shift.first >= 0 && shift.count >= 0 && shift.first + shift.count <= shift.extent;
  if (!in_one_piece) return for_each_transfer(phase, shift, 0, phase.ranks, f);
  // A window of a long chain: the other ranks, which are most of them, need not be looked at.
  for (int block = 0; block < phase.ranks; block += shift.extent) {
    for_each_transfer(phase, shift, block + shift.first, block + shift.first + shift.count, f);
  }
}

// Explicit transfers first, then each shift by sender.
template <typename F>
void for_each_transfer(const Phase& phase, F&& f) {
  for (const Transfer& transfer : phase.transfers) f(transfer);
  for (const Shift& shift : phase.shifts) for_each_transfer(phase, shift, f);
}

std::vector<Transfer> expand(const Phase& phase);

// What a collective moves, in closed form; the same bytes as in phases().
struct Volume {
  double rounds = 0;       // with at least one transfer
  double sent_bytes = 0;   // by the rank that sends most; a switch is no rank
  double total_bytes = 0;  // by all ranks together, without what a switch sends
};
Result<Volume> volume(Verb verb, Algorithm algorithm, int ranks, double bytes, const Shape& shape);

// Bus bandwidth over algorithm bandwidth, as nccl-tests defines it: 2 (n - 1) / n for all_reduce.
double bus_factor(Verb verb, int ranks);

}  // namespace twinpod::collective
