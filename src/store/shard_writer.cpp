#include "store/shard_writer.hpp"

#include <algorithm>

#include "store/checksum.hpp"
#include "store/extents.hpp"

namespace twinpod::store {

ShardWriter::ShardWriter(Files& files, File file, std::int64_t extent_bytes)
    : files_(files),
      file_(std::move(file)),
      extent_(static_cast<std::size_t>(extent_bytes)),
      capacity_(extent_ * static_cast<std::size_t>(extents_at_once(extent_bytes))) {}

Result<void> ShardWriter::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), capacity_ - buffer_.size());
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
    bytes = bytes.subspan(count);
    if (buffer_.size() < capacity_) continue;
    if (Result<void> flushed = flush(); !flushed) return flushed;
  }
  return {};
}

Result<void> ShardWriter::finish() {
  if (Result<void> flushed = flush(); !flushed) return flushed;
  return files_.sync(file_);
}

Result<void> ShardWriter::flush() {
  const std::span<const std::byte> bytes(buffer_);
  for (std::size_t i = 0; i < bytes.size(); i += extent_) {
    checksums_.push_back(checksum(bytes.subspan(i, std::min(extent_, bytes.size() - i))));
  }
  Result<void> done = write_all(files_, file_, written_, bytes);
  written_ += static_cast<std::int64_t>(bytes.size());
  buffer_.clear();
  return done;
}

Result<Shard> write_shard_file(Files& files, const std::string& folder, const std::string& file,
                               std::int64_t extent_bytes, const std::function<Result<void>(ShardWriter&)>& fill) {
  const std::string path = folder + "/" + file;
  const Result<File> opened = files.create(path_while_written(files, path));
  if (!opened) return tl::unexpected(opened.error());
  ShardWriter writer(files, *opened, extent_bytes);
  Result<void> written = fill(writer);
  if (written) written = writer.finish();
  const Result<void> closed = files.close(*opened);
  if (!written) return tl::unexpected(written.error());
  if (!closed) return tl::unexpected(closed.error());
  if (Result<void> named = give_name(files, path); !named) return tl::unexpected(named.error());
  if (Result<void> synced = files.sync_folder(folder); !synced) return tl::unexpected(synced.error());
  return Shard{file, writer.bytes(), std::move(writer.checksums())};
}

}  // namespace twinpod::store
