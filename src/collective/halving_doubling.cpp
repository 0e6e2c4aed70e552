// Recursive doubling gathers, recursive halving reduces and scatters; for any number of ranks.
//   2^k ranks: all_gather k α + (n-1)/n B β;  all_reduce 2k α + 2 (n-1)/n B β + (n-1)/n B γ
//   else, with 2^k the power of two below n: two rounds more, in which n - 2^k ranks hand all they have to a partner
//   and get the result back:  all_reduce (2k+2) α + (4 - 2/2^k) B β + (2 - 1/2^k) B γ
// Rabenseifner, "Optimization of collective reduction operations" (2004); Thakur, Rabenseifner and Gropp (2005).
//
// The first 2 (n - 2^k) ranks are pairs: the even one takes part for both.
#include <algorithm>
#include <cstddef>
#include <numeric>

#include "collective/algorithms.hpp"

namespace twinpod::collective {
namespace {

struct Core {
  int size = 1;  // ranks that take part, a power of two
  int pairs = 0;
  int rank_of(int member) const { return member < pairs ? 2 * member : member + pairs; }
};

Core core_of(int ranks) {
  const int size = floor_power_of_two(ranks);
  return {size, ranks - size};
}

// Members hold pieces; in round t, blocks of 2^t members exchange all that they have.
Rounds doubling(const Core& core, const std::vector<std::vector<int>>& pieces) {
  Rounds rounds;
  for (int distance = 1; distance < core.size; distance *= 2) {
    Round& round = rounds.emplace_back();
    for (int member = 0; member < core.size; ++member) {
      std::vector<int> block;
      const int first = member / distance * distance;
      for (int i = first; i < first + distance; ++i) block.insert(block.end(), pieces[i].begin(), pieces[i].end());
      add_steps(round, core.rank_of(member), core.rank_of(member ^ distance), block);
    }
  }
  return rounds;
}

std::vector<int> all_but(int chunks, int left_out) {
  std::vector<int> rest;
  for (int c = 0; c < chunks; ++c) {
    if (c != left_out) rest.push_back(c);
  }
  return rest;
}

// Chunks that the block of a member has before the round of this distance: pairs bring two each.
int block_chunks(const Core& core, int member, int distance) {
  const int first = member / distance * distance;
  return distance + std::clamp(core.pairs - first, 0, distance);
}

std::vector<Transfer> between_pairs(const Core& core, bool to_even, double bytes) {
  std::vector<Transfer> transfers;
  for (int i = 0; i < core.pairs; ++i) {
    transfers.push_back(to_even ? Transfer{2 * i + 1, 2 * i, bytes} : Transfer{2 * i, 2 * i + 1, bytes});
  }
  return transfers;
}

Phase exchange(int ranks, const Core& core, int distance, double chunk_bytes, bool pairs_bring_two) {
  if (core.pairs == 0) return {.shifts = {{distance, 2, 1, chunk_bytes * distance}}, .ranks = ranks};
  Phase phase{.ranks = ranks};
  for (int member = 0; member < core.size; ++member) {
    const int chunks = pairs_bring_two ? block_chunks(core, member, distance) : distance;
    phase.transfers.push_back({core.rank_of(member), core.rank_of(member ^ distance), chunk_bytes * chunks});
  }
  return phase;
}

}  // namespace

Rounds halving_doubling_all_gather(int ranks) {
  const Core core = core_of(ranks);
  std::vector<std::vector<int>> pieces(static_cast<std::size_t>(core.size));
  Round before;
  Round after;
  for (int member = 0; member < core.size; ++member) {
    pieces[member] = {core.rank_of(member)};
    if (member >= core.pairs) continue;
    const int odd = core.rank_of(member) + 1;
    pieces[member].push_back(odd);
    add_steps(before, odd, odd - 1, {odd});
    add_steps(after, odd - 1, odd, all_but(ranks, odd));
  }
  Rounds rounds = doubling(core, pieces);
  if (core.pairs == 0) return rounds;
  rounds.insert(rounds.begin(), before);
  rounds.push_back(after);
  return rounds;
}

Rounds halving_doubling_all_reduce(int ranks) {
  const Core core = core_of(ranks);
  std::vector<std::vector<int>> pieces(static_cast<std::size_t>(core.size));
  for (int member = 0; member < core.size; ++member) pieces[member] = {member};
  const Rounds gather = doubling(core, pieces);
  Rounds rounds = one_after_another(reversed(gather, true), gather);
  if (core.pairs == 0) return rounds;
  const std::vector<int> whole = all_but(core.size, -1);
  Round before;
  Round after;
  for (int member = 0; member < core.pairs; ++member) {
    const int even = core.rank_of(member);
    add_steps(before, even + 1, even, whole, true);
    add_steps(after, even, even + 1, whole);
  }
  rounds.insert(rounds.begin(), before);
  rounds.push_back(after);
  return rounds;
}

std::vector<Phase> halving_doubling_all_gather_phases(int ranks, double bytes) {
  const Core core = core_of(ranks);
  const double chunk = bytes / ranks;
  std::vector<Phase> phases{{.transfers = between_pairs(core, true, chunk), .ranks = ranks}};
  for (int distance = 1; distance < core.size; distance *= 2) {
    phases.push_back(exchange(ranks, core, distance, chunk, true));
  }
  phases.push_back({.transfers = between_pairs(core, false, chunk * (ranks - 1)), .ranks = ranks});
  return folded(std::move(phases));
}

std::vector<Phase> halving_doubling_all_reduce_phases(int ranks, double bytes) {
  const Core core = core_of(ranks);
  std::vector<Phase> gather;
  for (int distance = 1; distance < core.size; distance *= 2) {
    gather.push_back(exchange(ranks, core, distance, bytes / core.size, false));
  }
  std::vector<Phase> phases{{.transfers = between_pairs(core, true, bytes), .ranks = ranks}};
  phases = one_after_another(std::move(phases), std::vector<Phase>(gather.rbegin(), gather.rend()));
  phases = one_after_another(std::move(phases), gather);
  phases.push_back({.transfers = between_pairs(core, false, bytes), .ranks = ranks});
  return folded(std::move(phases));
}

double halving_doubling_all_gather_sent_chunks(int ranks, int rank) {
  const Core core = core_of(ranks);
  const bool in_pair = rank < 2 * core.pairs;
  if (in_pair && rank % 2 == 1) return 1;
  double chunks = in_pair ? ranks - 1 : 0;
  const int member = in_pair ? rank / 2 : rank - core.pairs;
  for (int distance = 1; distance < core.size; distance *= 2) chunks += block_chunks(core, member, distance);
  return chunks;
}

double halving_doubling_all_reduce_sent(int ranks, double bytes) {
  const Core core = core_of(ranks);
  return 2 * bytes * (core.size - 1) / core.size + (core.pairs > 0 ? bytes : 0);
}

}  // namespace twinpod::collective
