#include "store/private_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "store/files.hpp"

namespace twinpod::store {
namespace {

std::string user_name(uid_t user) {
  struct passwd entry {};
  struct passwd* found = nullptr;
  std::array<char, 4096> room{};
  if (::getpwuid_r(user, &entry, room.data(), room.size(), &found) != 0 || found == nullptr)
    return fmt::format("user {}", user);
  return fmt::format("user {} ({})", found->pw_name, user);
}

// What is wrong with a folder that is there; "": nothing.
std::string problem_of(const struct stat& status) {
  if (S_ISLNK(status.st_mode)) return fmt::format("is a symbolic link of {}", user_name(status.st_uid));
  if (!S_ISDIR(status.st_mode)) return fmt::format("is no folder, and belongs to {}", user_name(status.st_uid));
  if (status.st_uid != ::geteuid()) {
    return fmt::format("belongs to {}, not to {}", user_name(status.st_uid), user_name(::geteuid()));
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "can be written to by other users";
  return "";
}

}  // namespace

// Looked at through a descriptor, so that it is the same folder from the first look to the last.
Result<void> make_private_folder(const std::string& path) {
  if (::mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) return io_error(path, "created", errno);
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  const int code = errno;
  struct stat status {};
  const bool seen = (folder >= 0 ? ::fstat(folder, &status) : ::lstat(path.c_str(), &status)) == 0;
  const std::string problem = seen ? problem_of(status) : "cannot be examined";
  const bool tight = folder >= 0 && problem.empty() && ::fchmod(folder, S_IRWXU) == 0;
  if (folder >= 0) ::close(folder);
  if (tight) return {};
  if (problem.empty()) return io_error(path, "opened", code);
  Error error{ErrorKind::infeasible,
              fmt::format("{}: checkpoints in memory would be in the hands of others", problem),
              "remove it, or name a folder of your own: {tier: memory, path: /dev/shm/mine}",
              path,
              0,
              0};
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace twinpod::store
