// Large collectives on buffers that are not shared: the kernel copies from the memory of one rank to that of another.
//   all_reduce: each rank fetches the others' contributions to its share of the indices, block by block, adds them up,
//   and
//     puts the sum into the others' outputs. Each rank moves 2 (n-1)/n B through the kernel and adds up B.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "comm/reach.hpp"
#include "comm/reduce.hpp"
#include "comm/world.hpp"

namespace twinpod::comm {
namespace {

using Verb = collective::Verb;

// Blocks of all ranks together stay in the second cache; the longer they are, the fewer calls of the kernel.
constexpr std::size_t kBlocksBytes = std::size_t{512} << 10U;
constexpr std::size_t kLeastBlock = std::size_t{64} << 10U;
std::size_t block_for(int ranks) {
  return std::max(kLeastBlock, kBlocksBytes / static_cast<std::size_t>(ranks) / kLeastBlock * kLeastBlock);
}

// Sums of so many bytes in all ranks leave no room in the caches for anything else, so they go past them.
constexpr std::size_t kStreamedSum = std::size_t{64} << 20U;

constexpr std::size_t kStreamedPart = std::size_t{1} << 20U;  // the same of what is only copied

struct Reach {
  Communicator& communicator;
  const Call& call;
  std::size_t size = 0;   // of an element
  std::size_t block = 0;  // bytes that are fetched at once
  bool failed = false;    // a rank is gone; the launcher says so
  bool arrived = false;   // what is left to do concerns nobody else

  int ranks() const { return communicator.size(); }
  int rank() const { return communicator.rank; }
  const Entry& entry(int member) const { return entry_of(communicator, member); }
  pid_t process(int member) const {
    return state_of(communicator.world->segment, communicator.members[static_cast<std::size_t>(member)]).pid;
  }
  const std::byte* input(int member) const { return static_cast<const std::byte*>(entry(member).buffers.input); }
  std::byte* output(int member) const { return static_cast<std::byte*>(entry(member).buffers.output); }

