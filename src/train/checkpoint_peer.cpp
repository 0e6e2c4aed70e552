#include "train/checkpoint_peer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <set>

#include "core/hash.hpp"
#include "store/save.hpp"

namespace twinpod::train {
namespace {

constexpr std::string_view kRankFolder = "rank-";

// A replica goes over in so many steps, or in fewer when it is small.
std::int64_t piece_bytes(std::int64_t bytes) {
  constexpr std::int64_t kSteps = 16;
  constexpr std::int64_t kLeast = 1 << 20;
  return std::max(kLeast, bytes / kSteps + 1);
}

std::size_t next_piece(std::int64_t bytes, std::int64_t moved) {
  return static_cast<std::size_t>(std::min(piece_bytes(bytes), bytes - moved));
}

std::vector<std::string> names_in(store::Files& files, const std::string& folder) {
  return files.list(folder).value_or(std::vector<std::string>());
}

bool has_manifest(store::Files& files, const std::string& folder) {
  return files.exists(fmt::format("{}/{}", folder, store::kManifestFile)).value_or(false);
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
}

// With all that is in it. Others may be at it, too.
Result<void> remove_tree(store::Files& files, const std::string& path) {
  Result<void> removed = files.remove(path);
  if (removed || !files.exists(path).value_or(true)) return {};
  for (const std::string& name : names_in(files, path)) {
    if (Result<void> inner = remove_tree(files, path + "/" + name); !inner) return inner;
  }
  removed = files.remove(path);
  return removed || !files.exists(path).value_or(true) ? Result<void>() : removed;
}

}  // namespace

std::string rank_folder(const PeerSettings& settings, int rank) {
  return fmt::format("{}/{}{:05}", settings.host_folder(), kRankFolder, rank);
}

Partners partners_of(int rank, const std::vector<std::int64_t>& hosts) {
  const std::size_t ranks = hosts.size();
  std::size_t distance = ranks / 2;
  for (std::size_t tried = 1; tried < ranks; ++tried) {
    bool apart = true;
    for (std::size_t r = 0; r < ranks && apart; ++r) apart = hosts[r] != hosts[(r + tried) % ranks];
    if (!apart) continue;
    distance = tried;
    break;
  }
  const auto own = static_cast<std::size_t>(rank);
  return {static_cast<int>((own + distance) % ranks), static_cast<int>((own + ranks - distance) % ranks)};
}

HostFiles::HostFiles(const std::string& host_folder) : PosixFiles(folder_of(host_folder)), host_folder_(host_folder) {}

std::string HostFiles::find(const std::string& checkpoint, const std::string& file) {
  for (const std::string& name : names_in(*this, host_folder_)) {
    std::string path = fmt::format("{}/{}/{}/{}", host_folder_, name, checkpoint, file);
    if (name.starts_with(kRankFolder) && exists(path).value_or(false)) return path;
  }
  return "";
}

std::int64_t HostFiles::bytes_of(const std::string& path) {
  const Result<store::File> file = PosixFiles::open(path);
  if (!file) return -1;
  const std::int64_t bytes = size(*file).value_or(-1);
  (void)close(*file);  // it was only looked at
  return bytes;
}

Result<store::File> HostFiles::open(const std::string& path) {
  const std::string folder = folder_of(path);
  const std::string found = find(folder.substr(folder.find_last_of('/') + 1), path.substr(path.find_last_of('/') + 1));
  return PosixFiles::open(found.empty() ? path : found);
}

std::vector<std::int64_t> HostFiles::numbers() {
  std::set<std::int64_t, std::greater<>> found;
  for (const std::string& rank : names_in(*this, host_folder_)) {
    const std::string folder = host_folder_ + "/" + rank;
    for (const std::string& name : names_in(*this, folder)) {
      if (store::checkpoint_number(name) >= 0 && has_manifest(*this, folder + "/" + name))
        found.insert(store::checkpoint_number(name));
    }
  }
  return {found.begin(), found.end()};
}

Result<void> MappedFile::map(int fd, const std::string& path, int protection) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return store::io_error(path, "looked at", errno);
  if (status.st_size == 0) return {};
  void* mapped = mmap(nullptr, static_cast<std::size_t>(status.st_size), protection, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (mapped == MAP_FAILED) return store::io_error(path, "mapped", errno);
  data_ = static_cast<std::byte*>(mapped);
  size_ = status.st_size;
  return {};
}

Result<void> MappedFile::open(store::PosixFiles& files, const std::string& path) {
  close();
  const Result<store::File> file = files.PosixFiles::open(path);
  if (!file) return tl::unexpected(file.error());
  Result<void> mapped = map(file->id, path, PROT_READ);
  (void)files.close(*file);
  return mapped;
}

// Memory that is short shows here, not as a signal when it is written to.
Result<void> MappedFile::create(store::PosixFiles& files, const std::string& path, std::int64_t bytes) {
  close();
  if (files.exists(path).value_or(false)) {
    if (Result<void> removed = files.remove(path); !removed) return removed;
  }
  const Result<store::File> file = files.create_to_map(path);
  if (!file) return tl::unexpected(file.error());
  const int failed = bytes > 0 ? posix_fallocate(file->id, 0, bytes) : 0;
  Result<void> mapped =
      failed != 0 ? store::io_error(path, "written", failed) : map(file->id, path, PROT_READ | PROT_WRITE);
  (void)files.close(*file);
  if (!mapped) (void)files.remove(path);
  return mapped;
}

void MappedFile::close() {
  if (data_ != nullptr) munmap(data_, static_cast<std::size_t>(size_));
  data_ = nullptr;
  size_ = 0;
}

Replicas::Replicas(const PeerSettings& settings, std::vector<std::int64_t> hosts, comm::Group group)
    : settings_(settings),
      hosts_(std::move(hosts)),
      group_(std::move(group)),
      rank_(comm::rank_of(*group_)),
      partners_(partners_of(rank_, hosts_)),
      folder_(rank_folder(settings, rank_)),
      files_(settings.root) {}

Result<std::string> Replicas::enter(const std::string& name) {
  std::string folder = folder_ + "/" + name;
  if (Result<void> made = make_path(files_, folder); !made) return tl::unexpected(made.error());
  return folder;
}

Result<void> Replicas::prepare(const std::string& name, bool has_shard) {
  const std::string folder = folder_ + "/" + name;
  own_.close();
  replica_.close();
  sent_ = received_ = 0;
  replica_path_ = fmt::format("{}/{}", folder, store::shard_file(partners_.kept));
  if (has_shard) {
    if (Result<void> opened = own_.open(files_, fmt::format("{}/{}", folder, store::shard_file(rank_))); !opened)
      return opened;
  }
  return kept_bytes_ > 0 ? make_replica() : Result<void>();
}

Result<void> Replicas::make_replica() {
  return replica_.create(files_, replica_path_ + std::string(store::kPartial), kept_bytes_);
}

Result<Result<void>> Replicas::begin() {
  const std::int64_t size = own_.size();
  Result<comm::Handle> receiving = comm::start_receive(*group_, &kept_bytes_, sizeof kept_bytes_, partners_.kept);
  if (!receiving) return tl::unexpected(receiving.error());
  if (Result<void> sent = comm::send(*group_, &size, sizeof size, partners_.keeper); !sent)
    return tl::unexpected(sent.error());
  if (Result<void> received = receiving->wait(); !received) return tl::unexpected(received.error());
  return kept_bytes_ == replica_.size() ? Result<void>() : make_replica();
}

Result<void> Replicas::end() {
  if (!moving_) return {};
  moving_ = false;
  Result<void> sent = sending_.wait();
  Result<void> received = receiving_.wait();
  return sent ? received : sent;
}

void Replicas::look() {
  (void)sending_.done();
  (void)receiving_.done();
}

Result<void> Replicas::move_on() {
  if (Result<void> ended = end(); !ended) return ended;
  if (received_ < replica_.size()) {
    const std::size_t bytes = next_piece(replica_.size(), received_);
    Result<comm::Handle> started = comm::start_receive(*group_, replica_.data() + received_, bytes, partners_.kept);
    if (!started) return tl::unexpected(started.error());
    receiving_ = std::move(*started);
    received_ += static_cast<std::int64_t>(bytes);
    moving_ = true;
  }
  if (sent_ == own_.size()) return {};
  const std::size_t bytes = next_piece(own_.size(), sent_);
  Result<comm::Handle> started = comm::start_send(*group_, own_.data() + sent_, bytes, partners_.keeper);
  if (!started) return tl::unexpected(started.error());
  sending_ = std::move(*started);
  sent_ += static_cast<std::int64_t>(bytes);
  moving_ = true;
  return {};
}

Result<void> Replicas::commit(const std::string& name, const std::string& manifest) {
  const bool keeps_one = replica_.size() > 0;
  own_.close();
  replica_.close();
  if (keeps_one) {
    if (Result<void> named = store::give_name(files_, replica_path_); !named) return named;
  }
  return store::write_new_file(files_, fmt::format("{}/{}/{}", folder_, name, store::kManifestFile),
                               store::bytes_of(manifest));
}

Result<void> Replicas::prune(std::int64_t newest) {
  std::vector<std::string> names = names_in(files_, folder_);
  std::reverse(names.begin(), names.end());
  int kept = 0;
  for (const std::string& name : names) {
    const std::int64_t number = store::checkpoint_number(name);
    if (number < 0) continue;
    const std::string folder = folder_ + "/" + name;
    const bool committed = has_manifest(files_, folder);
    if (newest == 0 && committed) continue;
    if (number <= newest && kept < std::max(settings_.keep, 1) && committed) {
      ++kept;
      continue;
    }
    // The manifest first, so that half of it is none.
    Result<void> removed =
        committed ? files_.remove(fmt::format("{}/{}", folder, store::kManifestFile)) : Result<void>();
    if (removed) removed = remove_tree(files_, folder);
    if (!removed) return removed;
  }
  if (newest == 0) return {};
  if (std::find(hosts_.begin(), hosts_.end(), hosts_[static_cast<std::size_t>(rank_)]) != hosts_.begin() + rank_)
    return {};
  for (const std::string& name : names_in(files_, settings_.host_folder())) {
    if (is_of_this_host(name) || !name.starts_with(kRankFolder)) continue;
    if (Result<void> removed = remove_tree(files_, settings_.host_folder() + "/" + name); !removed) return removed;
  }
  return {};
}

void Replicas::drop(const std::string& name) {
  own_.close();
  replica_.close();
  const std::string folder = folder_ + "/" + name;
  (void)files_.remove(fmt::format("{}/{}", folder, store::kManifestFile));
  (void)remove_tree(files_, folder);  // if not now, with the next save
}

bool Replicas::is_of_this_host(const std::string& rank_name) const {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i] == hosts_[static_cast<std::size_t>(rank_)] &&
        rank_folder(settings_, static_cast<int>(i)).ends_with("/" + rank_name))
      return true;
  }
  return false;
}

