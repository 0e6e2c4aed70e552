#include "store/extents.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "store/aligned.hpp"
#include "store/checksum.hpp"

namespace twinpod::store {
namespace {

std::size_t bytes_in(const Manifest& manifest, const Shard& shard, const ExtentRange& range) {
  const std::int64_t begin = range.first * manifest.extent_bytes;
  return static_cast<std::size_t>(std::min(shard.bytes, (range.first + range.count) * manifest.extent_bytes) - begin);
}

Result<void> check_extents(const File& file, const Manifest& manifest, const Shard& shard, const ExtentRange& range,
                           std::span<const std::byte> bytes) {
  const auto extent = static_cast<std::size_t>(manifest.extent_bytes);
  for (std::size_t i = 0; i < static_cast<std::size_t>(range.count); ++i) {
    const std::span<const std::byte> one = bytes.subspan(i * extent, std::min(extent, bytes.size() - i * extent));
    const std::uint64_t wanted = shard.checksums[static_cast<std::size_t>(range.first) + i];
    const std::uint64_t found = checksum(one);
    if (found == wanted) continue;
    const std::int64_t begin = (range.first + static_cast<std::int64_t>(i)) * manifest.extent_bytes;
    Error error{ErrorKind::infeasible,
                fmt::format("is damaged: bytes {} to {} have the checksum {:016x}, {:016x} was written", begin,
                            begin + static_cast<std::int64_t>(one.size()) - 1, found, wanted),
                "",
                file.path,
                0,
                0};
    return tl::unexpected(std::move(error));
  }
  return {};
}

}  // namespace

std::int64_t extents_at_once(std::int64_t extent_bytes) { return std::max<std::int64_t>(1, kMoveBytes / extent_bytes); }

std::vector<ExtentRange> all_extents(const Manifest& manifest, const Shard& shard) {
  const auto all = static_cast<std::int64_t>(shard.checksums.size());
  const std::int64_t most = extents_at_once(manifest.extent_bytes);
  std::vector<ExtentRange> ranges;
  for (std::int64_t first = 0; first < all; first += most) ranges.push_back({first, std::min(most, all - first)});
  return ranges;
}

Result<void> read_ranges(Files& files, const File& file, const Manifest& manifest, const Shard& shard,
                         const std::vector<ExtentRange>& ranges, const OnExtents& body) {
  const auto capacity = static_cast<std::size_t>(extents_at_once(manifest.extent_bytes) * manifest.extent_bytes);
  std::array<AlignedBytes, kMovesInFlight> buffers;
  std::size_t begun = 0;
  Result<void> done;
  for (std::size_t i = 0; done && i < ranges.size(); ++i) {
    for (; done && begun < ranges.size() && begun < i + buffers.size(); ++begun) {
      AlignedBytes& buffer = buffers[begun % buffers.size()];
      if (buffer.size() == 0) buffer = AlignedBytes(std::min(capacity, static_cast<std::size_t>(shard.bytes)));
      done = files.begin_read(file, ranges[begun].first * manifest.extent_bytes,
                              buffer.first(bytes_in(manifest, shard, ranges[begun])));
    }
    if (done) done = files.wait(file, begun - i - 1);
    if (!done) break;
    const std::span<const std::byte> bytes = buffers[i % buffers.size()].first(bytes_in(manifest, shard, ranges[i]));
    done = check_extents(file, manifest, shard, ranges[i], bytes);
    if (done) done = body(ranges[i], bytes);
  }
  const Result<void> rest = files.wait(file, 0);  // before the buffers go
  return done ? rest : done;
}

Result<void> read_extents(Files& files, const File& file, const Manifest& manifest, const Shard& shard,
                          std::int64_t first, std::int64_t count, Bytes& bytes) {
  const ExtentRange range{first, count};
  bytes.resize(bytes_in(manifest, shard, range));
  if (Result<void> read = read_all(files, file, first * manifest.extent_bytes, bytes); !read) return read;
  return check_extents(file, manifest, shard, range, bytes);
}

}  // namespace twinpod::store
