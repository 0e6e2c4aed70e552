#include "core/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "core/nearest.hpp"

namespace twinpod {

namespace {

tl::unexpected<Error> refused(const std::string& path, std::string message, std::string hint = "") {
  return tl::unexpected(Error{ErrorKind::input, std::move(message), std::move(hint), path, 0, 0});
}

// A file beside the one that is not there.
std::string nearest_file(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  std::vector<std::string> names;
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  const std::string nearest = nearest_name(fs::path(path).filename().string(), names);
  return nearest.empty() ? "" : fmt::format("did you mean {}?", nearest);
}

struct Closer {
  int id;
  ~Closer() { ::close(id); }
};

std::string what_it_is(mode_t mode) {
  if (S_ISDIR(mode)) return "this is a folder";
  if (S_ISFIFO(mode)) return "this is a pipe, which may never end";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "this is a device, which may never end";
  return "this is no regular file";
}

// Files grow while they are read, and those of /proc have no size: `most` holds whatever the size says.
Result<std::string> all_of(int id, const std::string& path, std::size_t size, std::size_t most) {
  std::string text(std::min(size, most) + 1, '\0');
  std::size_t have = 0;
  while (true) {
    const ssize_t got = ::read(id, text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refused(path, fmt::format("cannot be read: {}", std::strerror(errno)));
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
    if (have > most) {
      return refused(path, fmt::format("larger than {} MiB", most >> 20), "a part of it may do: head, tail, grep");
    }
    if (have == text.size()) text.resize(std::min(2 * have, most + 1));
  }
  text.resize(have);
  return text;
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t most_bytes, std::string_view expected) {
  // O_NONBLOCK: to open a pipe would wait for its writer.
  const int id = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (id < 0) {
    const int reason = errno;
    return refused(path, fmt::format("cannot be read: {}; expected {}", std::strerror(reason), expected),
                   reason == ENOENT ? nearest_file(path) : "");
  }
  const Closer closer{id};
  struct stat status {};
  if (::fstat(id, &status) != 0) return refused(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  if (!S_ISREG(status.st_mode)) {
    return refused(path, fmt::format("{}; expected {}", what_it_is(status.st_mode), expected),
                   S_ISDIR(status.st_mode) ? "" : "write it to a file first, and name that");
  }
  return all_of(id, path, static_cast<std::size_t>(status.st_size), most_bytes);
}

bool can_be_written(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool there = fs::exists(path, ignored);
  if (there && fs::is_directory(path, ignored)) return false;
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  if (!there && !fs::is_directory(folder, ignored)) return false;
  return access(there ? path.c_str() : folder.c_str(), W_OK) == 0;
}

Result<void> write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) return input_error(fmt::format("cannot write {}", path));
  return {};
}

}  // namespace twinpod
