#include "store/posix_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "store/posix_place.hpp"

namespace twinpod::store {
namespace {

// Signals interrupt calls; one that was interrupted did nothing.
template <typename Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

Result<void> done(bool good, const std::string& path, std::string_view what) {
  if (!good) return io_error(path, what, errno);
  return {};
}

Result<void> check_regular(const File& file) {
  struct stat status {};
  if (::fstat(file.id, &status) != 0) return io_error(file.path, "examined", errno);
  if (S_ISREG(status.st_mode)) return {};
  if (S_ISDIR(status.st_mode)) return io_error(file.path, "opened", EISDIR);
  Error error{ErrorKind::infeasible, "cannot be opened: it is no regular file", "", file.path, 0, 0};
  return tl::unexpected<Error>(std::move(error));
}

// Whether the name still is that of the open file: who held the lock before may have removed it.
bool is_named(const Place& place, const File& file) {
  struct stat open {};
  struct stat named {};
  return ::fstat(file.id, &open) == 0 && ::fstatat(place.folder(), place.name(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

// Of the open file description: it goes with the process that has it, however that ends. 0, or an errno.
int lock_description(int file) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return uninterrupted([&] { return ::fcntl(file, F_OFD_SETLK, &whole); }) == 0 ? 0 : errno;
}

}  // namespace

Result<File> PosixFiles::open_as(const std::string& path, int flags, std::string_view what) const {
  constexpr mode_t kMode = 0666;
  const Result<Place> place = Place::of(root_, path, what);
  if (!place) return tl::unexpected(place.error());
  const int id = uninterrupted(
      [&] { return ::openat(place->folder(), place->name(), flags | place->open_flags() | O_CLOEXEC, kMode); });
  if (id < 0) return place->error(path, what, errno);
  return File{id, path};
}

Result<File> PosixFiles::create(const std::string& path) {
  return open_as(path, O_WRONLY | O_CREAT | O_EXCL, "created");
}

Result<File> PosixFiles::create_to_map(const std::string& path) {
  return open_as(path, O_RDWR | O_CREAT | O_EXCL, "created");
}

// O_NONBLOCK: a pipe without a writer is not waited for.
Result<File> PosixFiles::open(const std::string& path) {
  Result<File> file = open_as(path, O_RDONLY | O_NONBLOCK, "opened");
  if (!file) return file;
  if (Result<void> regular = check_regular(*file); !regular) {
    ::close(file->id);
    return tl::unexpected(regular.error());
  }
  return file;
}

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
  const std::string what = "renamed to " + to;
  const Result<Place> old_place = Place::of(root_, from, what);
  if (!old_place) return tl::unexpected(old_place.error());
  const Result<Place> new_place = Place::of(root_, to, what);
  if (!new_place) return tl::unexpected(new_place.error());
  const int code = ::renameat(old_place->folder(), old_place->name(), new_place->folder(), new_place->name());
  return done(code == 0, from, what);
}

Result<void> PosixFiles::make_folder(const std::string& path) {
  constexpr mode_t kMode = 0777;
  const Result<Place> place = Place::of(root_, path, "created");
  if (!place) return tl::unexpected(place.error());
  return done(::mkdirat(place->folder(), place->name(), kMode) == 0, path, "created");
}

// Of a symbolic link, the link.
Result<void> PosixFiles::remove(const std::string& path) {
  const Result<Place> place = Place::of(root_, path, "removed");
  if (!place) return tl::unexpected(place.error());
  if (::unlinkat(place->folder(), place->name(), 0) == 0) return {};
  if (errno != EISDIR) return io_error(path, "removed", errno);
  return done(::unlinkat(place->folder(), place->name(), AT_REMOVEDIR) == 0, path, "removed");
}

Result<std::vector<std::string>> PosixFiles::list(const std::string& path) {
  const Result<File> opened = open_as(path, O_RDONLY | O_DIRECTORY, "listed");
  if (!opened) return tl::unexpected(opened.error());
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::fdopendir(opened->id), &::closedir);
  if (!folder) {
    const int code = errno;
    ::close(opened->id);
    return io_error(path, "listed", code);
  }
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
  int code = 0;
  const Result<Place> place = Place::of(root_, path, "examined", &code);
  if (!place && code == ENOENT) return false;  // nor is the folder that it would lie in
  if (!place) return tl::unexpected(place.error());
  struct stat status {};
  if (::fstatat(place->folder(), place->name(), &status, AT_SYMLINK_NOFOLLOW) == 0) return true;
  if (errno == ENOENT) return false;
  return io_error(path, "examined", errno);
}

Result<std::int64_t> PosixFiles::modified_s(const std::string& path) {
  const Result<Place> place = Place::of(root_, path, "examined");
  if (!place) return tl::unexpected(place.error());
  struct stat status {};
  const int flags = place->open_flags() == 0 ? 0 : AT_SYMLINK_NOFOLLOW;
  if (::fstatat(place->folder(), place->name(), &status, flags) != 0) return io_error(path, "examined", errno);
  return static_cast<std::int64_t>(status.st_mtime);
}

// A file that was removed between being opened and locked locks nothing, so that it is made again.
Result<Locked> PosixFiles::lock(const std::string& path) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    const Result<Place> place = Place::of(root_, path, "locked");
    if (!place) return tl::unexpected(place.error());
    const Result<File> file = open_as(path, O_RDWR | O_CREAT | O_NONBLOCK, "locked");
    if (!file) return tl::unexpected(file.error());
    Result<void> regular = check_regular(*file);
    const int code = regular ? lock_description(file->id) : 0;
    if (regular && code == 0 && is_named(*place, *file)) return Locked{Locked::Outcome::ours, *file};
    ::close(file->id);
    if (!regular) return tl::unexpected(regular.error());
    if (code == EAGAIN || code == EACCES) return Locked{Locked::Outcome::of_another, {}};
    if (code != 0) return Locked{Locked::Outcome::unknown, {}};  // this file system has no locks
  }
  return io_error(path, "locked", EAGAIN);
}

}  // namespace twinpod::store
