#include "store/files.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace twinpod::store {
namespace {

// What follows an error must not hide it.
Result<void> close_after(Files& files, const File& file, const Result<void>& done) {
  Result<void> closed = files.close(file);
  return done ? closed : done;
}

}  // namespace

Result<void> Files::put(const std::string& path, std::span<const std::byte> /*bytes*/) {
  return io_error(path, "put", ENOTSUP);
}

Result<void> Files::begin_write(const File& file, std::int64_t offset, std::span<const std::byte> bytes) {
  return write_all(*this, file, offset, bytes);
}

Result<void> Files::begin_read(const File& file, std::int64_t offset, std::span<std::byte> bytes) {
  return read_all(*this, file, offset, bytes);
}

Result<void> Files::wait(const File& /*file*/, std::size_t /*left*/) { return {}; }

Result<std::int64_t> Files::modified_s(const std::string& /*path*/) { return 0; }

Result<Locked> Files::lock(const std::string& /*path*/) { return Locked{}; }

tl::unexpected<Error> io_error(const std::string& path, std::string_view what, int code) {
  Error error;
  error.kind = ErrorKind::infeasible;
  error.file = path;
  error.message = fmt::format("cannot be {}: {}", what, std::strerror(code));
  return tl::unexpected<Error>(std::move(error));
}

Result<void> write_all(Files& files, const File& file, std::int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const Result<std::size_t> written = files.write(file, offset, bytes);
    if (!written) return tl::unexpected(written.error());
    if (*written == 0) return io_error(file.path, "written", EIO);
    bytes = bytes.subspan(*written);
    offset += static_cast<std::int64_t>(*written);
  }
  return {};
}

Result<void> read_all(Files& files, const File& file, std::int64_t offset, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const Result<std::size_t> got = files.read(file, offset, bytes);
    if (!got) return tl::unexpected(got.error());
    if (*got == 0) {
      Error error{ErrorKind::infeasible,
                  fmt::format("ends at byte {}, {} more were expected", offset, bytes.size()),
                  "",
                  file.path,
                  0,
                  0};
      return tl::unexpected(std::move(error));
    }
    bytes = bytes.subspan(*got);
    offset += static_cast<std::int64_t>(*got);
  }
  return {};
}

Result<Bytes> read_whole(Files& files, const std::string& path, std::int64_t max_bytes) {
  const Result<File> file = files.open(path);
  if (!file) return tl::unexpected(file.error());
  Bytes bytes;
  const auto read = [&]() -> Result<void> {
    const Result<std::int64_t> size = files.size(*file);
    if (!size) return tl::unexpected(size.error());
    if (*size > max_bytes) return io_error(path, fmt::format("read, it has {} bytes", *size), EFBIG);
    bytes.resize(static_cast<std::size_t>(*size));
    return read_all(files, *file, 0, bytes);
  };
  if (Result<void> done = close_after(files, *file, read()); !done) return tl::unexpected(done.error());
  return bytes;
}

std::string path_while_written(const Files& files, const std::string& path) {
  return files.has_rename() ? path + std::string(kPartial) : path;
}

Result<void> give_name(Files& files, const std::string& path) {
  return files.has_rename() ? files.rename(path_while_written(files, path), path) : Result<void>();
}

Result<void> write_new_file(Files& files, const std::string& path, std::span<const std::byte> bytes) {
  if (!files.has_rename()) return files.put(path, bytes);
  const std::string temporary = path + std::string(kPartial);
  const Result<bool> left_over = files.exists(temporary);
  if (!left_over) return tl::unexpected(left_over.error());
  if (*left_over) {
    if (Result<void> removed = files.remove(temporary); !removed) return removed;
  }
  const Result<File> file = files.create(temporary);
  if (!file) return tl::unexpected(file.error());
  const auto write = [&]() -> Result<void> {
    if (Result<void> written = write_all(files, *file, 0, bytes); !written) return written;
    return files.sync(*file);
  };
  Result<void> done = close_after(files, *file, write());
  if (done) done = files.rename(temporary, path);
  if (!done) (void)files.remove(temporary);  // it takes room that the next one needs
  return done;
}

}  // namespace twinpod::store
