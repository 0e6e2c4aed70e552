#include "store/posix_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

namespace twinpod::store {
namespace {

// Signals interrupt calls; one that was interrupted did nothing.
template <typename Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

Result<File> open_as(const std::string& path, int flags, std::string_view what) {
  const int id = uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); });
  if (id < 0) return io_error(path, what, errno);
  return File{id, path};
}

Result<void> done(bool good, const std::string& path, std::string_view what) {
  if (!good) return io_error(path, what, errno);
  return {};
}

}  // namespace

Result<File> PosixFiles::create(const std::string& path) {
  return open_as(path, O_WRONLY | O_CREAT | O_EXCL, "created");
}

Result<File> PosixFiles::open(const std::string& path) { return open_as(path, O_RDONLY, "opened"); }

// Not tried again after EINTR: Linux has closed it then, too.
Result<void> PosixFiles::close(const File& file) {
  return done(::close(file.id) == 0 || errno == EINTR, file.path, "closed");
}

Result<std::size_t> PosixFiles::write(const File& file, std::int64_t offset, std::span<const std::byte> bytes) {
  const ssize_t moved = uninterrupted([&] { return ::pwrite(file.id, bytes.data(), bytes.size(), offset); });
  if (moved < 0) return io_error(file.path, "written", errno);
  return static_cast<std::size_t>(moved);
}

Result<std::size_t> PosixFiles::read(const File& file, std::int64_t offset, std::span<std::byte> bytes) {
  const ssize_t moved = uninterrupted([&] { return ::pread(file.id, bytes.data(), bytes.size(), offset); });
  if (moved < 0) return io_error(file.path, "read", errno);
  return static_cast<std::size_t>(moved);
}

Result<std::int64_t> PosixFiles::size(const File& file) {
  struct stat status {};
  if (::fstat(file.id, &status) != 0) return io_error(file.path, "examined", errno);
  return static_cast<std::int64_t>(status.st_size);
}

// Not tried again, not even after EINTR: what a failed sync left out is not known.
Result<void> PosixFiles::sync(const File& file) {
  return done(::fsync(file.id) == 0, file.path, "brought to the disk");
}

Result<void> PosixFiles::sync_folder(const std::string& path) {
  const Result<File> folder = open_as(path, O_RDONLY | O_DIRECTORY, "opened");
  if (!folder) return tl::unexpected(folder.error());
  Result<void> synced = sync(*folder);
  Result<void> closed = close(*folder);
  return synced ? closed : synced;
}

Result<void> PosixFiles::rename(const std::string& from, const std::string& to) {
  return done(::rename(from.c_str(), to.c_str()) == 0, from, "renamed to " + to);
}

Result<void> PosixFiles::make_folder(const std::string& path) {
  return done(::mkdir(path.c_str(), 0777) == 0, path, "created");
}

Result<void> PosixFiles::remove(const std::string& path) {
  return done(std::remove(path.c_str()) == 0, path, "removed");
}

Result<std::vector<std::string>> PosixFiles::list(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), &::closedir);
  if (!folder) return io_error(path, "listed", errno);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  if (errno != 0) return io_error(path, "listed", errno);
  std::sort(names.begin(), names.end());
  return names;
}

Result<bool> PosixFiles::exists(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return true;
  if (errno == ENOENT) return false;
  return io_error(path, "examined", errno);
}

Result<std::int64_t> PosixFiles::modified_s(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return io_error(path, "examined", errno);
  return static_cast<std::int64_t>(status.st_mtime);
}

}  // namespace twinpod::store
