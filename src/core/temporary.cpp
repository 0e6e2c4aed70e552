#include "core/temporary.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "core/remove_tree.hpp"
#include "core/signals.hpp"

namespace twinpod {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> cannot_write(const std::string& folder) {
  return input_error(fmt::format("cannot write to {}: {}", folder, std::strerror(errno)),
                     "name a folder that can be written to");
}

// -1: somebody has it, or it is not ours, or a link.
int lock_of(const std::string& path) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status {};
  const bool ours = folder >= 0 && fstat(folder, &status) == 0 && status.st_uid == geteuid();
  if (ours && flock(folder, LOCK_EX | LOCK_NB) == 0) return folder;
  if (folder >= 0) close(folder);
  return -1;
}

bool is_there(int folder) {
  struct stat status {};
  return fstat(folder, &status) == 0 && status.st_nlink > 0;
}

// Those whose processes are gone. What mkdtemp puts behind the prefix has six characters.
void remove_old(const std::string& parent, std::string_view prefix) {
  constexpr std::size_t kRandom = 6;
  std::error_code failed;
  fs::directory_iterator entry(parent, failed);
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix) || name.size() != prefix.size() + kRandom) continue;
    const int lock = lock_of(entry->path().string());
    if (lock < 0) continue;
    remove_tree(entry->path().c_str());
    close(lock);
  }
}

}  // namespace

Result<TemporaryFolder> TemporaryFolder::in(const std::string& parent, std::string_view prefix) {
  constexpr int kTries = 10;
  remove_old(parent, prefix);
  TemporaryFolder made;
  for (int i = 0; i < kTries && made.lock_ < 0; ++i) {
    std::string path = fmt::format("{}/{}XXXXXX", parent, prefix);
    if (mkdtemp(path.data()) == nullptr) return cannot_write(parent);
    remove_at_end(path.c_str());
    made.path_ = path;
    made.lock_ = lock_of(path);
    if (made.lock_ < 0 && fs::is_directory(path)) return made;  // a file system without locks
    if (is_there(made.lock_)) return made;
    // Somebody took it for an old one before it had its lock.
    keep_at_end(path.c_str());
    if (made.lock_ >= 0) close(std::exchange(made.lock_, -1));
  }
  made.path_.clear();
  errno = EAGAIN;
  return cannot_write(parent);
}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  remove_tree(path_.c_str());
  keep_at_end(path_.c_str());
  if (lock_ >= 0) close(lock_);
}

Result<NamelessFile> NamelessFile::in(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor >= 0) return NamelessFile(descriptor);
  // A file system that has none of those gives one that loses its name at once.
  std::string path = folder + "/twinpod-XXXXXX";
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named < 0) return cannot_write(folder);
  unlink(path.c_str());
  return NamelessFile(named);
}

NamelessFile::~NamelessFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

namespace {

std::string name_of_descriptor(int descriptor) { return fmt::format("/proc/self/fd/{}", descriptor); }

std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

tl::unexpected<Error> system_error(const std::string& path, std::string_view what) {
  tl::unexpected<Error> error = input_error(fmt::format("cannot be {}: {}", what, std::strerror(errno)));
  error.value().file = path;
  return error;
}

}  // namespace

Result<FutureFile> FutureFile::at(const std::string& path) {
  constexpr mode_t kMode = 0666;
  FutureFile file;
  file.path_ = path;
  file.partial_ = fmt::format("{}.partial-{}", path, getpid());
  file.descriptor_ = open(folder_of(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode);
  if (file.descriptor_ >= 0 && access(name_of_descriptor(file.descriptor_).c_str(), F_OK) == 0) return file;
  // A file system without nameless files, or no /proc to name them by.
  if (file.descriptor_ >= 0) close(file.descriptor_);
  file.descriptor_ = open(file.partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
  if (file.descriptor_ < 0) return system_error(path, "created");
  remove_at_end(file.partial_.c_str());
  file.named_ = true;
  return file;
}

Result<void> FutureFile::settle() {
  if (fsync(descriptor_) != 0) return system_error(path_, "brought to the disk");
  return {};
}

Result<void> FutureFile::publish() {
  if (!named_) {
    unlink(partial_.c_str());  // of a process of the same number that is gone
    const std::string from = name_of_descriptor(descriptor_);
    if (linkat(AT_FDCWD, from.c_str(), AT_FDCWD, partial_.c_str(), AT_SYMLINK_FOLLOW) != 0)
      return system_error(path_, "written");
    named_ = true;
  }
  const int failed = close(std::exchange(descriptor_, -1));
  if (failed != 0 || rename(partial_.c_str(), path_.c_str()) != 0) return system_error(path_, "written");
  keep_at_end(partial_.c_str());
  named_ = false;
  return {};
}

FutureFile::~FutureFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!named_) return;
  unlink(partial_.c_str());
  keep_at_end(partial_.c_str());
}

}  // namespace twinpod
