// Groups of ranks, and memory that local ranks share.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <set>

#include "comm/mpi_transport.hpp"
#include "comm/world.hpp"

namespace twinpod::comm {
namespace {

struct Wish {
  int color = 0;
  int key = 0;
};

Result<std::vector<Wish>> all_wishes(Communicator& parent, Wish own) {
  std::vector<Wish> wishes(parent.members.size());
  const Result<void> gathered = run(
      parent, {.verb = Verb::all_gather, .input = &own, .output = wishes.data(), .count = 2, .type = ElementType::i32});
  if (!gathered) return tl::unexpected(gathered.error());
  return wishes;
}

// The number of the first of `count` new groups, the same on all ranks of the parent.
Result<std::int32_t> new_groups(Communicator& parent, int count) {
  World& world = *parent.world;
  std::int32_t first = 0;
  const bool counts = !world.local || parent.rank == 0;
  if (counts && world.local)
    first = static_cast<std::int32_t>(header_of(world.segment).num_groups.fetch_add(static_cast<std::uint32_t>(count)));
  if (counts && !world.local) first = world.next_group;
  const Result<void> agreed = run(parent, {.verb = Verb::all_reduce,
                                           .input = &first,
                                           .output = &first,
                                           .count = 1,
                                           .type = ElementType::i32,
                                           .op = ReduceOp::max});
  if (!agreed) return tl::unexpected(agreed.error());
  world.next_group = first + count;
  if (first + count > kMaxGroups) {
    return infeasible(fmt::format("group {} of a run: there can be {}", first + count, kMaxGroups),
                      "make groups once and keep them");
  }
  return first;
}

void enlist(const World& world, Communicator& made) {
  GroupState& group = group_of(world.segment, static_cast<int>(made.group));
  for (std::size_t i = 0; i < made.members.size(); ++i) {
    group.members[i] = static_cast<std::uint16_t>(made.members[i]);
    made.blocks.push_back(&block_of(world.segment, static_cast<int>(made.group), made.members[i]));
  }
  group.size = made.size();
}

void delete_group(Communicator* communicator) {
  if (communicator == nullptr) return;
  communicator->worker.reset();
  if (communicator->native != nullptr) communicator->world->mpi->release(communicator->native);
  delete communicator;
}

}  // namespace

Result<Group> split(Communicator& communicator, int color, int key) {
  const Result<std::vector<Wish>> wishes = all_wishes(communicator, {color, key});
  if (!wishes) return tl::unexpected(wishes.error());
  std::set<int> colors;
  for (const Wish& wish : *wishes) {
    if (wish.color >= 0) colors.insert(wish.color);
  }
  const Result<std::int32_t> first = new_groups(communicator, static_cast<int>(colors.size()));
  if (!first) return tl::unexpected(first.error());
  World& world = *communicator.world;
  void* const native = world.mpi == nullptr ? nullptr : world.mpi->split(communicator.native, color, key);
  if (color < 0) return Group(nullptr, delete_group);
  std::vector<int> order;
  for (int m = 0; m < communicator.size(); ++m) {
    if ((*wishes)[static_cast<std::size_t>(m)].color == color) order.push_back(m);
  }
  const auto key_of = [&](int m) { return (*wishes)[static_cast<std::size_t>(m)].key; };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key_of(a) < key_of(b); });
  Group made(new Communicator{.world = &world}, delete_group);
  made->group = static_cast<std::uint32_t>(*first + std::distance(colors.begin(), colors.find(color)));
  made->native = native;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] == communicator.rank) made->rank = static_cast<int>(i);
    made->members.push_back(communicator.members[static_cast<std::size_t>(order[i])]);
  }
  if (world.local) enlist(world, *made);
  return made;
}

namespace {

constexpr std::size_t kPage = 4096;

std::size_t up_to(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// First fit in the rank's arena; whole pages, so that what is released can be given back. From two huge pages on in
// huge pages, where the kernel has them: products read and write them faster.
Result<void*> allocate_shared(World& world, std::size_t bytes) {
  const bool large = bytes >= 2 * HugePages::kBytes;
  const std::size_t unit = large ? HugePages::kBytes : kPage;
  const std::size_t needed = up_to(std::max<std::size_t>(bytes, 1), unit);
  const auto fits = [&](const auto& hole) { return up_to(hole.first, unit) + needed <= hole.first + hole.second; };
  const auto hole = std::find_if(world.free_memory.begin(), world.free_memory.end(), fits);
  if (hole == world.free_memory.end()) {
    return infeasible(fmt::format("rank {}: {} bytes of shared memory: an arena has {}", world.rank, bytes,
                                  world.segment.arena_bytes));
  }
  const auto [begin, room] = *hole;
  const std::size_t offset = up_to(begin, unit);
  const std::size_t end = begin + room;
  world.free_memory.erase(hole);
  if (offset > begin) world.free_memory[begin] = offset - begin;
  if (end > offset + needed) world.free_memory[offset + needed] = end - offset - needed;
  std::byte* const memory = arena_of(world.segment, world.rank) + offset;
  world.taken_memory[memory] = {needed, large && make_huge(memory, needed)};
  return memory;
}

void join_holes(std::map<std::size_t, std::size_t>& holes) {
  for (auto hole = holes.begin(); hole != holes.end();) {
    const auto next = std::next(hole);
    if (next == holes.end()) return;
    if (hole->first + hole->second == next->first) {
      hole->second += next->second;
      holes.erase(next);
    } else {
      hole = next;
    }
  }
}

}  // namespace

Result<void*> allocate(Communicator& communicator, std::size_t bytes) {
  World& world = *communicator.world;
  if (world.local && !world.segment.one_process) return allocate_shared(world, bytes);
  const std::size_t needed = (std::max<std::size_t>(bytes, 1) + kLine - 1) / kLine * kLine;
  void* const memory = std::aligned_alloc(kLine, needed);
  if (memory == nullptr) return infeasible(fmt::format("rank {}: no memory for {} bytes", world.rank, bytes));
  std::memset(memory, 0, needed);
  return memory;
}

void* allocate_huge(Communicator& communicator, std::size_t bytes) {
  World& world = *communicator.world;
  if (!world.local || world.segment.one_process) return nullptr;
  const Result<void*> memory = allocate_shared(world, bytes);
  if (!memory) return nullptr;
  if (world.taken_memory[*memory].huge) return *memory;
  release(communicator, *memory);
  return nullptr;
}

void release(Communicator& communicator, void* memory) {
  World& world = *communicator.world;
  const auto taken = world.taken_memory.find(memory);
  if (taken == world.taken_memory.end()) return std::free(memory);
  madvise(memory, taken->second.bytes, MADV_REMOVE);
  const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(memory) - arena_of(world.segment, world.rank));
  world.free_memory[offset] = taken->second.bytes;
  world.taken_memory.erase(taken);
  join_holes(world.free_memory);
}

}  // namespace twinpod::comm
