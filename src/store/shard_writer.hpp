// Writes a shard's bytes one behind the other, in long writes, with a checksum for each extent.
//
//     ShardWriter writer(files, file, kExtentBytes);
//     writer.add(header);
//     writer.add(elements);
//     writer.finish();                                   // it is on the disk
//     writer.checksums();
//
// After an error the file is given up.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "store/aligned.hpp"
#include "store/extents.hpp"
#include "store/files.hpp"
#include "store/manifest.hpp"

namespace twinpod::store {

class ShardWriter {
 public:
  ShardWriter(Files& files, File file, std::int64_t extent_bytes);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  Result<void> add(std::span<const std::byte> bytes);
  Result<void> finish();

  std::int64_t bytes() const { return begun_ + static_cast<std::int64_t>(filled_); }
  std::vector<std::uint64_t>& checksums() { return checksums_; }

 private:
  Result<void> fill(std::span<const std::byte>& bytes);
  Result<void> flush();

  Files& files_;
  File file_;
  std::size_t extent_;
  std::size_t capacity_;
  // One is filled while the others are on their way.
  std::array<AlignedBytes, kMovesInFlight> buffers_;
  std::size_t current_ = 0;
  std::size_t filled_ = 0;  // of the current one
  std::size_t summed_ = 0;  // of those, have their checksums
  std::int64_t begun_ = 0;  // bytes that were given to be written
  std::vector<std::uint64_t> checksums_;
};

// Makes the file `path`, lets `fill` add its bytes and gives it its name; durable when it returns.
Result<Shard> write_shard_file(Files& files, const std::string& folder, const std::string& file,
                               std::int64_t extent_bytes, const std::function<Result<void>(ShardWriter&)>& fill);

}  // namespace twinpod::store
