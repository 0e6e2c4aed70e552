// Extents: the parts of a shard that have a checksum each. They are read whole or not at all.
#pragma once

#include <cstdint>

#include "store/files.hpp"
#include "store/manifest.hpp"

namespace twinpod::store {

// Bytes of one read or write, rounded to extents: long enough for a disk, short enough for a cache.
inline constexpr std::int64_t kMoveBytes = 8 << 20;
// At least one.
std::int64_t extents_at_once(std::int64_t extent_bytes);

// Reads extents first to first + count - 1 of a shard and checks them. The error names the file and the bytes.
Result<void> read_extents(Files& files, const File& file, const Manifest& manifest, const Shard& shard,
                          std::int64_t first, std::int64_t count, Bytes& bytes);

}  // namespace twinpod::store
