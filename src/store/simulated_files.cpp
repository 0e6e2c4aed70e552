#include "store/simulated_files.hpp"

#include <algorithm>
#include <cstring>

namespace twinpod::store {
namespace {

void apply(Bytes& bytes, std::int64_t offset, std::span<const std::byte> written) {
  if (written.empty()) return;
  const auto first = static_cast<std::size_t>(offset);
  if (bytes.size() < first + written.size()) bytes.resize(first + written.size());
  std::memcpy(bytes.data() + first, written.data(), written.size());
}

}  // namespace

SimulatedFiles::SimulatedFiles() { nodes_[1].folder = true; }

int SimulatedFiles::next_fault(Kind kind) {
  ++operations_;
  if (crash_at_ > 0 && operations_ >= crash_at_) return ESHUTDOWN;
  const bool hit = fault_.at > 0 && (operations_ == fault_.at || (fault_.lasting && operations_ > fault_.at));
  if (!hit) return 0;
  if (fault_.code == kShortWrite) return kind == Kind::write ? kShortWrite : 0;
  const bool full = fault_.code == ENOSPC || fault_.code == EDQUOT;
  return full && kind == Kind::read ? 0 : fault_.code;  // a full disk can be read
}

SimulatedFiles::Place SimulatedFiles::find(const std::string& path) {
  Place place{&nodes_[1], "", 1};
  std::size_t begin = 0;
  while (begin < path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    begin = end + 1;
    if (name.empty()) continue;
    const auto node = nodes_.find(place.node);
    if (node == nodes_.end() || !node->second.folder) return {};
    place.folder = &node->second;
    place.name = name;
    const auto found = place.folder->names.find(name);
    place.node = found == place.folder->names.end() ? 0 : found->second;
  }
  return place;
}

SimulatedFiles::Node* SimulatedFiles::open_node(const File& file) {
  const auto found = open_.find(file.id);
  return found == open_.end() ? nullptr : &nodes_[found->second];
}

void SimulatedFiles::apply_names(std::map<std::string, int>& names, const NameChange& change) {
  for (const auto& [name, node] : change) {
    if (node == 0) {
      names.erase(name);
    } else {
      names[name] = node;
    }
  }
}

void SimulatedFiles::change_names(Node& folder, const NameChange& change) {
  apply_names(folder.names, change);
  folder.unsynced_names.push_back(change);
}

Result<File> SimulatedFiles::open_as(const std::string& path, int node) {
  const int id = next_id_++;
  open_[id] = node;
  return File{id, path};
}

Result<int> SimulatedFiles::new_node(const std::string& path, bool folder) {
  if (const int code = next_fault(Kind::name); code != 0) return io_error(path, "created", code);
  const Place place = find(path);
  if (place.folder == nullptr) return io_error(path, "created", ENOENT);
  if (place.node != 0) return io_error(path, "created", EEXIST);
  const int node = next_id_++;
  nodes_[node].folder = folder;
  change_names(*place.folder, {{place.name, node}});
  return node;
}

Result<File> SimulatedFiles::create(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const Result<int> node = new_node(path, false);
  if (!node) return tl::unexpected(node.error());
  return open_as(path, *node);
}

Result<File> SimulatedFiles::open(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (const int code = next_fault(Kind::read); code != 0) return io_error(path, "opened", code);
  const Place place = find(path);
  if (place.node == 0) return io_error(path, "opened", ENOENT);
  return open_as(path, place.node);
}

Result<void> SimulatedFiles::close(const File& file) {
  const std::lock_guard lock(mutex_);
  open_.erase(file.id);
  return {};
}

Result<std::size_t> SimulatedFiles::write(const File& file, std::int64_t offset, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  const int code = next_fault(Kind::write);
  if (code > 0) return io_error(file.path, "written", code);
  Node* node = open_node(file);
  if (node == nullptr) return io_error(file.path, "written", EBADF);
  if (code == kShortWrite) bytes = bytes.first((bytes.size() + 1) / 2);
  apply(node->bytes, offset, bytes);
  node->unsynced.push_back({offset, Bytes(bytes.begin(), bytes.end())});
  return bytes.size();
}

Result<std::size_t> SimulatedFiles::read(const File& file, std::int64_t offset, std::span<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  if (const int code = next_fault(Kind::read); code != 0) return io_error(file.path, "read", code);
  const Node* node = open_node(file);
  if (node == nullptr || offset < 0) return io_error(file.path, "read", EBADF);
  const std::size_t first = std::min(static_cast<std::size_t>(offset), node->bytes.size());
  const std::size_t count = std::min(bytes.size(), node->bytes.size() - first);
  if (count > 0) std::memcpy(bytes.data(), node->bytes.data() + first, count);
  return count;
}

Result<std::int64_t> SimulatedFiles::size(const File& file) {
  const std::lock_guard lock(mutex_);
  if (const int code = next_fault(Kind::read); code != 0) return io_error(file.path, "examined", code);
  const Node* node = open_node(file);
  if (node == nullptr) return io_error(file.path, "examined", EBADF);
  return static_cast<std::int64_t>(node->bytes.size());
}

Result<void> SimulatedFiles::sync(const File& file) {
  const std::lock_guard lock(mutex_);
  Result<void> synced = sync_once(file);
  return !synced && lie_ == Lie::sync_again ? sync_once(file) : synced;
}

Result<void> SimulatedFiles::sync_once(const File& file) {
  const int code = next_fault(Kind::sync);
  Node* node = open_node(file);
  if (code == 0 && node == nullptr) return io_error(file.path, "brought to the disk", EBADF);
  if (code == 0 && lie_ == Lie::sync) return {};
  if (code == 0) {
    for (const Write& write : node->unsynced) apply(node->durable, write.offset, write.bytes);
  }
  // After a failure they are gone all the same; only a crash leaves them on their way.
  if (node != nullptr && code != ESHUTDOWN) node->unsynced.clear();
  if (code != 0) return io_error(file.path, "brought to the disk", code);
  return {};
}

Result<void> SimulatedFiles::sync_folder(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const int code = next_fault(Kind::sync);
  const Place place = find(path);
  if (code == 0 && place.node == 0) return io_error(path, "brought to the disk", ENOENT);
  if (code == ESHUTDOWN) return io_error(path, "brought to the disk", code);
  if (code == 0 && lie_ == Lie::sync_folder) return {};
  Node& folder = nodes_[place.node];
  if (code == 0) {
    for (const NameChange& change : folder.unsynced_names) apply_names(folder.durable_names, change);
  }
  folder.unsynced_names.clear();
  if (code != 0) return io_error(path, "brought to the disk", code);
  return {};
}

// Within one folder; the store needs no other, and a rename across folders is not one step everywhere.
Result<void> SimulatedFiles::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  if (const int code = next_fault(Kind::name); code != 0) return io_error(from, "renamed to " + to, code);
  const Place old_place = find(from);
  const Place new_place = find(to);
  if (old_place.node == 0 || new_place.folder == nullptr) return io_error(from, "renamed to " + to, ENOENT);
  if (old_place.folder != new_place.folder) return io_error(from, "renamed to " + to, EXDEV);
  change_names(*old_place.folder, {{old_place.name, 0}, {new_place.name, old_place.node}});
  return {};
}

