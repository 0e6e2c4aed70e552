// Files and folders for the time that a command takes. However it ends, nothing stays behind.
//
//     Result<TemporaryFolder> folder = TemporaryFolder::in("runs", "twinpod-bench-store-");
//     folder->path()                                    // runs/twinpod-bench-store-Xk3oqP
//     Result<NamelessFile> file = NamelessFile::in("/tmp");
//     write(file->descriptor(), ...);
//     Result<FutureFile> result = FutureFile::at("tokens.bin");
//     write(result->descriptor(), ...);
//     result->publish();                                // all of it is there now, under its name
//
// A folder goes with the object, or when the process is told to end (signals.hpp). After a death of which nothing
// tells, such as SIGKILL, the next command that makes one with the same prefix in the same place removes it: a lock on
// the folder says that its process lives.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "core/error.hpp"

namespace twinpod {

class TemporaryFolder {
 public:
  static Result<TemporaryFolder> in(const std::string& parent, std::string_view prefix);

  TemporaryFolder() = default;
  ~TemporaryFolder();
  TemporaryFolder(TemporaryFolder&& other) noexcept
      : path_(std::exchange(other.path_, {})), lock_(std::exchange(other.lock_, -1)) {}
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(lock_, other.lock_);
    return *this;
  }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int lock_ = -1;  // the folder itself
};

// Gone with its last descriptor and mapping.
class NamelessFile {
 public:
  static Result<NamelessFile> in(const std::string& folder);

  NamelessFile() = default;
  ~NamelessFile();
  NamelessFile(NamelessFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  NamelessFile& operator=(NamelessFile&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  int descriptor() const { return descriptor_; }

 private:
  explicit NamelessFile(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

// A file that gets its name when it is whole; nothing is there before, and what was there stays.
class FutureFile {
 public:
  static Result<FutureFile> at(const std::string& path);

  FutureFile() = default;
  ~FutureFile();
  FutureFile(FutureFile&& other) noexcept { *this = std::move(other); }
  FutureFile& operator=(FutureFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(partial_, other.partial_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(named_, other.named_);
    return *this;
  }

  int descriptor() const { return descriptor_; }
  Result<void> settle();   // its bytes are on the disk, and no more come
  Result<void> publish();  // REQUIRES: settled

 private:
  std::string path_;
  std::string partial_;  // beside it, with the process in it, so that two writers do not meet
  int descriptor_ = -1;
  bool named_ = false;  // partial_ is there
};

}  // namespace twinpod
