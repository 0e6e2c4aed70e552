#include "store/extents.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "store/checksum.hpp"

namespace twinpod::store {

std::int64_t extents_at_once(std::int64_t extent_bytes) { return std::max<std::int64_t>(1, kMoveBytes / extent_bytes); }

Result<void> read_extents(Files& files, const File& file, const Manifest& manifest, const Shard& shard,
                          std::int64_t first, std::int64_t count, Bytes& bytes) {
  const std::int64_t begin = first * manifest.extent_bytes;
  const std::int64_t end = std::min(shard.bytes, (first + count) * manifest.extent_bytes);
  bytes.resize(static_cast<std::size_t>(end - begin));
  if (Result<void> read = read_all(files, file, begin, bytes); !read) return read;
  const auto extent = static_cast<std::size_t>(manifest.extent_bytes);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const std::size_t at = i * extent;
    const auto number = static_cast<std::size_t>(first) + i;
    const std::uint64_t found = checksum(std::span(bytes).subspan(at, std::min(extent, bytes.size() - at)));
    if (found == shard.checksums[number]) continue;
    Error error{
        ErrorKind::infeasible,
        fmt::format("is damaged: bytes {} to {} have the checksum {:016x}, {:016x} was written",
                    begin + static_cast<std::int64_t>(at),
                    std::min(end, begin + static_cast<std::int64_t>(at + extent)) - 1, found, shard.checksums[number]),
        "",
        file.path,
        0,
        0};
    return tl::unexpected(std::move(error));
  }
  return {};
}

}  // namespace twinpod::store
