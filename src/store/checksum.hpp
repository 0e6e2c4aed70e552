// The checksum of the store: XXH3, 64 bits, seed 0 (https://xxhash.com). Changed bytes get past it once in 2^64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace twinpod::store {

std::uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace twinpod::store
