// Extents: the parts of a shard that have a checksum each. They are read whole or not at all.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "store/files.hpp"
#include "store/manifest.hpp"

namespace twinpod::store {

// Bytes of one read or write, rounded to extents: long enough for a disk, and short enough that those under way stay in
// the processor's cache, where they are copied and summed.
inline constexpr std::int64_t kMoveBytes = 2 << 20;
// At least one.
std::int64_t extents_at_once(std::int64_t extent_bytes);

// So many of those are under way at a time.
inline constexpr std::size_t kMovesInFlight = 4;

// Extents first to first + count - 1.
struct ExtentRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
// All of a shard, in ranges of one read each.
std::vector<ExtentRange> all_extents(const Manifest& manifest, const Shard& shard);

// Reads the ranges, several at a time, checks them and hands them on in their order. An error, of a read, a checksum or
// the body, ends it. REQUIRES: no range is longer than extents_at_once().
using OnExtents = std::function<Result<void>(const ExtentRange& range, std::span<const std::byte> bytes)>;
Result<void> read_ranges(Files& files, const File& file, const Manifest& manifest, const Shard& shard,
                         const std::vector<ExtentRange>& ranges, const OnExtents& body);

// Reads extents first to first + count - 1 of a shard and checks them. The error names the file and the bytes.
Result<void> read_extents(Files& files, const File& file, const Manifest& manifest, const Shard& shard,
                          std::int64_t first, std::int64_t count, Bytes& bytes);

}  // namespace twinpod::store
