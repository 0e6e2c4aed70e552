// A second copy of each rank's shard in the memory of another host: a host that is lost loses nothing.
//
//     Result<std::unique_ptr<Replicas>> replicas = make_replicas(world, settings);
//     ... this rank's shard is written to replicas->enter(name) ...           // by the thread that saves
//     replicas->prepare(name, has_shard);                                     // the same
//     replicas->begin();                                                      // all ranks, between two steps
//     while (!replicas->done()) { replicas->move_on(); ... a step ... }       // a piece at a time, beside the step
//     replicas->commit(name, manifest);                                       // when those of all ranks are there
//
// Memory is a folder of the host, ROOT/HOST/rank-00003/checkpoint-000012, which outlives the ranks: what rank 3 wrote,
// what it keeps for another, and the manifest of all. Whoever finds one manifest knows which shards there must be.
// Nothing here is durable, so nothing is synced. Symbolic links below ROOT are not followed (store/posix_place.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "core/error.hpp"
#include "store/manifest.hpp"
#include "store/posix_files.hpp"

namespace twinpod::train {

struct PeerSettings {
  std::string root;  // in memory; empty: there is no such tier
  std::string host;  // name of this one
  int keep = 1;
  bool resumes = false;  // what is there is of this run
  bool wanted() const { return !root.empty(); }
  std::string host_folder() const { return root + "/" + host; }
};

// Who keeps this rank's replica, and whose it keeps. On another host if there is a distance between ranks at which all
// of them have one; else half of the ranks further.
struct Partners {
  int keeper = 0;
  int kept = 0;
};
Partners partners_of(int rank, const std::vector<std::int64_t>& hosts);

// Files of a host as if its ranks had one folder: HOST/checkpoint-000012/FILE is that of the first rank that has it.
class HostFiles final : public store::PosixFiles {
 public:
  explicit HostFiles(const std::string& host_folder);
  Result<store::File> open(const std::string& path) override;
  // Of one file, whichever rank's it is; -1: it cannot be read.
  std::int64_t bytes_of(const std::string& path);
  // "": no rank has it.
  std::string find(const std::string& checkpoint, const std::string& file);
  // Numbers of those with a manifest, the newest first; none: nothing is there.
  std::vector<std::int64_t> numbers();

 private:
  std::string host_folder_;
};

// A file in memory, as bytes.
class MappedFile {
 public:
  MappedFile() = default;
  ~MappedFile() { close(); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  Result<void> open(store::PosixFiles& files, const std::string& path);  // to be read
  // All of its memory is taken at once. What had the name goes.
  Result<void> create(store::PosixFiles& files, const std::string& path, std::int64_t bytes);
  void close();
  std::byte* data() const { return data_; }
  std::int64_t size() const { return size_; }

 private:
  Result<void> map(int fd, const std::string& path, int protection);
  std::byte* data_ = nullptr;
  std::int64_t size_ = 0;
};

class Replicas {
 public:
  // `hosts` has a number for the host of each rank.
  Replicas(const PeerSettings& settings, std::vector<std::int64_t> hosts, comm::Group group);

  // Makes it, for this rank.
  Result<std::string> enter(const std::string& name);
  store::Files& files() { return files_; }

  // This rank, when it has written its shard: takes memory for the other one, if it is as large as the last time.
  Result<void> prepare(const std::string& name, bool has_shard);
  // All ranks, when all are prepared. The inner error is this rank's: nobody has sent a byte then.
  Result<Result<void>> begin();
  // All ranks until all are done: waits for the piece before, and starts the next.
  Result<void> move_on();
  // This rank, at any time between: a piece moves only when somebody looks.
  void look();
  bool done() const { return !moving_ && sent_ == own_.size() && received_ == replica_.size(); }
  // Waits for what is on its way.
  Result<void> end();

  Result<void> commit(const std::string& name, const std::string& manifest);
  // REQUIRES: all ranks have committed the one with this number. It stays, with so many before it as are kept;
  // what an earlier run left here for ranks that are no more goes. 0: only what was never committed goes.
  Result<void> prune(std::int64_t newest);
  // Of this rank, whatever there is of one that was given up.
  void drop(const std::string& name);
  // Of all ranks on this host.
  void remove_all();

 private:
  Result<void> make_replica();
  bool is_of_this_host(const std::string& rank_name) const;

  const PeerSettings settings_;
  const std::vector<std::int64_t> hosts_;
  comm::Group group_;
  const int rank_;
  const Partners partners_;
  const std::string folder_;
  store::PosixFiles files_;
  MappedFile own_;
  MappedFile replica_;
  std::string replica_path_;
  std::int64_t kept_bytes_ = 0;  // of the replica, the last time
  std::int64_t sent_ = 0;
  std::int64_t received_ = 0;
  bool moving_ = false;
  comm::Handle sending_;
  comm::Handle receiving_;
};

// A folder with those above it, unless they are there.
Result<void> make_path(store::Files& files, const std::string& path);

// ROOT/HOST/rank-00003.
std::string rank_folder(const PeerSettings& settings, int rank);

// All ranks; nothing when there is no such tier. One rank has no peer.
Result<std::unique_ptr<Replicas>> make_replicas(comm::Communicator& world, const PeerSettings& settings);

// All ranks: a text of one of them to all.
Result<void> share_text(comm::Communicator& world, int from, std::string& text);

}  // namespace twinpod::train
