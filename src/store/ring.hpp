// Reads and writes of one file that go on in the kernel (io_uring), several at a time.
//
//     std::unique_ptr<Ring> ring = make_ring();          // nullptr: the kernel, or a container's rules, refuse it
//     ring->add({.fd = fd, .write = true, .offset = 0, .data = data, .bytes = 8 << 20});
//     const RingResult one = ring->wait_for_first();     // of those that are under way, the one that was added first
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

struct io_uring;

namespace twinpod::store {

struct RingMove {
  int fd = -1;
  bool write = false;
  std::int64_t offset = 0;
  std::byte* data = nullptr;  // only read from when it is a write
  std::size_t bytes = 0;
};

struct RingResult {
  RingMove move;
  std::size_t moved = 0;  // may be fewer than asked for
  int code = 0;           // an errno; 0: none
};

// Used by one thread at a time.
class Ring {
 public:
  explicit Ring(std::unique_ptr<io_uring> ring);
  ~Ring();  // REQUIRES: nothing is under way
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // An errno; 0: it is under way. REQUIRES: fewer than kRingDepth are.
  int add(const RingMove& move);
  std::size_t under_way() const { return moves_.size(); }
  // REQUIRES: something is under way.
  RingResult wait_for_first();

 private:
  struct Slot {
    std::uint64_t number = 0;
    RingMove move;
    bool done = false;
    int result = 0;
  };
  std::unique_ptr<io_uring> ring_;
  std::deque<Slot> moves_;
  std::uint64_t next_number_ = 0;
};

inline constexpr unsigned kRingDepth = 16;

std::unique_ptr<Ring> make_ring();

}  // namespace twinpod::store
