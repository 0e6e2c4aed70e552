// Large messages that stay where they are and are copied by both ends, block by block: twice as fast as by one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "comm/shared.hpp"

namespace twinpod::comm {

inline constexpr std::size_t kPickupBlock = std::size_t{128} << 10U;
inline constexpr std::size_t kSharedFrom = 4 * kPickupBlock;  // from here on, the sender helps copying

inline std::uint32_t num_blocks(std::size_t bytes) {
  return static_cast<std::uint32_t>((bytes + kPickupBlock - 1) / kPickupBlock);
}

// Copies blocks that nobody else has begun. A copy that fails leaves its block for ever uncopied.
template <typename Copy>
void copy_blocks(Pickup& pickup, std::size_t total, const Copy& copy) {
  const std::uint32_t blocks = num_blocks(total);
  while (pickup.next.load(std::memory_order_relaxed) < blocks) {
    const std::uint32_t block = pickup.next.fetch_add(1, std::memory_order_relaxed);
    if (block >= blocks) return;
    const std::size_t first = block * kPickupBlock;
    if (!copy(first, std::min(kPickupBlock, total - first))) return;
    pickup.copied.fetch_add(1, std::memory_order_release);
  }
}

}  // namespace twinpod::comm
