// Large messages that stay where they are and are copied by both ends, block by block: twice as fast as by one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "comm/shared.hpp"

namespace twinpod::comm {

// From here on, the sender helps copying; through the kernel a little later, because each block is a call of it: if the
// sender is not there, the receiver makes all the calls. Of a sender that waits it is known that it is there.
inline constexpr std::size_t kSharedFrom = std::size_t{128} << 10U;
inline constexpr std::size_t kSharedRemoteFrom = 2 * kSharedFrom;
inline constexpr std::size_t kAwaitedRemoteFrom = std::size_t{6} << 10U;

inline bool is_shared_work(std::size_t bytes, bool remote, bool awaited) {
  if (!remote) return bytes >= kSharedFrom;
  return bytes >= (awaited ? kAwaitedRemoteFrom : kSharedRemoteFrom);
}

// One for each end, as long as that lets both end at about the same time: a call of the kernel takes 1.6 us before it
// copies anything, as long as 24 KiB.
inline std::size_t pickup_block(std::size_t bytes) {
  constexpr std::size_t kMost = std::size_t{128} << 10U;
  constexpr std::size_t kPage = 4096;
  return std::min(kMost, (bytes / 2 + kPage - 1) / kPage * kPage);
}

inline std::uint32_t num_blocks(std::size_t bytes) {
  const std::size_t block = pickup_block(bytes);
  return static_cast<std::uint32_t>((bytes + block - 1) / block);
}

// Copies blocks that nobody else has begun. REQUIRES: is_shared_work. A copy that fails leaves its block
// for ever uncopied.
template <typename Copy>
void copy_blocks(Pickup& pickup, std::size_t total, const Copy& copy) {
  const std::size_t size = pickup_block(total);
  const std::uint32_t blocks = num_blocks(total);
  while (pickup.next.load(std::memory_order_relaxed) < blocks) {
    const std::uint32_t block = pickup.next.fetch_add(1, std::memory_order_relaxed);
    if (block >= blocks) return;
    const std::size_t first = block * size;
    if (!copy(first, std::min(size, total - first))) return;
    pickup.copied.fetch_add(1, std::memory_order_release);
  }
}

}  // namespace twinpod::comm