  void fetch(int member, std::size_t offset, void* to, std::size_t bytes) {
    if (bytes == 0) return;
    if (member == rank() || entry(member).buffers.input_shared) return copy_bytes(to, input(member) + offset, bytes);
    failed = failed || !read_remote(process(member), input(member) + offset, to, bytes);
  }
  void put(int member, const std::byte* from, std::size_t offset, std::size_t bytes) {
    if (bytes == 0) return;
    if (member == rank() || entry(member).buffers.output_shared)
      return copy_bytes(output(member) + offset, from, bytes);
    failed = failed || !write_remote(process(member), from, output(member) + offset, bytes);
  }
};

void arrive(Reach& reach) {
  arrive(reach.communicator);
  reach.arrived = true;
}

// Elements first .. first + count - 1 of everybody's input into `to`, which may be this rank's own.
void add_up(Reach& reach, std::size_t first, std::size_t count, std::byte* to, std::byte* scratch) {
  std::array<const void*, kMaxLocalRanks> sources;  // NOLINT: filled below
  const std::size_t bytes = count * reach.size;
  for (int m = 0; m < reach.ranks(); ++m) {
    const auto index = static_cast<std::size_t>(m);
    if (m == reach.rank() || reach.entry(m).buffers.input_shared) {
      sources[index] = reach.input(m) + first * reach.size;
    } else {
      std::byte* const fetched = scratch + index * reach.block;
      reach.fetch(m, first * reach.size, fetched, bytes);
      sources[index] = fetched;
    }
  }
  void* const target = to;
  reduce({reach.call.type, reach.call.op, reach.ranks()}, {sources.data(), static_cast<std::size_t>(reach.ranks())},
         {&target, 1}, count);
}

// Scratch for a block of each rank and for their sum, kept from call to call; whole pages, or the kernel copies slower.
std::byte* scratch_for(const Reach& reach) {
  constexpr std::size_t kPage = 4096;
  thread_local std::vector<std::byte> scratch;
  const std::size_t needed = (static_cast<std::size_t>(reach.ranks()) + 1) * reach.block;
  if (scratch.size() < needed + kPage) scratch.resize(needed + kPage);
  const std::size_t over = reinterpret_cast<std::uintptr_t>(scratch.data()) % kPage;
  return scratch.data() + (over == 0 ? 0 : kPage - over);
}

void reduce_share(Reach& reach) {
  const Call& call = reach.call;
  std::byte* const scratch = scratch_for(reach);
  std::byte* const sums = scratch + static_cast<std::size_t>(reach.ranks()) * reach.block;
  const std::size_t line = kLine / reach.size;
  const std::size_t lines = (call.count + line - 1) / line;
  const auto share = [&](int rank) {
    return std::min(call.count,
                    lines * static_cast<std::size_t>(rank) / static_cast<std::size_t>(reach.ranks()) * line);
  };
  const std::size_t end = share(reach.rank() + 1);
  const bool streams =
      call.input != call.output && call.count * reach.size * static_cast<std::size_t>(reach.ranks()) >= kStreamedSum;
  for (std::size_t first = share(reach.rank()); first < end; first += reach.block / reach.size) {
    const std::size_t count = std::min(reach.block / reach.size, end - first);
    const bool keeps = call.verb == Verb::all_reduce || reach.rank() == call.root;
    std::byte* const own = keeps ? reach.output(reach.rank()) + first * reach.size : sums;
    std::byte* const to = streams ? sums : own;
    add_up(reach, first, count, to, scratch);
    if (to != own) copy_streaming(own, to, count * reach.size);
    for (int m = 0; m < reach.ranks(); ++m) {
      const bool gets = m != reach.rank() && (call.verb == Verb::all_reduce || m == call.root);
      if (gets) reach.put(m, to, first * reach.size, count * reach.size);
    }
  }
}

void reduce_part(Reach& reach) {
  std::byte* const scratch = scratch_for(reach);
  const std::size_t own = static_cast<std::size_t>(reach.rank()) * reach.call.count;
  auto* const output = static_cast<std::byte*>(reach.call.output);
  for (std::size_t first = 0; first < reach.call.count; first += reach.block / reach.size) {
    const std::size_t count = std::min(reach.block / reach.size, reach.call.count - first);
    add_up(reach, own + first, count, output + first * reach.size, scratch);
  }
}

// With two ranks and in place the root would have nothing to do, so it pushes half.
void broadcast(Reach& reach) {
  const std::size_t bytes = reach.call.count * reach.size;
  const int root = reach.call.root;
  const bool in_place = reach.input(root) == reach.output(root);
  const bool pushes = reach.ranks() == 2 && in_place && bytes >= 2 * kLeastBlock;
  const std::size_t pushed = pushes ? bytes / 2 / 4096 * 4096 : 0;
  if (reach.rank() == root) {
    if (pushed > 0) reach.put(1 - root, reach.input(root), 0, pushed);
    arrive(reach);
    copy_bytes(reach.call.output, reach.call.input, bytes);
  } else {
    reach.fetch(root, pushed, static_cast<std::byte*>(reach.call.output) + pushed, bytes - pushed);
  }
}

// Each rank gives its part to all, block by block: what it has just read for the one is in cache for the next.
void push(Reach& reach) {
  const std::size_t part = reach.call.count * reach.size;
  const std::size_t own = static_cast<std::size_t>(reach.rank()) * part;
  const auto* const input = static_cast<const std::byte*>(reach.call.input);
  std::byte* const output = static_cast<std::byte*>(reach.call.output) + own;
  for (std::size_t first = 0; first < part; first += reach.block) {
    const std::size_t bytes = std::min(reach.block, part - first);
    if (input != output && part >= kStreamedPart) {
      copy_streaming(output + first, input + first, bytes);
    } else {
      copy_bytes(output + first, input + first, bytes);
    }
    for (int i = 1; i < reach.ranks(); ++i) {
      reach.put((reach.rank() + i) % reach.ranks(), input + first, own + first, bytes);
    }
  }
}

bool pushes_parts(const Reach& reach) {
  return reach.call.verb == Verb::all_gather && reach.call.count * reach.size > reach.block;
}

void pull(Reach& reach) {
  const Call& call = reach.call;
  const std::size_t part = call.count * reach.size;
  if (pushes_parts(reach)) return push(reach);
  const std::size_t own = static_cast<std::size_t>(reach.rank()) * part;
  auto* const output = static_cast<std::byte*>(call.output);
  if (call.verb == Verb::scatter) return reach.fetch(call.root, own, output, part);
  if (call.verb == Verb::gather && reach.rank() != call.root) return;
  for (int i = 1; i < reach.ranks(); ++i) {
    const int m = (reach.rank() + i) % reach.ranks();
    reach.fetch(m, call.verb == Verb::all_to_all ? own : 0, output + static_cast<std::size_t>(m) * part, part);
  }
  arrive(reach);
  reach.fetch(reach.rank(), call.verb == Verb::all_to_all ? own : 0, output + own, part);
}

// What the others have read and written of this rank's memory.
void note_moved(const Reach& reach) {
  const Call& call = reach.call;
  const bool is_root = reach.rank() == call.root;
  const std::size_t part = call.count * reach.size;
  const std::size_t parts = static_cast<std::size_t>(reach.ranks()) * part;
  const auto reads = [&](std::size_t bytes) {
    if (!reach.entry(reach.rank()).buffers.input_shared) reach.communicator.world->huge_pages.moved(call.input, bytes);
  };
  const auto writes = [&](std::size_t bytes) {
    if (!reach.entry(reach.rank()).buffers.output_shared)
      reach.communicator.world->huge_pages.moved(call.output, bytes);
  };
  switch (call.verb) {
    case Verb::all_reduce:
      reads(part);
      return writes(part);
    case Verb::reduce:
      return is_root ? writes(part) : reads(part);
    case Verb::broadcast:
      return is_root ? reads(part) : writes(part);
    case Verb::all_gather:
      return pushes_parts(reach) ? writes(parts) : reads(part);
    case Verb::gather:
      return is_root ? void() : reads(part);
    case Verb::scatter:
      return is_root ? reads(parts) : void();
    default:
      return reads(parts);
  }
}

}  // namespace

bool can_reach(const Communicator& communicator) {
  return std::all_of(communicator.blocks.begin(), communicator.blocks.end(), [&](const Block* block) {
    const auto& buffers = block->entries[communicator.sequence % kTurns].buffers;
    return buffers.may_map && buffers.may_reach;
  });
}

Waited run_remote(Communicator& communicator, const Call& call) {
  Reach reach{communicator, call, size_of(call.type), block_for(communicator.size())};
  switch (call.verb) {
    case Verb::all_reduce:
    case Verb::reduce:
      reduce_share(reach);
      break;
    case Verb::reduce_scatter:
      reduce_part(reach);
      break;
    case Verb::broadcast:
      broadcast(reach);
      break;
    default:
      pull(reach);
  }
  if (!reach.arrived) arrive(communicator);
  const Waited waited = await_others(communicator);
  if (waited == Waited::reached) note_moved(reach);
  return waited == Waited::reached && reach.failed ? Waited::aborted : waited;
}

}  // namespace twinpod::comm
