// The one way of the store to a file system, so that the same code runs on a disk, in memory, and on a simulated disk
// that loses what was not brought to it.
//
//     PosixFiles files;
//     const Result<void> written = write_new_file(files, "runs/a/note", bytes);      // there whole, or not at all
//
// Nothing here is durable before it is synced: the bytes of a file by sync(), its name by sync_folder() of its folder.
// A sync that failed must not be tried again: Linux drops what it could not write and says yes the next time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace twinpod::store {

using Bytes = std::vector<std::byte>;

// An open file; `path` is for messages.
struct File {
  int id = -1;
  std::string path;
};

// What came of asking for a lock.
struct Locked {
  enum class Outcome {
    ours,        // until `file` is closed, or the process ends, however it does
    of_another,  // somebody has it
    unknown,     // there are no locks here
  };
  Outcome outcome = Outcome::unknown;
  File file = {};  // id -1: nothing has to be closed, as nobody else sees these files
};

// Every call may be made by several threads at once. Errors name the path and the reason.
class Files {
 public:
  virtual ~Files() = default;

  // Whether names can be changed. Where they cannot, on an object store, nothing is seen of a file before sync() has
  // returned, and all of it then; so it is written under its own name, and put() replaces one.
  virtual bool has_rename() const { return true; }
  // Makes or replaces a file in one step, durably. Only where there is no rename.
  virtual Result<void> put(const std::string& path, std::span<const std::byte> bytes);

  // For writing. Refused when the name is taken.
  virtual Result<File> create(const std::string& path) = 0;
  // For reading.
  virtual Result<File> open(const std::string& path) = 0;
  virtual Result<void> close(const File& file) = 0;
  // Both return how many bytes were moved, which may be fewer than asked for; read: 0 at the end.
  virtual Result<std::size_t> write(const File& file, std::int64_t offset, std::span<const std::byte> bytes) = 0;
  virtual Result<std::size_t> read(const File& file, std::int64_t offset, std::span<std::byte> bytes) = 0;
  // All of the bytes, while the caller does something else: they must stay where they are until wait() says so. Fastest
  // from memory and at offsets of whole blocks (aligned.hpp). Here, and wherever nothing better is known: at once.
  virtual Result<void> begin_write(const File& file, std::int64_t offset, std::span<const std::byte> bytes);
  virtual Result<void> begin_read(const File& file, std::int64_t offset, std::span<std::byte> bytes);
  // Until all but the last `left` of those that were begun for the file are done. An error is that of any of them; the
  // others are done then, too. sync() and close() wait for all.
  virtual Result<void> wait(const File& file, std::size_t left);
  virtual Result<std::int64_t> size(const File& file) = 0;
  virtual Result<void> sync(const File& file) = 0;

  virtual Result<void> sync_folder(const std::string& path) = 0;
  // Replaces what has the new name, in one step.
  virtual Result<void> rename(const std::string& from, const std::string& to) = 0;
  // Refused when the name is taken.
  virtual Result<void> make_folder(const std::string& path) = 0;
  // A file or an empty folder.
  virtual Result<void> remove(const std::string& path) = 0;
  // Names in the folder, sorted.
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  virtual Result<bool> exists(const std::string& path) = 0;
  // When it was last written, in seconds since 1970; 0: not known.
  virtual Result<std::int64_t> modified_s(const std::string& path);
  // A file that is made when it is not there, for one process at a time. Does not wait.
  virtual Result<Locked> lock(const std::string& path);
};

// "path: cannot be written: No space left on device"; `code` is an errno.
tl::unexpected<Error> io_error(const std::string& path, std::string_view what, int code);

// All of the bytes, or an error.
Result<void> write_all(Files& files, const File& file, std::int64_t offset, std::span<const std::byte> bytes);
Result<void> read_all(Files& files, const File& file, std::int64_t offset, std::span<std::byte> bytes);

// A whole file; refused when it has more than `max_bytes`.
Result<Bytes> read_whole(Files& files, const std::string& path, std::int64_t max_bytes);

// Where a file is written that will be `path`, and what ends that once it is synced and closed.
std::string path_while_written(const Files& files, const std::string& path);
Result<void> give_name(Files& files, const std::string& path);

// Writes `path`.partial, syncs it and gives it its name, replacing what had it; or puts it, where there is no rename.
// The name is durable after sync_folder(). What an earlier attempt left under the temporary name is removed.
Result<void> write_new_file(Files& files, const std::string& path, std::span<const std::byte> bytes);

inline constexpr std::string_view kPartial = ".partial";

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace twinpod::store
