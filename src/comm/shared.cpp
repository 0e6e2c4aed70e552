#include "comm/shared.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "comm/huge_pages.hpp"

namespace twinpod::comm {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t up_to(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }
std::size_t in_pages(std::size_t bytes) { return up_to(bytes, kPage); }

std::size_t states_at() { return in_pages(sizeof(Header)); }
std::size_t groups_at(int ranks) { return states_at() + in_pages(sizeof(RankState) * static_cast<std::size_t>(ranks)); }

// A rank may share as much as the machine has; what it does not touch costs nothing. Threads share all they have.
std::size_t arena_bytes_of(bool one_process) {
  if (one_process) return 0;
  const long pages = sysconf(_SC_PHYS_PAGES);
  return up_to(static_cast<std::size_t>(std::max(pages, 1L << 18)) * kPage, HugePages::kBytes);
}

Segment laid_out(int ranks, bool one_process) {
  const auto n = static_cast<std::size_t>(ranks);
  Segment segment{.ranks = ranks, .one_process = one_process, .crowded = is_crowded(ranks)};
  segment.channels_at = groups_at(ranks) + in_pages(sizeof(GroupState) * kMaxGroups);
  segment.blocks_at = segment.channels_at + in_pages(sizeof(Channel)) * n * n;
  segment.arenas_at = up_to(segment.blocks_at + in_pages(sizeof(Block)) * n * kMaxGroups, HugePages::kBytes);
  segment.arena_bytes = arena_bytes_of(one_process);
  segment.bytes = segment.arenas_at + segment.arena_bytes * n;
  return segment;
}

tl::unexpected<Error> no_memory(const Segment& segment, const char* what) {
  return infeasible(fmt::format("shared memory for {} ranks: {} of {} bytes of address space failed: {}", segment.ranks,
                                what, segment.bytes, std::strerror(errno)),
                    "`ulimit -v unlimited` and `ulimit -f unlimited` lift the usual limits");
}

// Where a huge page can begin: a file's pages are huge only where offset and address agree.
void* map_aligned(int file, std::size_t bytes) {
  constexpr std::size_t kHuge = HugePages::kBytes;
  void* const reserved = mmap(nullptr, bytes + kHuge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return MAP_FAILED;
  auto* const first = static_cast<std::byte*>(reserved);
  const std::size_t before =
      up_to(reinterpret_cast<std::uintptr_t>(first), kHuge) - reinterpret_cast<std::uintptr_t>(first);
  void* const base =
      mmap(first + before, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file, 0);
  if (base == MAP_FAILED) {
    munmap(reserved, bytes + kHuge);
    return MAP_FAILED;
  }
  if (before > 0) munmap(first, before);
  const std::size_t end = before + in_pages(bytes);
  if (end < bytes + kHuge) munmap(first + end, bytes + kHuge - end);
  return base;
}

}  // namespace

Result<Segment> make_segment(int ranks, bool one_process) {
  if (ranks < 1 || ranks > kMaxLocalRanks) {
    return input_error(fmt::format("{} ranks on this machine: expected 1 to {}", ranks, kMaxLocalRanks),
                       "more ranks need more machines: mpirun");
  }
  Segment segment = laid_out(ranks, one_process);
  const int file = memfd_create("twinpod", MFD_CLOEXEC);
  if (file < 0) return no_memory(segment, "memfd_create");
  if (ftruncate(file, static_cast<off_t>(segment.bytes)) != 0) {
    close(file);
    return no_memory(segment, "ftruncate");
  }
  void* const base = map_aligned(file, segment.bytes);
  close(file);
  if (base == MAP_FAILED) return no_memory(segment, "mmap");
  madvise(base, segment.bytes, MADV_DONTDUMP);
  segment.base = static_cast<std::byte*>(base);
  header_of(segment).culprit = -1;
  header_of(segment).num_groups = 1;
  GroupState& all = group_of(segment, 0);
  for (int rank = 0; rank < ranks; ++rank)
    all.members[static_cast<std::size_t>(rank)] = static_cast<std::uint16_t>(rank);
  all.size = ranks;
  return segment;
}

void unmap_segment(const Segment& segment) { munmap(segment.base, segment.bytes); }

Header& header_of(const Segment& segment) { return *reinterpret_cast<Header*>(segment.base); }

RankState& state_of(const Segment& segment, int rank) {
  return reinterpret_cast<RankState*>(segment.base + states_at())[rank];
}

GroupState& group_of(const Segment& segment, int group) {
  return reinterpret_cast<GroupState*>(segment.base + groups_at(segment.ranks))[group];
}

Channel& channel_of(const Segment& segment, int from, int to) {
  const std::size_t index =
      static_cast<std::size_t>(from) * static_cast<std::size_t>(segment.ranks) + static_cast<std::size_t>(to);
  return *reinterpret_cast<Channel*>(segment.base + segment.channels_at + index * in_pages(sizeof(Channel)));
}

Block& block_of(const Segment& segment, int group, int rank) {
  const std::size_t index =
      static_cast<std::size_t>(group) * static_cast<std::size_t>(segment.ranks) + static_cast<std::size_t>(rank);
  return *reinterpret_cast<Block*>(segment.base + segment.blocks_at + index * in_pages(sizeof(Block)));
}

std::byte* arena_of(const Segment& segment, int rank) {
  return segment.base + segment.arenas_at + static_cast<std::size_t>(rank) * segment.arena_bytes;
}

bool is_shared(const Segment& segment, const void* address, std::size_t bytes) {
  if (segment.one_process || bytes == 0) return true;
  const auto* const first = static_cast<const std::byte*>(address);
  return first >= segment.base + segment.arenas_at && first + bytes <= segment.base + segment.bytes;
}

void start_clock(RankState& state) {
  state.first_ticks = now_ticks();
  state.first_ns = now_ns();
}

Operation in_nanoseconds(const RankState& state, const Operation& operation) {
  const auto elapsed_ticks = static_cast<double>(std::max<std::int64_t>(now_ticks() - state.first_ticks, 1));
  const double ns_per_tick = static_cast<double>(now_ns() - state.first_ns) / elapsed_ticks;
  const auto convert = [&](std::int64_t ticks) {
    return state.first_ns + static_cast<std::int64_t>(static_cast<double>(ticks - state.first_ticks) * ns_per_tick);
  };
  Operation converted = operation;
  converted.start_ns = convert(operation.start_ns);
  if (operation.end_ns != 0) converted.end_ns = convert(operation.end_ns);
  return converted;
}

Recording recording_of(const Segment& segment, double timeout_s) {
  Recording recording{.timeout_s = timeout_s, .now_ns = now_ns()};
  for (int rank = 0; rank < segment.ranks; ++rank) {
    const RankState& state = state_of(segment, rank);
    RankRecord record{.rank = rank, .status = static_cast<RankStatus>(state.status.load())};
    record.signal = state.signal;
    record.exit_status = state.exit_status;
    record.error = std::string(state.error.data(), strnlen(state.error.data(), state.error.size()));
    record.num_operations = state.num_operations;
    const std::uint64_t kept = std::min<std::uint64_t>(record.num_operations, kRecordedOperations);
    for (std::uint64_t i = record.num_operations - kept; i < record.num_operations; ++i) {
      record.operations.push_back(in_nanoseconds(state, state.operations[i % kRecordedOperations]));
    }
    recording.ranks.push_back(std::move(record));
  }
  const std::uint32_t num_groups = std::min<std::uint32_t>(header_of(segment).num_groups, kMaxGroups);
  for (std::uint32_t id = 0; id < num_groups; ++id) {
    const GroupState& group = group_of(segment, static_cast<int>(id));
    GroupRecord record{.id = id};
    for (int i = 0; i < group.size; ++i) record.members.push_back(group.members[static_cast<std::size_t>(i)]);
    recording.groups.push_back(std::move(record));
  }
  return recording;
}

}  // namespace twinpod::comm
