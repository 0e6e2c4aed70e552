// Small collectives between local ranks: everybody puts its contribution into its own block, says so, and reads those
// of the others. One wait, whatever the verb; a few bytes travel in the same line of cache as the word that is waited
// for.
#include <array>
#include <cstring>

#include "comm/reduce.hpp"
#include "comm/world.hpp"

namespace twinpod::comm {
namespace {

using Verb = collective::Verb;

bool gives(Verb verb, bool is_root) {
  switch (verb) {
    case Verb::barrier:
      return false;
    case Verb::broadcast:
    case Verb::scatter:
      return is_root;
    case Verb::reduce:
    case Verb::gather:
      return !is_root;
    default:
      return true;
  }
}

bool needs_all(Verb verb, bool is_root) {
  if (verb == Verb::broadcast || verb == Verb::scatter) return false;
  return is_root || (verb != Verb::reduce && verb != Verb::gather);
}

std::byte* place(Block& block, std::uint32_t sequence, std::size_t bytes) {
  Entry& entry = block.entries[sequence % kTurns];
  return bytes <= entry.data.size() ? entry.data.data() : block.small[sequence % kSmallTurns].data();
}

const Entry& later_entry_of(const Communicator& communicator, int member, std::uint32_t later) {
  return communicator.blocks[static_cast<std::size_t>(member)]->entries[(communicator.sequence + later) % kTurns];
}

// As much of it as will hold the word and a contribution of so many bytes.
template <bool Writes>
void prefetch(const Entry& entry, std::size_t bytes) {
  const auto* const first = reinterpret_cast<const std::byte*>(&entry);
  const std::size_t last = bytes <= entry.data.size() ? bytes + 16 : 1;
  for (std::size_t at = 0; at < last; at += kLine) {
    Writes ? prefetch_to_write(first + at) : __builtin_prefetch(first + at);
  }
}

struct Meeting {
  Communicator& communicator;
  const Call& call;
  std::size_t bytes = 0;  // of a contribution
  std::size_t part = 0;   // of one rank's part

  const std::byte* of(int member) const {
    return place(*communicator.blocks[static_cast<std::size_t>(member)], communicator.sequence, bytes);
  }
  const std::byte* own() const { return static_cast<const std::byte*>(call.input); }
  std::byte* output() const { return static_cast<std::byte*>(call.output); }
};

void reduce_contributions(const Meeting& meeting, std::size_t offset) {
  std::array<const void*, kMaxLocalRanks> sources;  // NOLINT: filled below
  const Communicator& communicator = meeting.communicator;
  const auto ranks = static_cast<std::size_t>(communicator.size());
  for (std::size_t m = 0; m < ranks; ++m) {
    const bool mine = static_cast<int>(m) == communicator.rank;
    sources[m] = (mine ? meeting.own() : meeting.of(static_cast<int>(m))) + offset;
  }
  void* const target = meeting.call.output;
  reduce({meeting.call.type, meeting.call.op, communicator.size()}, {sources.data(), ranks}, {&target, 1},
         meeting.call.count);
}

// Part m of the output is contribution m, from `offset` on.
void collect(const Meeting& meeting, std::size_t offset) {
  const Communicator& communicator = meeting.communicator;
  for (int m = 0; m < communicator.size(); ++m) {
    const std::byte* const from = (m == communicator.rank ? meeting.own() : meeting.of(m)) + offset;
    copy_bytes(meeting.output() + static_cast<std::size_t>(m) * meeting.part, from, meeting.part);
  }
}

void take(const Meeting& meeting) {
  const Communicator& communicator = meeting.communicator;
  const bool is_root = communicator.rank == meeting.call.root;
  const std::size_t own_part = static_cast<std::size_t>(communicator.rank) * meeting.part;
  const std::byte* const from_root = is_root ? meeting.own() : meeting.of(meeting.call.root);
  switch (meeting.call.verb) {
    case Verb::reduce:
      if (!is_root) return;
      [[fallthrough]];
    case Verb::all_reduce:
      return reduce_contributions(meeting, 0);
    case Verb::reduce_scatter:
      return reduce_contributions(meeting, own_part);
    case Verb::gather:
      if (!is_root) return;
      [[fallthrough]];
    case Verb::all_gather:
      return collect(meeting, 0);
    case Verb::all_to_all:
      return collect(meeting, own_part);
    case Verb::broadcast:
      return copy_bytes(meeting.call.output, from_root, meeting.part);
    case Verb::scatter:
      return copy_bytes(meeting.call.output, from_root + own_part, meeting.part);
    default:
      return;
  }
}

}  // namespace

Waited run_inlined(Communicator& communicator, const Call& call, std::uint64_t signature) {
  const int ranks = communicator.size();
  const bool is_root = communicator.rank == call.root;
  const Meeting meeting{communicator, call, contribution_bytes(communicator, call), call.count * size_of(call.type)};
  Block& block = *communicator.blocks[static_cast<std::size_t>(communicator.rank)];
  const std::uint32_t turns = meeting.bytes <= sizeof(Entry::data) ? kTurns : kSmallTurns;
  if (const Waited waited = enter(communicator, signature, turns); waited != Waited::reached) return waited;
  // If the root is ahead, what it says later is fetched while this is worked on; if not, it would only be in its way.
  const bool from_root = (call.verb == Verb::broadcast || call.verb == Verb::scatter) && !is_root;
  if (from_root) {
    const bool is_ahead = has_reached(entry_of(communicator, call.root).word, communicator.sequence);
    if (is_ahead) prefetch<false>(later_entry_of(communicator, call.root, 3), meeting.bytes);
  }
  // Who writes next to a line that others have read has to get it back first; so it is asked for early.
  prefetch<true>(later_entry_of(communicator, communicator.rank, 2), gives(call.verb, is_root) ? meeting.bytes : 0);
  if (gives(call.verb, is_root))
    copy_bytes(place(block, communicator.sequence, meeting.bytes), call.input, meeting.bytes);
  publish(entry_of(communicator, communicator.rank).word, communicator.sequence);
  for (int m = 0; m < ranks; ++m) {
    if (m == communicator.rank || !(needs_all(call.verb, is_root) || (m == call.root && !gives(call.verb, is_root)))) {
      continue;
    }
    if (const Waited waited = await_entry(communicator, m, signature); waited != Waited::reached) return waited;
  }
  if (needs_all(call.verb, is_root)) communicator.all_entered = communicator.sequence;
  take(meeting);
  return Waited::reached;
}

}  // namespace twinpod::comm
