// The manifest of a checkpoint: what it holds, where, and the checksum of every extent of its files. docs/store.md has
// it byte for byte. A checkpoint without a good manifest is none.
//
//     Result<Manifest> manifest = parse_manifest(text, "runs/a/checkpoint-000012/manifest.json");
//     manifest->state.step;
//
// A rank's part of a checkpoint is a manifest, too, with the one shard that it wrote; joined_manifest() makes one of
// all.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "store/region.hpp"

namespace twinpod::store {

inline constexpr int kManifestVersion = 1;
inline constexpr std::int64_t kExtentBytes = 1 << 20;

// What a run needs besides tensors.
struct TrainingState {
  std::int64_t step = 0;                      // steps that are done
  std::int64_t samples = 0;                   // that were drawn: the next one has this number
  std::map<std::string, std::string> random;  // state of each random generator, any bytes
  std::map<std::string, std::string> values;  // anything else, as text: learning rate, loss scale, layout, ...
  bool operator==(const TrainingState&) const = default;
};

// A file of tensors, in extents of the same length; the last may be shorter.
struct Shard {
  std::string file;  // in the checkpoint's folder
  std::int64_t bytes = 0;
  std::vector<std::uint64_t> checksums;  // of its extents
  bool operator==(const Shard&) const = default;
};

struct StoredRegion {
  int shard = 0;
  Region region;
  std::int64_t begin = 0;  // its first byte in the file; its elements follow in row-major order
  bool operator==(const StoredRegion&) const = default;
};

struct StoredTensor {
  std::string name;
  std::string dtype;
  Dims shape;  // of the whole tensor
  std::vector<StoredRegion> regions;
  bool operator==(const StoredTensor&) const = default;
};

struct Manifest {
  std::int64_t number = 0;  // of the checkpoint: later ones have larger numbers
  std::int64_t extent_bytes = kExtentBytes;
  TrainingState state;
  std::vector<Shard> shards;
  std::vector<StoredTensor> tensors;  // by name
  bool operator==(const Manifest&) const = default;
};

std::int64_t total_bytes(const Manifest& manifest);
std::int64_t num_extents(std::int64_t bytes, std::int64_t extent_bytes);
// nullptr: there is none.
const StoredTensor* find_tensor(const Manifest& manifest, const std::string& name);

std::string to_text(const Manifest& manifest);

// Of the format, when the text is that of a manifest of another version than ours, and not of ours with a bit that was
// flipped there; 0: it is not.
std::int64_t other_version(std::string_view text);

// Every byte of the text is covered by a checksum in it. `path` is for messages.
Result<Manifest> parse_manifest(std::string_view text, const std::string& path);

// Number and state are the first part's. Refused when parts disagree about a tensor, or a tensor is not held
// completely.
Result<Manifest> joined_manifest(const std::vector<Manifest>& parts);

}  // namespace twinpod::store
