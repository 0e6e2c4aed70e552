#include "store/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace twinpod::store {
namespace {

Result<void> check_complete(StoredTensor& tensor) {
  std::sort(tensor.regions.begin(), tensor.regions.end(), [](const StoredRegion& a, const StoredRegion& b) {
    return std::tuple(a.region.offset, a.region.size, a.shard) < std::tuple(b.region.offset, b.region.size, b.shard);
  });
  std::vector<Region> missing;
  if (num_elements(tensor.shape) > 0) missing.push_back(whole(tensor.shape));
  for (const StoredRegion& stored : tensor.regions) take_away(missing, stored.region);
  if (missing.empty()) return {};
  return input_error(fmt::format("tensor {} {}: no rank gave its region {}", tensor.name, to_string(tensor.shape),
                                 to_string(missing.front())),
                     "every element of a tensor must be saved by some rank");
}

Result<void> add_tensor(std::map<std::string, StoredTensor>& tensors, StoredTensor tensor, int first_shard) {
  for (StoredRegion& stored : tensor.regions) stored.shard += first_shard;
  const auto [found, is_new] = tensors.try_emplace(tensor.name, tensor);
  if (is_new) return {};
  StoredTensor& known = found->second;
  if (known.shape != tensor.shape || known.dtype != tensor.dtype) {
    return input_error(fmt::format("tensor {} is {} {} on one rank and {} {} on another", tensor.name, known.dtype,
                                   to_string(known.shape), tensor.dtype, to_string(tensor.shape)));
  }
  known.regions.insert(known.regions.end(), tensor.regions.begin(), tensor.regions.end());
  return {};
}

}  // namespace

std::int64_t total_bytes(const Manifest& manifest) {
  std::int64_t bytes = 0;
  for (const Shard& shard : manifest.shards) bytes += shard.bytes;
  return bytes;
}

std::int64_t num_extents(std::int64_t bytes, std::int64_t extent_bytes) {
  return bytes / extent_bytes + (bytes % extent_bytes == 0 ? 0 : 1);
}

const StoredTensor* find_tensor(const Manifest& manifest, const std::string& name) {
  const auto found = std::lower_bound(manifest.tensors.begin(), manifest.tensors.end(), name,
                                      [](const StoredTensor& tensor, const std::string& n) { return tensor.name < n; });
  return found == manifest.tensors.end() || found->name != name ? nullptr : &*found;
}

Result<Manifest> joined_manifest(const std::vector<Manifest>& parts) {
  Manifest joined;
  if (parts.empty()) return joined;
  joined.number = parts.front().number;
  joined.extent_bytes = parts.front().extent_bytes;
  joined.state = parts.front().state;
  std::set<std::string> files;
  std::map<std::string, StoredTensor> tensors;
  for (const Manifest& part : parts) {
    const int first_shard = static_cast<int>(joined.shards.size());
    if (part.extent_bytes != joined.extent_bytes) {
      return input_error(
          fmt::format("extents of {} bytes on one rank and of {} on another", joined.extent_bytes, part.extent_bytes));
    }
    for (const Shard& shard : part.shards) {
      if (!files.insert(shard.file).second) return input_error(fmt::format("two ranks wrote {}", shard.file));
      joined.shards.push_back(shard);
    }
    for (const StoredTensor& tensor : part.tensors) {
      if (Result<void> added = add_tensor(tensors, tensor, first_shard); !added) return tl::unexpected(added.error());
    }
  }
  for (auto& [name, tensor] : tensors) {
    if (Result<void> complete = check_complete(tensor); !complete) return tl::unexpected(complete.error());
    joined.tensors.push_back(std::move(tensor));
  }
  return joined;
}

}  // namespace twinpod::store
