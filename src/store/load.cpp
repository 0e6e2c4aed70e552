#include "store/load.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/nearest.hpp"
#include "store/extents.hpp"
#include "store/safetensors.hpp"
#include "store/save.hpp"
#include "store/stream_copy.hpp"

namespace twinpod::store {
namespace {

constexpr std::int64_t kMaxManifestBytes = std::int64_t{1} << 32;

// Bytes of a shard that are wanted somewhere; never of two extents.
struct Copy {
  std::int64_t from = 0;
  std::int64_t count = 0;
  std::byte* to = nullptr;
};
using CopiesOfShards = std::vector<std::vector<Copy>>;

Result<const StoredTensor*> wanted_tensor(const Manifest& manifest, const WantedRegion& wanted) {
  const StoredTensor* tensor = find_tensor(manifest, wanted.tensor);
  if (tensor == nullptr) {
    std::vector<std::string> names;
    for (const StoredTensor& known : manifest.tensors) names.push_back(known.name);
    const std::string nearest = nearest_name(wanted.tensor, names);
    return input_error(fmt::format("the checkpoint has no tensor {}", wanted.tensor),
                       nearest.empty() ? "" : fmt::format("did you mean {}?", nearest));
  }
  if (tensor->dtype != wanted.dtype) {
    return input_error(fmt::format("tensor {} is {}, but {} was expected", wanted.tensor, tensor->dtype, wanted.dtype));
  }
  if (!lies_in(wanted.region, tensor->shape)) {
    return input_error(fmt::format("tensor {} {} has no region {}", wanted.tensor, to_string(tensor->shape),
                                   to_string(wanted.region)));
  }
  const std::int64_t bytes = num_elements(wanted.region.size) * element_bytes(wanted.dtype);
  if (static_cast<std::int64_t>(wanted.bytes.size()) != bytes) {
    return input_error(fmt::format("tensor {} {}: room for {} bytes, but it has {}", wanted.tensor,
                                   to_string(wanted.region), wanted.bytes.size(), bytes));
  }
  return tensor;
}

void add_copy(std::vector<Copy>& copies, Copy copy, std::int64_t extent_bytes) {
  while (copy.count > 0) {
    const std::int64_t count = std::min(copy.count, extent_bytes - copy.from % extent_bytes);
    copies.push_back({copy.from, count, copy.to});
    copy.from += count;
    copy.to += count;
    copy.count -= count;
  }
}

Result<void> plan_copies(const Manifest& manifest, const WantedRegion& wanted, CopiesOfShards& copies) {
  const Result<const StoredTensor*> tensor = wanted_tensor(manifest, wanted);
  if (!tensor) return tl::unexpected(tensor.error());
  const std::int64_t element = element_bytes(wanted.dtype);
  std::vector<Region> missing;
  if (!is_empty(wanted.region)) missing.push_back(wanted.region);
  for (const StoredRegion& stored : (*tensor)->regions) {
    if (missing.empty()) break;
    if (is_empty(stored.region)) continue;
    for (const Region& part : missing) {
      const std::optional<Region> common = overlap(part, stored.region);
      if (!common) continue;
      for_each_run(stored.region, wanted.region, *common, [&](const Run& run) {
        add_copy(copies[static_cast<std::size_t>(stored.shard)],
                 {stored.begin + run.source * element, run.count * element, wanted.bytes.data() + run.target * element},
                 manifest.extent_bytes);
      });
    }
    take_away(missing, stored.region);
  }
  if (missing.empty()) return {};
  return infeasible(
      fmt::format("the checkpoint lacks region {} of tensor {}", to_string(missing.front()), wanted.tensor));
}

// Copies of extents that follow each other are served by one read.
std::vector<ExtentRange> ranges_of(const std::vector<Copy>& copies, std::int64_t extent) {
  const std::int64_t most = extents_at_once(extent);
  std::vector<ExtentRange> ranges;
  for (const Copy& copy : copies) {
    const std::int64_t number = copy.from / extent;
    const bool joins =
        !ranges.empty() && number <= ranges.back().first + ranges.back().count && number < ranges.back().first + most;
    if (!joins) ranges.push_back({number, 0});
    ranges.back().count = number - ranges.back().first + 1;
  }
  return ranges;
}

Result<std::int64_t> read_copies(Files& files, const File& file, const Manifest& manifest, const Shard& shard,
                                 std::vector<Copy>& copies) {
  const std::int64_t extent = manifest.extent_bytes;
  std::sort(copies.begin(), copies.end(), [](const Copy& a, const Copy& b) { return a.from < b.from; });
  std::int64_t bytes_read = 0;
  auto next = copies.begin();
  const OnExtents take = [&](const ExtentRange& range, std::span<const std::byte> bytes) -> Result<void> {
    bytes_read += static_cast<std::int64_t>(bytes.size());
    for (; next != copies.end() && next->from / extent < range.first + range.count; ++next) {
      stream_copy(next->to, bytes.data() + (next->from - range.first * extent), static_cast<std::size_t>(next->count));
    }
    return {};
  };
  const Result<void> read = read_ranges(files, file, manifest, shard, ranges_of(copies, extent), take);
  if (!read) return tl::unexpected(read.error());
  return bytes_read;
}

Result<std::int64_t> load_shard(Files& files, const std::string& folder, const Manifest& manifest, const Shard& shard,
                                std::vector<Copy>& copies) {
  const Result<File> file = files.open(folder + "/" + shard.file);
  if (!file) return tl::unexpected(file.error());
  Result<std::int64_t> read = read_copies(files, *file, manifest, shard, copies);
  const Result<void> closed = files.close(*file);
  if (read && !closed) return tl::unexpected(closed.error());
  return read;
}

Result<void> verify_open_shard(Files& files, const File& file, const Manifest& manifest, const Shard& shard) {
  const Result<std::int64_t> size = files.size(file);
  if (!size) return tl::unexpected(size.error());
  if (*size != shard.bytes) {
    Error error{
        ErrorKind::infeasible, fmt::format("has {} bytes, {} were written", *size, shard.bytes), "", file.path, 0, 0};
    return tl::unexpected(std::move(error));
  }
  return read_ranges(files, file, manifest, shard, all_extents(manifest, shard),
                     [](const ExtentRange&, std::span<const std::byte>) { return Result<void>(); });
}

}  // namespace

Result<Bytes> read_manifest_bytes(Files& files, const std::string& folder) {
  return read_whole(files, fmt::format("{}/{}", folder, kManifestFile), kMaxManifestBytes);
}

Result<Manifest> read_manifest(Files& files, const std::string& folder) {
  const Result<Bytes> bytes = read_manifest_bytes(files, folder);
  if (!bytes) return tl::unexpected(bytes.error());
  return parse_manifest(text_of(*bytes), fmt::format("{}/{}", folder, kManifestFile));
}

Result<std::int64_t> load_regions(Files& files, const std::string& folder, const Manifest& manifest,
                                  const std::vector<WantedRegion>& wanted) {
  CopiesOfShards copies(manifest.shards.size());
  for (const WantedRegion& region : wanted) {
    if (Result<void> planned = plan_copies(manifest, region, copies); !planned) return tl::unexpected(planned.error());
  }
  std::int64_t bytes_read = 0;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    if (copies[i].empty()) continue;
    const Result<std::int64_t> read = load_shard(files, folder, manifest, manifest.shards[i], copies[i]);
    if (!read) return read;
    bytes_read += *read;
  }
  return bytes_read;
}

Result<Manifest> verify_checkpoint(Files& files, const std::string& folder) {
  Result<Manifest> manifest = read_manifest(files, folder);
  if (!manifest) return manifest;
  for (const Shard& shard : manifest->shards) {
    const Result<File> file = files.open(folder + "/" + shard.file);
    if (!file) return tl::unexpected(file.error());
    const Result<void> good = verify_open_shard(files, *file, *manifest, shard);
    const Result<void> closed = files.close(*file);
    if (!good) return tl::unexpected(good.error());
    if (!closed) return tl::unexpected(closed.error());
  }
  return manifest;
}

}  // namespace twinpod::store
