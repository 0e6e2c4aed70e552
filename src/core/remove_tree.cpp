#include "core/remove_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace twinpod {
namespace {

constexpr int kDeepest = 12;
constexpr int kRounds = 100;  // while others still make files in it

bool remove_at(int parent, const char* name, int depth);

bool is_dots(const char* name) { return std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0; }

// One look through the folder. opendir() would ask for memory, which a handler must not.
void empty(int folder, int depth) {
  alignas(dirent64) std::array<char, 2048> entries;
  long bytes = 0;
  lseek(folder, 0, SEEK_SET);
  while ((bytes = syscall(SYS_getdents64, folder, entries.data(), entries.size())) > 0) {
    for (long at = 0; at < bytes;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries.data() + at);
      if (!is_dots(entry->d_name)) remove_at(folder, entry->d_name, depth);
      at += entry->d_reclen;
    }
  }
}

bool remove_at(int parent, const char* name, int depth) {
  if (unlinkat(parent, name, 0) == 0 || errno == ENOENT) return true;
  if (depth == 0) return false;
  const int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return errno == ENOENT;
  bool gone = false;
  for (int round = 0; round < kRounds && !gone; ++round) {
    empty(folder, depth - 1);
    gone = unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
    if (!gone && errno != ENOTEMPTY && errno != EEXIST) break;
  }
  close(folder);
  return gone;
}

}  // namespace

bool remove_tree(const char* path) { return remove_at(AT_FDCWD, path, kDeepest); }

}  // namespace twinpod
