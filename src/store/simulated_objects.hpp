// An object store in memory that fails on purpose, for the tests: no rename, a file is seen when its sync has returned,
// uploads that were not ended stay until somebody removes their folder.
//
//     SimulatedObjects objects;
//     objects.fail_at(17, Outcome::done_without_answer);       // it happens, and says that it failed
//     objects.crash_at(30);                                    // nothing happens from there on
//     objects.restart();
#pragma once

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <string>

#include "store/files.hpp"

namespace twinpod::store {

enum class Outcome { not_done, done_without_answer };

// Used by one thread.
class SimulatedObjects final : public Files {
 public:
  std::int64_t operations() const { return operations_; }
  std::size_t num_uploads() const { return uploads_.size(); }
  void fail_at(std::int64_t operation, Outcome outcome) {
    fail_at_ = operation;
    outcome_ = outcome;
  }
  void crash_at(std::int64_t operation) { crash_at_ = operation; }
  // What was uploaded stays; nobody has it open any more.
  void restart() {
    open_.clear();
    fail_at_ = crash_at_ = 0;
  }

  bool has_rename() const override { return false; }
  Result<void> put(const std::string& path, std::span<const std::byte> bytes) override {
    return change(path, "written", [&] { objects_[path] = Bytes(bytes.begin(), bytes.end()); });
  }
  Result<File> create(const std::string& path) override {
    if (refuses()) return io_error(path, "created", EIO);
    if (taken(path)) return io_error(path, "created", EEXIST);
    open_[next_id_] = path;
    return File{next_id_++, path};
  }
  Result<File> open(const std::string& path) override {
    if (refuses()) return io_error(path, "opened", EIO);
    if (!objects_.contains(path)) return io_error(path, "opened", ENOENT);
    open_[next_id_] = path;
    return File{next_id_++, path};
  }
  // Gives up what was not synced, if it can still be reached.
  Result<void> close(const File& file) override {
    open_.erase(file.id);
    if (crash_at_ == 0 || operations_ < crash_at_) uploads_.erase(file.id);
    return {};
  }
  Result<std::size_t> write(const File& file, std::int64_t offset, std::span<const std::byte> bytes) override {
    if (refuses()) return io_error(file.path, "written", EIO);
    Upload& upload = uploads_[file.id];
    upload.path = file.path;
    if (offset != static_cast<std::int64_t>(upload.bytes.size())) return io_error(file.path, "written", ESPIPE);
    upload.bytes.insert(upload.bytes.end(), bytes.begin(), bytes.end());
    return bytes.size();
  }
  Result<void> sync(const File& file) override {
    return change(file.path, "brought to the server", [&] {
      objects_[file.path] = std::move(uploads_[file.id].bytes);
      uploads_.erase(file.id);
    });
  }
  Result<std::size_t> read(const File& file, std::int64_t offset, std::span<std::byte> bytes) override {
    if (refuses()) return io_error(file.path, "read", EIO);
    const Bytes& object = objects_[file.path];
    const std::size_t first = std::min(static_cast<std::size_t>(offset), object.size());
    const std::size_t count = std::min(bytes.size(), object.size() - first);
    std::copy_n(object.begin() + static_cast<std::ptrdiff_t>(first), count, bytes.begin());
    return count;
  }
  Result<std::int64_t> size(const File& file) override {
    if (refuses()) return io_error(file.path, "examined", EIO);
    return static_cast<std::int64_t>(objects_[file.path].size());
  }
  Result<void> sync_folder(const std::string& /*path*/) override { return {}; }
  Result<void> rename(const std::string& from, const std::string& to) override {
    return io_error(from, "renamed to " + to, ENOTSUP);
  }
  Result<void> make_folder(const std::string& path) override {
    if (taken(path)) return io_error(path, "created", EEXIST);
    return change(path, "created", [&] { objects_[path + "/"] = {}; });
  }
  Result<void> remove(const std::string& path) override {
    if (!taken(path)) return io_error(path, "removed", ENOENT);
    if (!objects_.contains(path) && !names_in(path).empty()) return io_error(path, "removed", ENOTEMPTY);
    return change(path, "removed", [&] {
      std::erase_if(uploads_, [&](const auto& one) { return one.second.path.starts_with(path + "/"); });
      objects_.erase(path);
      objects_.erase(path + "/");
    });
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    if (refuses()) return io_error(path, "listed", EIO);
    if (!taken(path)) return io_error(path, "listed", ENOENT);
    const std::set<std::string> names = names_in(path);
    return std::vector<std::string>(names.begin(), names.end());
  }
  Result<bool> exists(const std::string& path) override {
    if (refuses()) return io_error(path, "examined", EIO);
    return path == "/" || taken(path);
  }

 private:
  struct Upload {
    std::string path;
    Bytes bytes;
  };

  bool refuses() {
    ++operations_;
    return operations_ == fail_at_ || (crash_at_ > 0 && operations_ >= crash_at_);
  }
  template <typename Do>
  Result<void> change(const std::string& path, std::string_view what, const Do& act) {
    const bool refused = refuses();
    const bool crashed = crash_at_ > 0 && operations_ >= crash_at_;
    if (!refused || (!crashed && outcome_ == Outcome::done_without_answer)) act();
    if (refused) return io_error(path, what, EIO);
    return {};
  }
  bool taken(const std::string& path) const {
    const auto below = objects_.lower_bound(path + "/");
    return objects_.contains(path) || (below != objects_.end() && below->first.starts_with(path + "/"));
  }
  std::set<std::string> names_in(const std::string& path) const {
    const std::string inside = path + "/";
    std::set<std::string> names;
    for (const auto& [key, bytes] : objects_) {
      if (!key.starts_with(inside) || key == inside) continue;
      names.insert(key.substr(inside.size(), key.find('/', inside.size()) - inside.size()));
    }
    return names;
  }

  std::map<std::string, Bytes> objects_;  // a folder's ends in a slash
  std::map<int, Upload> uploads_;
  std::map<int, std::string> open_;
  int next_id_ = 1;
  std::int64_t operations_ = 0;
  std::int64_t fail_at_ = 0;
  std::int64_t crash_at_ = 0;
  Outcome outcome_ = Outcome::not_done;
};

}  // namespace twinpod::store
