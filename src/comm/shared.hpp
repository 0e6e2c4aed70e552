// The memory that the ranks of one machine share: who they are, what they do, and the places where they meet.
//
// It is one anonymous file (memfd), mapped before the ranks are forked: it has the same addresses in all of them, has
// no name in any file system, and is gone when the last rank is. It is much larger than what is used of it: pages that
// nobody touches cost nothing. Ranks that are threads of one process use the same memory.
//
//     header | a RankState for each rank | a GroupState for each group | a Channel for each pair of ranks
//            | a Block for each group and rank | an arena for each rank
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "comm/recording.hpp"
#include "comm/wait.hpp"
#include "core/error.hpp"

namespace twinpod::comm {

inline constexpr int kMaxLocalRanks = 256;
inline constexpr int kMaxGroups = 1024;
inline constexpr std::size_t kLine = 64;
inline constexpr int kRecordedOperations = 128;

// Written by its rank; `status`, `signal` and `exit_status` also by the launcher, when the rank cannot.
struct alignas(kLine) RankState {
  std::atomic<int> status = 0;  // a RankStatus
  std::atomic<int> signal = 0;
  std::atomic<int> exit_status = 0;
  std::atomic<int> pid = 0;
  alignas(kLine) WaitWord doorbell;  // rung when a message moves and the rank sleeps
  alignas(kLine) std::atomic<std::uint64_t> num_operations = 0;
  std::array<Operation, kRecordedOperations> operations;  // times in ticks
  std::int64_t first_ticks = 0;                           // the same moment on both clocks
  std::int64_t first_ns = 0;
  std::array<char, 2048> error;
};

struct GroupState {
  std::atomic<int> size = 0;
  std::array<std::uint16_t, kMaxLocalRanks> members;
};

// What a rank says when it enters operation `word.value` of a group. There are kTurns of them, used in turn: a rank
// enters operation s only when all have entered s - kTurns + 1, so nobody reads what s - kTurns left. So who waits for
// nobody, such as the root of a broadcast, may be a few operations ahead: the more, the fewer times ranks that share a
// core have to take turns. Contributions that do not fit into an entry have fewer turns, or they would not stay in
// cache.
inline constexpr std::uint32_t kTurns = 64;  // a power of two, because sequences wrap around
inline constexpr std::uint32_t kSmallTurns = 16;
inline constexpr std::size_t kEntryBytes = 1024;

// The buffers of a large operation.
struct EntryBuffers {
  const void* input;
  void* output;
  bool input_shared;
  bool output_shared;
  bool may_map;    // in place, an all_to_all overwrites what others still read
  bool may_reach;  // the kernel lets the rank read and write other ranks' memory
};

struct alignas(128) Entry {
  WaitWord word;
  std::uint64_t signature = 0;
  union {
    std::array<std::byte, kEntryBytes - 16> data;  // a small contribution lies beside the word
    EntryBuffers buffers;
  };
};
static_assert(sizeof(Entry) == kEntryBytes);

inline constexpr std::size_t kInlineBytes = std::size_t{32} << 10U;
inline constexpr std::size_t kWindowBytes = std::size_t{256} << 10U;

// Where a rank puts what the others of a group are to read.
struct Block {
  std::array<Entry, kTurns> entries;
  alignas(kLine) WaitWord stage;  // steps of long operations, counted on and on
  alignas(4096) std::array<std::array<std::byte, kInlineBytes>, kSmallTurns> small;
  alignas(4096) std::array<std::array<std::byte, kWindowBytes>, 2> windows;
};

// Messages from one rank to another: a ring of descriptors, and a ring of bytes for what does not fit into them.
inline constexpr std::uint32_t kDescriptors = 64;
inline constexpr std::uint32_t kRingBytes = std::uint32_t{1} << 18U;
inline constexpr std::size_t kInlineMessage = 32;

enum class Carrier : std::uint8_t { inlined, ring, pointer, remote };

// How a message that stays where it is gets copied: in blocks that receiver and sender take in turn, if both are there.
struct alignas(kLine) Pickup {
  std::atomic<std::uint32_t> taken = 0;  // 1: all of it was copied
  std::atomic<std::uint32_t> next = 0;   // block that nobody has begun
  std::atomic<std::uint32_t> copied = 0;
  std::atomic<void*> target = nullptr;  // where to, once the receiver is there; nullptr: the sender need not help
};

struct DescriptorPointer {
  const void* address;
  Pickup* pickup;
  bool awaited;  // by its sender
};

struct alignas(kLine) Descriptor {
  std::atomic<std::uint32_t> turn = 0;  // 1 + how many came before it, once it may be read
  std::uint32_t heard = 0;              // bytes of the other direction's ring that its sender has read
  std::uint64_t context = 0;            // the group, and whether it is part of a collective
  std::int32_t tag = 0;
  Carrier carrier = Carrier::inlined;
  bool restarts = false;    // its bytes begin at the ring's beginning, wherever those before ended
  std::uint16_t bytes = 0;  // of this descriptor
  std::uint64_t total = 0;  // of the message
  union {
    std::array<std::byte, kInlineMessage> data;
    DescriptorPointer pointer;
  };
};
static_assert(sizeof(Descriptor) == kLine);

struct Channel {
  alignas(kLine) std::atomic<std::uint32_t> descriptors_read = 0;
  std::atomic<std::uint32_t> bytes_read = 0;
  std::array<Pickup, 64> pickups;
  alignas(kLine) std::array<Descriptor, kDescriptors> descriptors;
  alignas(4096) std::array<std::byte, kRingBytes> ring;
};

struct alignas(kLine) Header {
  std::atomic<std::uint32_t> abort = 0;  // 1: somebody writes the failure, 2: it stands
  std::atomic<std::uint32_t> num_groups = 1;
  int culprit = -1;
  std::array<char, 4096> failure;
  std::uint64_t result_bytes = 0;
  const char* result = nullptr;  // rank 0's answer, in its arena
};

struct Segment {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  int ranks = 0;
  bool one_process = false;  // ranks are threads: every address is good everywhere
  bool crowded = false;      // more ranks than cores
  std::size_t channels_at = 0;
  std::size_t blocks_at = 0;
  std::size_t arenas_at = 0;
  std::size_t arena_bytes = 0;  // of one rank
};

// Ranks from 1 to kMaxLocalRanks.
Result<Segment> make_segment(int ranks, bool one_process);
void unmap_segment(const Segment& segment);

Header& header_of(const Segment& segment);
RankState& state_of(const Segment& segment, int rank);
GroupState& group_of(const Segment& segment, int group);
Channel& channel_of(const Segment& segment, int from, int to);
Block& block_of(const Segment& segment, int group, int rank);
std::byte* arena_of(const Segment& segment, int rank);

// Whether all ranks can read and write there.
bool is_shared(const Segment& segment, const void* address, std::size_t bytes);

// Operations of a rank, for the recorder. begin returns the number to end it with.
inline std::uint64_t begin_operation(RankState& state, const Operation& operation) {
  const std::uint64_t number = state.num_operations.fetch_add(1, std::memory_order_relaxed);
  Operation& record = state.operations[number % kRecordedOperations];
  record = operation;
  record.start_ns = now_ticks();
  record.end_ns = 0;
  return number;
}

inline void end_operation(RankState& state, std::uint64_t number) {
  // A later operation may stand in its place by now.
  if (state.num_operations.load(std::memory_order_relaxed) - number > kRecordedOperations) return;
  state.operations[number % kRecordedOperations].end_ns = now_ticks();
}

void start_clock(RankState& state);
// With its times in nanoseconds.
Operation in_nanoseconds(const RankState& state, const Operation& operation);

// What all ranks did last.
Recording recording_of(const Segment& segment, double timeout_s);

}  // namespace twinpod::comm
