#include "store/ring.hpp"

#include <liburing.h>

#include <algorithm>
#include <cerrno>

namespace twinpod::store {

Ring::Ring(std::unique_ptr<io_uring> ring) : ring_(std::move(ring)) {}

Ring::~Ring() { io_uring_queue_exit(ring_.get()); }

int Ring::add(const RingMove& move) {
  io_uring_sqe* entry = io_uring_get_sqe(ring_.get());
  if (entry == nullptr) return EBUSY;
  const auto bytes = static_cast<unsigned>(move.bytes);
  const auto offset = static_cast<std::uint64_t>(move.offset);
  if (move.write) {
    io_uring_prep_write(entry, move.fd, move.data, bytes, offset);
  } else {
    io_uring_prep_read(entry, move.fd, move.data, bytes, offset);
  }
  io_uring_sqe_set_data64(entry, next_number_);
  int submitted = io_uring_submit(ring_.get());
  while (submitted == -EINTR || submitted == -EAGAIN) submitted = io_uring_submit(ring_.get());
  if (submitted < 0) return -submitted;
  moves_.push_back({next_number_++, move});
  return 0;
}

RingResult Ring::wait_for_first() {
  while (!moves_.front().done) {
    io_uring_cqe* done = nullptr;
    if (io_uring_wait_cqe(ring_.get(), &done) != 0) continue;  // interrupted
    const std::uint64_t number = io_uring_cqe_get_data64(done);
    Slot& slot = moves_[static_cast<std::size_t>(number - moves_.front().number)];
    slot.done = true;
    slot.result = done->res;
    io_uring_cqe_seen(ring_.get(), done);
  }
  const Slot first = moves_.front();
  moves_.pop_front();
  if (first.result < 0) return {first.move, 0, -first.result};
  return {first.move, static_cast<std::size_t>(first.result), 0};
}

std::unique_ptr<Ring> make_ring() {
  auto ring = std::make_unique<io_uring>();
  if (io_uring_queue_init(kRingDepth, ring.get(), 0) != 0) return nullptr;
  return std::make_unique<Ring>(std::move(ring));
}

}  // namespace twinpod::store
