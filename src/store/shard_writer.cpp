#include "store/shard_writer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "store/checksum.hpp"
#include "store/extents.hpp"

namespace twinpod::store {

ShardWriter::ShardWriter(Files& files, File file, std::int64_t extent_bytes)
    : files_(files),
      file_(std::move(file)),
      extent_(static_cast<std::size_t>(extent_bytes)),
      capacity_(extent_ * static_cast<std::size_t>(extents_at_once(extent_bytes))) {}

// The buffers must not go while they are being written; after an error nobody else has waited.
ShardWriter::~ShardWriter() { (void)files_.wait(file_, 0); }

Result<void> ShardWriter::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (Result<void> filled = fill(bytes); !filled) return filled;
    if (filled_ < capacity_) continue;
    if (Result<void> flushed = flush(); !flushed) return flushed;
  }
  return {};
}

// At most to the end of an extent, whose checksum is computed while it is still in the cache.
Result<void> ShardWriter::fill(std::span<const std::byte>& bytes) {
  AlignedBytes& buffer = buffers_[current_];
  if (buffer.size() == 0) buffer = AlignedBytes(capacity_);
  if (filled_ == 0) {
    if (Result<void> free = files_.wait(file_, buffers_.size() - 1); !free) return free;
  }
  const std::size_t count = std::min(bytes.size(), extent_ - (filled_ - summed_));
  std::memcpy(buffer.data() + filled_, bytes.data(), count);
  bytes = bytes.subspan(count);
  filled_ += count;
  if (filled_ - summed_ < extent_) return {};
  checksums_.push_back(checksum({buffer.data() + summed_, extent_}));
  summed_ = filled_;
  return {};
}

Result<void> ShardWriter::finish() {
  if (filled_ > summed_) checksums_.push_back(checksum({buffers_[current_].data() + summed_, filled_ - summed_}));
  if (Result<void> flushed = flush(); !flushed) return flushed;
  if (Result<void> written = files_.wait(file_, 0); !written) return written;
  return files_.sync(file_);
}

Result<void> ShardWriter::flush() {
  const std::size_t count = std::exchange(filled_, 0);
  summed_ = 0;
  if (count == 0) return {};
  Result<void> begun = files_.begin_write(file_, begun_, buffers_[current_].first(count));
  begun_ += static_cast<std::int64_t>(count);
  current_ = (current_ + 1) % buffers_.size();
  return begun;
}

Result<Shard> write_shard_file(Files& files, const std::string& folder, const std::string& file,
                               std::int64_t extent_bytes, const std::function<Result<void>(ShardWriter&)>& fill) {
  const std::string path = folder + "/" + file;
  const Result<File> opened = files.create(path_while_written(files, path));
  if (!opened) return tl::unexpected(opened.error());
  Shard shard{file, 0, {}};
  Result<void> written;
  {
    ShardWriter writer(files, *opened, extent_bytes);
    written = fill(writer);
    if (written) written = writer.finish();
    shard.bytes = writer.bytes();
    shard.checksums = std::move(writer.checksums());
  }
  const Result<void> closed = files.close(*opened);
  if (!written) return tl::unexpected(written.error());
  if (!closed) return tl::unexpected(closed.error());
  if (Result<void> named = give_name(files, path); !named) return tl::unexpected(named.error());
  if (Result<void> synced = files.sync_folder(folder); !synced) return tl::unexpected(synced.error());
  return shard;
}

}  // namespace twinpod::store
