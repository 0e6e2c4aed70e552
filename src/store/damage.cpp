#include "store/damage.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "store/extents.hpp"
#include "store/load.hpp"
#include "store/safetensors.hpp"
#include "store/save.hpp"

namespace twinpod::store {
namespace {

constexpr std::size_t kNamedTensors = 4;

// A shard that is open, and where its damages go.
struct Look {
  Files& files;
  const Manifest& manifest;
  int shard;
  std::vector<Damage>& damages;
  const OnBytes& on_bytes;

  const Shard& of() const { return manifest.shards[static_cast<std::size_t>(shard)]; }
  void add(std::int64_t begin, std::int64_t end, std::int64_t extent, const std::string& problem) const {
    damages.push_back({of().file, begin, end, extent, problem, tensors_in(manifest, shard, begin, end)});
  }
};

void look_at_extents(const Look& look, const File& file, std::int64_t size) {
  const std::int64_t extent_bytes = look.manifest.extent_bytes;
  const std::int64_t end = std::min(size, look.of().bytes);
  const auto all = static_cast<std::int64_t>(look.of().checksums.size());
  const std::int64_t most = extents_at_once(extent_bytes);
  Bytes bytes;
  for (std::int64_t first = 0; first < all; first += most) {
    const std::int64_t count = std::min(most, all - first);
    const bool good = (first + count) * extent_bytes <= end || end == look.of().bytes
                          ? read_extents(look.files, file, look.manifest, look.of(), first, count, bytes).has_value()
                          : false;
    // One by one only where something is wrong.
    for (std::int64_t extent = first; !good && extent < first + count; ++extent) {
      const std::int64_t begin = extent * extent_bytes;
      if (begin >= end) break;  // the file's length says that
      const Result<void> read = read_extents(look.files, file, look.manifest, look.of(), extent, 1, bytes);
      if (!read) look.add(begin, std::min(look.of().bytes, begin + extent_bytes), extent, "are damaged");
    }
    if (look.on_bytes) look.on_bytes(std::min(look.of().bytes - first * extent_bytes, count * extent_bytes));
  }
}

void look_at_shard(const Look& look, const std::string& folder) {
  const Result<File> file = look.files.open(folder + "/" + look.of().file);
  if (!file) {
    look.add(0, look.of().bytes, -1, file.error().message);
    return;
  }
  const Result<std::int64_t> size = look.files.size(*file);
  if (!size) look.add(0, look.of().bytes, -1, size.error().message);
  if (size && *size != look.of().bytes) {
    look.add(std::min(*size, look.of().bytes), look.of().bytes, -1,
             fmt::format("has {} bytes, {} were written", *size, look.of().bytes));
  }
  if (size) look_at_extents(look, *file, *size);
  (void)look.files.close(*file);  // it was only read
}

}  // namespace

std::vector<std::string> tensors_in(const Manifest& manifest, int shard, std::int64_t begin, std::int64_t end) {
  std::vector<std::string> names;
  for (const StoredTensor& tensor : manifest.tensors) {
    const bool hit = std::any_of(tensor.regions.begin(), tensor.regions.end(), [&](const StoredRegion& stored) {
      const std::int64_t bytes = num_elements(stored.region.size) * element_bytes(tensor.dtype);
      return stored.shard == shard && stored.begin < end && begin < stored.begin + bytes;
    });
    if (hit) names.push_back(tensor.name);
  }
  return names;
}

std::string to_string(const Damage& damage) {
  const std::string place =
      damage.extent < 0 ? "" : fmt::format("bytes {} to {} (extent {}) ", damage.begin, damage.end - 1, damage.extent);
  std::string text = fmt::format("{}: {}{}", damage.file, place, damage.problem);
  for (std::size_t i = 0; i < std::min(damage.tensors.size(), kNamedTensors); ++i) {
    text += (i == 0 ? ", of " : ", ") + damage.tensors[i];
  }
  if (damage.tensors.size() > kNamedTensors) text += fmt::format(" and {} more", damage.tensors.size() - kNamedTensors);
  return text;
}

std::vector<Damage> find_damages(Files& files, const std::string& folder, const OnBytes& on_bytes) {
  std::vector<Damage> damages;
  const Result<Manifest> manifest = read_manifest(files, folder);
  if (!manifest) {
    damages.push_back({std::string(kManifestFile), 0, 0, -1, manifest.error().message, {}});
    return damages;
  }
  for (std::size_t i = 0; i < manifest->shards.size(); ++i) {
    look_at_shard({files, *manifest, static_cast<int>(i), damages, on_bytes}, folder);
  }
  return damages;
}

}  // namespace twinpod::store
