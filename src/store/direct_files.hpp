// The file system of this machine, past the page cache: direct I/O with several reads and writes under way, by
// io_uring. A checkpoint is written once and hardly ever read, so keeping it in memory costs time and helps nobody.
//
//     DirectFiles files;
//     files.begin_write(file, 0, bytes);                 // while it goes on, fill the next
//     files.wait(file, 0);
//
// Whole blocks from aligned memory go this way; the few bytes at the end of a file, and everything on a file system
// that knows no direct I/O, go through the page cache. Where io_uring is refused, as in many containers, one read or
// write follows the other.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "store/posix_files.hpp"
#include "store/ring.hpp"

namespace twinpod::store {

struct DirectOptions {
  bool ring = true;       // false: as if io_uring were refused
  std::string root = {};  // of a store, see PosixFiles
};

class DirectFiles final : public PosixFiles {
 public:
  explicit DirectFiles(const DirectOptions& options = {}) : PosixFiles(options.root), options_(options) {}

  Result<File> create(const std::string& path) override;
  Result<File> open(const std::string& path) override;
  Result<void> close(const File& file) override;
  Result<void> sync(const File& file) override;
  Result<void> begin_write(const File& file, std::int64_t offset, std::span<const std::byte> bytes) override;
  Result<void> begin_read(const File& file, std::int64_t offset, std::span<std::byte> bytes) override;
  Result<void> wait(const File& file, std::size_t left) override;

 private:
  // What is open beside the descriptor that goes through the page cache.
  struct Direct {
    int fd = -1;
    std::unique_ptr<Ring> ring;   // nullptr: it is refused
    std::int64_t end = 0;         // of what was written
    std::int64_t allocated = 0;   // on the disk, ahead of it
    std::deque<bool> begun = {};  // one for each begin_...() since: whether it is in the ring
  };

  Result<File> add(const Result<File>& file, int flags);
  Direct* direct(const File& file);
  // How many of the bytes go past the page cache.
  std::size_t move_direct(Direct& to, const File& file, const RingMove& move, Result<void>& done);
  Result<void> end_first(Direct& to, const File& file);
  Result<void> finish_move(const File& file, const RingResult& result);
  static void allocate(Direct& to, std::int64_t end);

  DirectOptions options_;
  std::mutex mutex_;  // of the map; a file is used by one thread at a time
  std::map<int, std::unique_ptr<Direct>> direct_;
};

// "direct, io_uring", "direct, one after the other" or "through the page cache": how files in this folder are moved.
std::string way_of_moving(const std::string& folder);

}  // namespace twinpod::store
