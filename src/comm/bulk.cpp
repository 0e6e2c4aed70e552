// Large collectives between local ranks. If all buffers are shared, ranks read and write them directly (mapped.cpp). If
// not, the kernel copies (remote.cpp), or everything goes through the ranks' windows, two in turn: while the others
// read one, the next is filled.
//
// In each window every rank puts in what others are to read, meets them, and takes what it needs. All_reduce and reduce
// divide the window between the ranks: each adds up its slice of everybody's contributions and leaves the sum where its
// own contribution would have been; after a second meeting the sums are copied out.
//   all_reduce, n ranks, B bytes: each rank copies (n-1)/n B in, adds up B, copies (n-1)/n B out
#include <algorithm>
#include <array>
#include <cstring>

#include "comm/reduce.hpp"
#include "comm/world.hpp"

namespace twinpod::comm {
namespace {

using Verb = collective::Verb;

// The part of the buffers that is in the windows: elements first .. first + count - 1 of each part.
struct Window {
  Communicator& communicator;
  const Call& call;
  std::size_t size = 0;  // of an element
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t slot = 0;  // elements kept for each rank, if there is a slot for each
  std::size_t half = 0;  // which of the two windows

  int ranks() const { return communicator.size(); }
  int rank() const { return communicator.rank; }
  bool is_root() const { return communicator.rank == call.root; }
  std::byte* of(int member) const {
    return communicator.blocks[static_cast<std::size_t>(member)]->windows[half].data();
  }
  std::byte* slot_of(int member, int index) const { return of(member) + static_cast<std::size_t>(index) * slot * size; }
  const std::byte* input(int part) const {
    return static_cast<const std::byte*>(call.input) + (static_cast<std::size_t>(part) * call.count + first) * size;
  }
  std::byte* output(int part) const {
    return static_cast<std::byte*>(call.output) + (static_cast<std::size_t>(part) * call.count + first) * size;
  }
};

bool has_slots(Verb verb) { return verb == Verb::reduce_scatter || verb == Verb::scatter || verb == Verb::all_to_all; }
bool has_slices(Verb verb) { return verb == Verb::all_reduce || verb == Verb::reduce; }

// The elements of a window that a rank adds up: whole lines of cache.
struct Slice {
  std::size_t first = 0;
  std::size_t count = 0;
};
Slice slice_of(std::size_t count, std::size_t element_size, int ranks, int rank) {
  const std::size_t line = kLine / element_size;
  const std::size_t lines = (count + line - 1) / line;
  const auto n = static_cast<std::size_t>(ranks);
  const auto r = static_cast<std::size_t>(rank);
  const std::size_t begin = std::min(count, lines * r / n * line);
  const std::size_t end = std::min(count, lines * (r + 1) / n * line);
  return {begin, end - begin};
}

void put_in(const Window& window) {
  const Verb verb = window.call.verb;
  const std::size_t bytes = window.count * window.size;
  if (has_slices(verb)) {
    const Slice own = slice_of(window.count, window.size, window.ranks(), window.rank());
    const std::size_t before = own.first * window.size;
    const std::size_t after = (own.first + own.count) * window.size;
    copy_bytes(window.of(window.rank()), window.input(0), before);
    copy_bytes(window.of(window.rank()) + after, window.input(0) + after, bytes - after);
  } else if (has_slots(verb) && (verb != Verb::scatter || window.is_root())) {
    for (int part = 0; part < window.ranks(); ++part) {
      if (part != window.rank()) copy_bytes(window.slot_of(window.rank(), part), window.input(part), bytes);
    }
  } else if (verb == Verb::all_gather || (verb == Verb::gather && !window.is_root()) ||
             (verb == Verb::broadcast && window.is_root())) {
    copy_bytes(window.of(window.rank()), window.input(0), bytes);
  }
}

// Adds up `count` elements of everybody's contribution, from `offset` bytes on in their windows.
void add_up(const Window& window, std::size_t offset, const std::byte* own, std::size_t count,
            std::span<void* const> targets) {
  std::array<const void*, kMaxLocalRanks> sources;  // NOLINT: filled below
  const auto ranks = static_cast<std::size_t>(window.ranks());
  for (std::size_t m = 0; m < ranks; ++m) {
    sources[m] = static_cast<int>(m) == window.rank() ? own : window.of(static_cast<int>(m)) + offset;
  }
  reduce({window.call.type, window.call.op, window.ranks()}, {sources.data(), ranks}, targets, count);
}

void add_up_slice(const Window& window) {
  const Slice own = slice_of(window.count, window.size, window.ranks(), window.rank());
  if (own.count == 0) return;
  const std::size_t offset = own.first * window.size;
  const bool keeps = window.call.verb == Verb::all_reduce || window.is_root();
  const bool gives = window.call.verb == Verb::all_reduce || !window.is_root();
  std::array<void*, 2> targets{};
  std::size_t num_targets = 0;
  if (keeps) targets[num_targets++] = window.output(0) + offset;
  if (gives) targets[num_targets++] = window.of(window.rank()) + offset;
  add_up(window, offset, window.input(0) + offset, own.count, {targets.data(), num_targets});
}

void copy_slices_out(const Window& window) {
  if (window.call.verb == Verb::reduce && !window.is_root()) return;
  for (int m = 0; m < window.ranks(); ++m) {
    if (m == window.rank()) continue;
    const Slice slice = slice_of(window.count, window.size, window.ranks(), m);
    const std::size_t offset = slice.first * window.size;
    copy_bytes(window.output(0) + offset, window.of(m) + offset, slice.count * window.size);
  }
}

void take_out(const Window& window) {
  const std::size_t bytes = window.count * window.size;
  const int own = window.rank();
  const int root = window.call.root;
  switch (window.call.verb) {
    case Verb::reduce_scatter: {
      void* const target = window.output(0);
      return add_up(window, static_cast<std::size_t>(own) * window.slot * window.size, window.input(own), window.count,
                    {&target, 1});
    }
    case Verb::gather:
      if (!window.is_root()) return;
      [[fallthrough]];
    case Verb::all_gather:
      for (int m = 0; m < window.ranks(); ++m)
        copy_bytes(window.output(m), m == own ? window.input(0) : window.of(m), bytes);
      return;
    case Verb::all_to_all:
      for (int m = 0; m < window.ranks(); ++m) {
        copy_bytes(window.output(m), m == own ? window.input(own) : window.slot_of(m, own), bytes);
      }
      return;
    case Verb::scatter:
      return copy_bytes(window.output(0), own == root ? window.input(own) : window.slot_of(root, own), bytes);
    case Verb::broadcast:
      return copy_bytes(window.output(0), own == root ? window.input(0) : window.of(root), bytes);
    default:
      return;
  }
}

Waited run_window(const Window& window) {
  put_in(window);
  if (const Waited waited = meet(window.communicator); waited != Waited::reached) return waited;
  if (!has_slices(window.call.verb)) {
    take_out(window);
    return Waited::reached;
  }
  add_up_slice(window);
  if (const Waited waited = meet(window.communicator); waited != Waited::reached) return waited;
  copy_slices_out(window);
  return Waited::reached;
}

Waited run_staged(Communicator& communicator, const Call& call) {
  const std::size_t size = size_of(call.type);
  const std::size_t line = kLine / size;
  const std::size_t per_rank = kWindowBytes / size / static_cast<std::size_t>(communicator.size()) / line * line;
  const std::size_t step = has_slots(call.verb) ? per_rank : kWindowBytes / size;
  std::size_t half = 0;
  for (std::size_t first = 0; first < call.count; first += step) {
    const Window window{communicator, call, size, first, std::min(step, call.count - first), per_rank, half};
    if (const Waited waited = run_window(window); waited != Waited::reached) return waited;
    half = 1 - half;
  }
  return Waited::reached;
}

}  // namespace

Waited run_bulk(Communicator& communicator, const Call& call, std::uint64_t signature) {
  if (const Waited waited = enter(communicator, signature); waited != Waited::reached) return waited;
  const Segment& segment = communicator.world->segment;
  Entry& entry = entry_of(communicator, communicator.rank);
  const std::size_t part = call.count * size_of(call.type);
  const Method forced = call.choice.method;
  entry.buffers.input = call.input;
  entry.buffers.output = call.output;
  entry.buffers.input_shared = is_shared(segment, call.input, part);
  entry.buffers.output_shared = is_shared(segment, call.output, part);
  entry.buffers.may_map = (call.verb != Verb::all_to_all || call.input != call.output) && forced != Method::staged;
  entry.buffers.may_reach = communicator.world->may_reach;
  publish(entry.word, communicator.sequence);
  for (int m = 0; m < communicator.size(); ++m) {
    if (const Waited waited = await_entry(communicator, m, signature); waited != Waited::reached) return waited;
  }
  communicator.all_entered = communicator.sequence;
  if (forced != Method::remote && can_map(communicator, call)) return run_mapped(communicator, call);
  const bool through_windows = forced == Method::automatic && prefers_windows(communicator, call);
  return can_reach(communicator) && !through_windows ? run_remote(communicator, call) : run_staged(communicator, call);
}

}  // namespace twinpod::comm
