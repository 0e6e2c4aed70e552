#include "store/posix_place.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "store/files.hpp"

namespace twinpod::store {
namespace {

int open_folder(int above, const char* name, int flags) {
  int folder = -1;
  do {
    folder = ::openat(above, name, O_PATH | O_DIRECTORY | O_CLOEXEC | flags);
  } while (folder < 0 && errno == EINTR);
  return folder;
}

bool is_link(int folder, const char* name) {
  struct stat status {};
  return ::fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
}

tl::unexpected<Error> link_error(const std::string& path, std::string_view what, const std::string& name) {
  Error error{
      ErrorKind::infeasible,
      fmt::format("cannot be {}: {} is a symbolic link, and nothing in a store is followed out of it", what, name),
      fmt::format("remove the link, or put in its place what it names"),
      path,
      0,
      0};
  return tl::unexpected<Error>(std::move(error));
}

std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), part.size() + 1));
    if (!part.empty() && part != ".") parts.emplace_back(part);
  }
  return parts;
}

}  // namespace

Result<Place> Place::of(const std::string& root, const std::string& path, std::string_view what, int* code) {
  const std::string inside = root.ends_with('/') ? root : root + "/";
  if (root.empty() || !path.starts_with(inside)) return Place(AT_FDCWD, path, false);
  const std::vector<std::string> parts = parts_of(std::string_view(path).substr(inside.size()));
  if (parts.empty()) return Place(AT_FDCWD, path, false);
  for (const std::string& part : parts) {
    if (part == ".." || part.find('\0') != std::string::npos) return io_error(path, what, EXDEV);
  }
  Place place(open_folder(AT_FDCWD, inside.c_str(), 0), parts.front(), true);
  if (code != nullptr) *code = place.folder_ < 0 ? errno : 0;
  if (place.folder_ < 0) return io_error(path, what, errno);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const int next = open_folder(place.folder_, place.name(), O_NOFOLLOW);
    if (next < 0 && code != nullptr) *code = errno;
    if (next < 0) return place.error(path, what, errno);
    ::close(std::exchange(place.folder_, next));
    place.name_ = parts[i];
  }
  return place;
}

Place::Place(Place&& other) noexcept
    : folder_(std::exchange(other.folder_, AT_FDCWD)), name_(std::move(other.name_)), below_(other.below_) {}

Place::~Place() {
  if (folder_ >= 0) ::close(folder_);
}

int Place::open_flags() const { return below_ ? O_NOFOLLOW : 0; }

tl::unexpected<Error> Place::error(const std::string& path, std::string_view what, int code) const {
  const bool may_be_link = code == ELOOP || code == ENOTDIR;
  if (below_ && may_be_link && is_link(folder_, name())) return link_error(path, what, name_);
  return io_error(path, what, code);
}

}  // namespace twinpod::store
