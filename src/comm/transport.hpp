// The seam between ranks: how a message gets from one to another.
//
// A transport moves messages and knows nothing of collectives. There are two: ranks of one machine (threads or
// processes, over shared memory; local_transport.cpp) and MPI (mpi_plugin.cpp, loaded only when it is needed).
//
//     Message message{.sends = true, .peer = 3, .context = group, .tag = 7, .data = buffer, .bytes = 4096};
//     transport.post(transport.state, message);
//     while (!message.done) transport.progress(transport.state);
//
// Messages between two ranks with the same context and tag arrive in the order in which they were posted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace twinpod::comm {

// REQUIRES: stays where it is, and its data too, until it is done or taken back.
struct Message {
  bool sends = false;
  int peer = 0;               // rank of the run
  std::uint64_t context = 0;  // a group; the upper bit is set inside a collective
  int tag = 0;
  void* data = nullptr;
  std::size_t bytes = 0;
  std::size_t arrived = 0;  // receive: how long the message was, once it is done; more than bytes: cut off
  bool streams = false;     // part of more than the caches hold: goes past them, however short it is
  bool helps = true;        // the sender in copying; it may have better to do
  bool awaited = false;     // the sender does nothing else until it is done, so that it can help with short ones, too
  std::atomic<bool> done = false;
  // The transport's own.
  std::size_t moved = 0;
  std::uint32_t slot = 0;
  void* native = nullptr;
};

inline constexpr std::uint64_t kCollectiveContext = std::uint64_t{1} << 63U;

// A member function may be called by several threads at once.
struct Transport {
  void* state = nullptr;
  void (*post)(void* state, Message& message) = nullptr;
  void (*progress)(void* state) = nullptr;  // moves what can be moved now
  void (*rest)(void* state) = nullptr;      // sleeps until something may have moved, a few milliseconds at most
  void (*take_back)(void* state, Message& message) = nullptr;  // forgets a message that never got done
  void (*close)(void* state) = nullptr;
};

struct Segment;
class HugePages;
// may_reach: the kernel lets the ranks read each other's memory. huge_pages: who is told what it has moved, if anybody;
// must outlive the transport.
Transport local_transport(const Segment& segment, int rank, bool may_reach, HugePages* huge_pages = nullptr);

}  // namespace twinpod::comm
