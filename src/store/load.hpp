// Loading regions of a checkpoint, whatever regions it was saved in.
//
//     Result<Manifest> manifest = read_manifest(files, folder);
//     std::vector<WantedRegion> wanted = {{"layers.0.w", "F32", {{0, 0}, {4, 6}},
//     std::as_writable_bytes(std::span(w))}}; Result<std::int64_t> bytes_read = load_regions(files, folder, *manifest,
//     wanted);
//
// Only the extents that hold wanted elements are read, and each is checked before a byte of it is used. After an error
// the wanted regions hold anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "store/files.hpp"
#include "store/manifest.hpp"

namespace twinpod::store {

struct WantedRegion {
  std::string tensor;
  std::string dtype;  // must be that of the checkpoint: nothing is converted
  Region region;
  std::span<std::byte> bytes;  // where to, in row-major order of the region
};

Result<Bytes> read_manifest_bytes(Files& files, const std::string& folder);
Result<Manifest> read_manifest(Files& files, const std::string& folder);

// How many bytes were read.
Result<std::int64_t> load_regions(Files& files, const std::string& folder, const Manifest& manifest,
                                  const std::vector<WantedRegion>& wanted);

// Every byte of every file. An error names the file and the extent.
Result<Manifest> verify_checkpoint(Files& files, const std::string& folder);

}  // namespace twinpod::store
