// Large messages that stay where they are and are copied by both ends, block by block: twice as fast as by one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "comm/shared.hpp"

namespace twinpod::comm {

// From here on, the sender helps copying; through the kernel a little later, because each block is a call of it.
inline constexpr std::size_t kSharedFrom = std::size_t{128} << 10U;
inline constexpr std::size_t kSharedRemoteFrom = 2 * kSharedFrom;

// Four blocks at least, so that both ends have something to do, and none so short that taking it costs more than it.
inline std::size_t pickup_block(std::size_t bytes) {
  constexpr std::size_t kMost = std::size_t{128} << 10U;
  constexpr std::size_t kPage = 4096;
  return std::min(kMost, bytes / 4 / kPage * kPage);
}

inline std::uint32_t num_blocks(std::size_t bytes) {
  const std::size_t block = pickup_block(bytes);
  return static_cast<std::uint32_t>((bytes + block - 1) / block);
}

// Copies blocks that nobody else has begun. REQUIRES: at least kSharedFrom bytes. A copy that fails leaves its block
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
