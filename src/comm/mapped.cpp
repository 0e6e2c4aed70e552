// Large collectives on buffers that all local ranks can reach: no copies in between.
//   all_reduce: each rank adds up its share of the indices, reading all inputs and writing all outputs, then all meet
#include <algorithm>
#include <array>
#include <cstring>

#include "comm/reduce.hpp"
#include "comm/world.hpp"

namespace twinpod::comm {
namespace {

using Verb = collective::Verb;

const std::byte* input_of(const Communicator& communicator, int member) {
  return static_cast<const std::byte*>(entry_of(communicator, member).buffers.input);
}
std::byte* output_of(const Communicator& communicator, int member) {
  return static_cast<std::byte*>(entry_of(communicator, member).buffers.output);
}

struct Share {
  std::size_t first = 0;
  std::size_t count = 0;
};

// Whole pages, as far as they go: two ranks then never write to the same page.
Share share_of(std::size_t count, std::size_t element_size, int ranks, int rank) {
  const auto n = static_cast<std::size_t>(ranks);
  const auto r = static_cast<std::size_t>(rank);
  const std::size_t grain = (count * element_size / n >= 65536 ? 4096 : kLine) / element_size;
  const std::size_t grains = (count + grain - 1) / grain;
  const std::size_t begin = std::min(count, grains * r / n * grain);
  const std::size_t end = std::min(count, grains * (r + 1) / n * grain);
  return {begin, end - begin};
}

// From the inputs of all, `offset` bytes on, into the targets. `whole`: elements in all, of which this is a part.
void add_up(const Communicator& communicator, const Call& call, std::size_t offset, std::size_t count,
            std::span<void* const> targets, std::size_t whole) {
  std::array<const void*, kMaxLocalRanks> sources;  // NOLINT: filled below
  const auto ranks = static_cast<std::size_t>(communicator.size());
  for (std::size_t m = 0; m < ranks; ++m) sources[m] = input_of(communicator, static_cast<int>(m)) + offset;
  if (count > 0) reduce({call.type, call.op, communicator.size(), whole}, {sources.data(), ranks}, targets, count);
}

// Elements first .. first + count - 1 of the sum to all who get it; the own output is the first.
void reduce_block(const Communicator& communicator, const Call& call, Share block, std::size_t whole) {
  const std::size_t offset = block.first * size_of(call.type);
  std::array<void*, kMaxLocalRanks> targets;  // NOLINT: filled below
  std::size_t num_targets = 0;
  for (int i = 0; i < communicator.size(); ++i) {
    const int m = (communicator.rank + i) % communicator.size();
    if (call.verb == Verb::all_reduce || m == call.root) targets[num_targets++] = output_of(communicator, m) + offset;
  }
  add_up(communicator, call, offset, block.count, {targets.data(), num_targets}, whole);
}

// Every second time from the end to the beginning: what was used last is still in the cache.
void reduce_share(const Communicator& communicator, const Call& call) {
  constexpr std::size_t kBlockBytes = std::size_t{512} << 10U;
  const Share share = share_of(call.count, size_of(call.type), communicator.size(), communicator.rank);
  const std::size_t block = kBlockBytes / size_of(call.type);
  const std::size_t blocks = (share.count + block - 1) / block;
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::size_t first = (communicator.sequence % 2 == 0 ? i : blocks - 1 - i) * block;
    reduce_block(communicator, call, {share.first + first, std::min(block, share.count - first)}, share.count);
  }
}

// With two ranks and in place the root would have nothing to do, so it pushes half if it can.
void broadcast(const Communicator& communicator, const Call& call) {
  const std::size_t bytes = call.count * size_of(call.type);
  const std::byte* const input = input_of(communicator, call.root);
  const bool is_root = communicator.rank == call.root;
  const int other = 1 - call.root;
  const EntryBuffers& root = entry_of(communicator, call.root).buffers;
  std::size_t pushed = 0;
  if (communicator.size() == 2 && root.input == root.output && entry_of(communicator, other).buffers.output_shared) {
    pushed = bytes / 2 / 4096 * 4096;
  }
  if (is_root) {
    if (pushed > 0) copy_bytes(output_of(communicator, other), input, pushed);
    copy_bytes(call.output, input, bytes);
  } else {
    copy_bytes(static_cast<std::byte*>(call.output) + pushed, input + pushed, bytes - pushed);
  }
}

void pull(const Communicator& communicator, const Call& call) {
  const std::size_t part = call.count * size_of(call.type);
  const std::size_t own = static_cast<std::size_t>(communicator.rank) * part;
  auto* const output = static_cast<std::byte*>(call.output);
  if (call.verb == Verb::scatter) return copy_bytes(output, input_of(communicator, call.root) + own, part);
  if (call.verb == Verb::gather && communicator.rank != call.root) return;
  for (int i = 0; i < communicator.size(); ++i) {
    // Who reads the same at the same time finds it in the cache that they share.
    const int m = call.verb == Verb::all_gather ? i : (communicator.rank + i) % communicator.size();
    const std::size_t from = call.verb == Verb::all_to_all ? own : 0;
    copy_bytes(output + static_cast<std::size_t>(m) * part, input_of(communicator, m) + from, part);
  }
}

}  // namespace

bool can_map(const Communicator& communicator, const Call& call) {
  const bool from_root = call.verb == Verb::broadcast || call.verb == Verb::scatter;
  for (int m = 0; m < communicator.size(); ++m) {
    const auto& buffers = entry_of(communicator, m).buffers;
    const bool is_written = call.verb == Verb::all_reduce || (call.verb == Verb::reduce && m == call.root);
    if (!buffers.may_map || (is_written && !buffers.output_shared)) return false;
    if ((!from_root || m == call.root) && !buffers.input_shared) return false;
  }
  return true;
}

Waited run_mapped(Communicator& communicator, const Call& call) {
  switch (call.verb) {
    case Verb::all_reduce:
    case Verb::reduce:
      reduce_share(communicator, call);
      break;
    case Verb::reduce_scatter: {
      void* const target = call.output;
      const std::size_t part = call.count * size_of(call.type);
      add_up(communicator, call, static_cast<std::size_t>(communicator.rank) * part, call.count, {&target, 1},
             call.count);
      break;
    }
    case Verb::broadcast:
      broadcast(communicator, call);
      break;
    default:
      pull(communicator, call);
  }
  return meet(communicator);
}

}  // namespace twinpod::comm