Result<void> SimulatedFiles::make_folder(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const Result<int> node = new_node(path, true);
  if (!node) return tl::unexpected(node.error());
  return {};
}

Result<void> SimulatedFiles::remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (const int code = next_fault(Kind::name); code != 0) return io_error(path, "removed", code);
  const Place place = find(path);
  if (place.node == 0) return io_error(path, "removed", ENOENT);
  if (!nodes_[place.node].names.empty()) return io_error(path, "removed", ENOTEMPTY);
  change_names(*place.folder, {{place.name, 0}});
  return {};
}

Result<std::vector<std::string>> SimulatedFiles::list(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (const int code = next_fault(Kind::read); code != 0) return io_error(path, "listed", code);
  const Place place = find(path);
  if (place.node == 0 || !nodes_[place.node].folder) return io_error(path, "listed", ENOENT);
  std::vector<std::string> names;
  for (const auto& [name, node] : nodes_[place.node].names) names.push_back(name);
  return names;
}

Result<bool> SimulatedFiles::exists(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (const int code = next_fault(Kind::read); code != 0) return io_error(path, "examined", code);
  return find(path).node != 0;
}

Bytes* SimulatedFiles::contents(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const Place place = find(path);
  return place.node == 0 ? nullptr : &nodes_[place.node].bytes;
}

void SimulatedFiles::restart_node(Node& node, Loss loss, Rng& rng) {
  for (const Write& write : node.unsynced) {
    std::size_t kept = 0;
    if (loss == Loss::some) {
      const std::uint64_t fate = rng.below(3);  // lost, torn, kept
      if (fate == 1) kept = static_cast<std::size_t>(rng.below(write.bytes.size() + 1));
      if (fate == 2) kept = write.bytes.size();
      // The length may have reached the disk without the bytes.
      const auto end = static_cast<std::size_t>(write.offset) + write.bytes.size();
      if (rng.below(2) == 0 && node.durable.size() < end) node.durable.resize(end);
    }
    apply(node.durable, write.offset, std::span(write.bytes).first(kept));
  }
  for (const NameChange& change : node.unsynced_names) {
    if (loss == Loss::some && rng.below(2) == 0) apply_names(node.durable_names, change);
  }
}

void SimulatedFiles::restart(Loss loss, std::uint64_t seed) {
  const std::lock_guard lock(mutex_);
  Rng rng(seed);
  for (auto& [id, node] : nodes_) {
    if (loss == Loss::none) continue;  // the kernel lives on, and has what it had
    restart_node(node, loss, rng);
    node.bytes = node.durable;
    node.names = node.durable_names;
    node.unsynced.clear();
    node.unsynced_names.clear();
  }
  open_.clear();
  operations_ = 0;
  crash_at_ = 0;
  fault_ = {};
  lie_ = Lie::none;
}

}  // namespace twinpod::store