// Others of this host may be at it, too.
void Replicas::remove_all() {
  own_.close();
  replica_.close();
  (void)remove_tree(files_, settings_.host_folder());
  (void)files_.remove(settings_.root);  // when it is empty
}

Result<void> make_path(store::Files& files, const std::string& path) {
  const Result<bool> there = files.exists(path);
  if (!there) return tl::unexpected(there.error());
  if (*there) return {};
  if (Result<void> above = make_path(files, folder_of(path)); !above) return above;
  Result<void> made = files.make_folder(path);
  return made || !files.exists(path).value_or(false) ? made : Result<void>();  // another rank was faster
}

Result<std::unique_ptr<Replicas>> make_replicas(comm::Communicator& world, const PeerSettings& settings) {
  if (!settings.wanted() || comm::size_of(world) == 1) return nullptr;
  const auto own = static_cast<std::int64_t>(fnv1a(settings.host));
  std::vector<std::int64_t> hosts(static_cast<std::size_t>(comm::size_of(world)), own);
  const comm::Call call{.verb = comm::Verb::all_gather,
                        .input = &own,
                        .output = hosts.data(),
                        .count = 1,
                        .type = comm::ElementType::i64};
  if (Result<void> done = comm::run(world, call); !done) return tl::unexpected(done.error());
  Result<comm::Group> group = comm::split(world, 0, comm::rank_of(world));
  if (!group) return tl::unexpected(group.error());
  return std::make_unique<Replicas>(settings, std::move(hosts), std::move(*group));
}

Result<void> share_text(comm::Communicator& world, int from, std::string& text) {
  if (comm::size_of(world) == 1) return {};
  auto size = static_cast<std::int64_t>(text.size());
  comm::Call call{.verb = comm::Verb::broadcast,
                  .input = &size,
                  .output = &size,
                  .count = 1,
                  .type = comm::ElementType::i64,
                  .root = from};
  if (Result<void> done = comm::run(world, call); !done) return done;
  // In whole words, which is what is sent.
  const std::size_t words = (static_cast<std::size_t>(size) + sizeof(std::int64_t) - 1) / sizeof(std::int64_t);
  if (words == 0) return {};
  text.resize(words * sizeof(std::int64_t), ' ');
  call.input = text.data();
  call.output = text.data();
  call.count = words;
  Result<void> done = comm::run(world, call);
  text.resize(static_cast<std::size_t>(size));
  return done;
}

}  // namespace twinpod::train
