// A disk in memory that fails on purpose: for the tests of everything that must survive a crash.
//
//     SimulatedFiles disk;
//     disk.crash_at(17);                                 // operation 17 and all later ones fail
//     (void)save(disk, ...);
//     disk.restart(Loss::some, seed);                    // what was synced is there; of the rest some, torn or out of
//     order
//     ... what was acknowledged must be found ...
//
// It promises what POSIX promises and no more: bytes are durable after sync() of the file, names after sync_folder() of
// their folder, in no order otherwise. A sync that fails drops what it should have written, as Linux does: reads still
// see it, and the next sync says yes.
#pragma once

#include <cerrno>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/rng.hpp"
#include "store/files.hpp"

namespace twinpod::store {

// What a crash takes of that which was not synced.
enum class Loss {
  none,  // the process died, the machine did not
  all,   // power failed, nothing had been written back
  some,  // power failed: each write is kept, lost or torn, each change of a name kept or lost
};

// One operation that fails, counted from 1. `code` is an errno; kShortWrite: a write moves fewer bytes than asked for,
// and nothing else fails.
inline constexpr int kShortWrite = -1;
struct IoFault {
  std::int64_t at = 0;  // 0: never
  int code = EIO;
  bool lasting = false;  // so do all that follow, of those that `code` can befall
};

// Faults of whoever uses the disk, put in to see that a test finds them: what says that it is done, and is not.
enum class Lie {
  none,
  sync,         // files are not synced
  sync_folder,  // folders are not synced
  sync_again,   // a sync that failed is tried again, as if that helped
};

class SimulatedFiles final : public Files {
 public:
  SimulatedFiles();

  // Operations so far; close() is none.
  std::int64_t operations() const { return operations_; }
  void lie(Lie lie) { lie_ = lie; }
  void fail(const IoFault& fault) { fault_ = fault; }
  void crash_at(std::int64_t operation) { crash_at_ = operation; }
  // The machine after a crash, or as if one had come now. Files that were open are closed, faults and lies forgotten.
  void restart(Loss loss, std::uint64_t seed);
  // Bit rot, and tests that look at the disk: a file's bytes. nullptr: there is none.
  Bytes* contents(const std::string& path);

  Result<File> create(const std::string& path) override;
  Result<File> open(const std::string& path) override;
  Result<void> close(const File& file) override;
  Result<std::size_t> write(const File& file, std::int64_t offset, std::span<const std::byte> bytes) override;
  Result<std::size_t> read(const File& file, std::int64_t offset, std::span<std::byte> bytes) override;
  Result<std::int64_t> size(const File& file) override;
  Result<void> sync(const File& file) override;
  Result<void> sync_folder(const std::string& path) override;
  Result<void> rename(const std::string& from, const std::string& to) override;
  Result<void> make_folder(const std::string& path) override;
  Result<void> remove(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  Result<bool> exists(const std::string& path) override;
  Result<Locked> lock(const std::string& /*path*/) override { return Locked{Locked::Outcome::ours, {}}; }

 private:
  struct Write {
    std::int64_t offset = 0;
    Bytes bytes;
  };
  // A rename changes two names at once; everything else one. Node 0: the name goes.
  using NameChange = std::vector<std::pair<std::string, int>>;
  struct Node {
    bool folder = false;
    Bytes bytes;                  // as reads see them
    Bytes durable;                // as they are on the disk
    std::vector<Write> unsynced;  // on their way to it
    std::map<std::string, int> names;
    std::map<std::string, int> durable_names;
    std::vector<NameChange> unsynced_names;
  };
  struct Place {
    Node* folder = nullptr;  // nullptr: there is no such folder
    std::string name;
    int node = 0;  // 0: the name is free
  };
  enum class Kind { read, write, name, sync };

  // The errno that the next operation fails with; 0: none.
  int next_fault(Kind kind);
  Place find(const std::string& path);
  Node* open_node(const File& file);
  static void apply_names(std::map<std::string, int>& names, const NameChange& change);
  void change_names(Node& folder, const NameChange& change);
  static void restart_node(Node& node, Loss loss, Rng& rng);
  Result<File> open_as(const std::string& path, int node);
  // A node with a name that was free: what create() and make_folder() do.
  Result<int> new_node(const std::string& path, bool folder);
  Result<void> sync_once(const File& file);

  std::mutex mutex_;
  std::map<int, Node> nodes_;  // 1: the root
  std::map<int, int> open_;
  int next_id_ = 2;
  std::int64_t operations_ = 0;
  std::int64_t crash_at_ = 0;
  IoFault fault_;
  Lie lie_ = Lie::none;
};

}  // namespace twinpod::store
