#include "store/memory_files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace twinpod::store {

bool MemoryFiles::is_free(const std::string& path) const { return !files_.contains(path) && !folders_.contains(path); }

// Names at the top, "a" and "/a", lie in a folder that is always there.
bool MemoryFiles::has_parent(const std::string& path) const {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos || slash == 0 || folders_.contains(path.substr(0, slash));
}

void MemoryFiles::forget(const std::string& path) {
  const auto found = files_.find(path);
  if (found == files_.end()) return;
  bytes_ -= static_cast<std::int64_t>(found->second->size());
  files_.erase(found);
}

Bytes* MemoryFiles::opened(const File& file) {
  const auto found = open_.find(file.id);
  return found == open_.end() ? nullptr : found->second.get();
}

std::int64_t MemoryFiles::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

Result<File> MemoryFiles::create(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (!is_free(path)) return io_error(path, "created", EEXIST);
  if (!has_parent(path)) return io_error(path, "created", ENOENT);
  open_[next_id_] = files_[path] = std::make_shared<Bytes>();
  return File{next_id_++, path};
}

Result<File> MemoryFiles::open(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(path);
  if (found == files_.end()) return io_error(path, "opened", ENOENT);
  open_[next_id_] = found->second;
  return File{next_id_++, path};
}

Result<void> MemoryFiles::close(const File& file) {
  const std::lock_guard lock(mutex_);
  open_.erase(file.id);
  return {};
}

Result<std::size_t> MemoryFiles::write(const File& file, std::int64_t offset, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  Bytes* content = opened(file);
  if (content == nullptr || offset < 0) return io_error(file.path, "written", EBADF);
  const std::size_t first = static_cast<std::size_t>(offset);
  const std::size_t end = std::max(content->size(), first + bytes.size());
  const auto more = static_cast<std::int64_t>(end - content->size());
  if (more > max_bytes_ - bytes_) return io_error(file.path, "written", ENOSPC);
  content->resize(end);
  bytes_ += more;
  if (!bytes.empty()) std::memcpy(content->data() + first, bytes.data(), bytes.size());
  return bytes.size();
}

Result<std::size_t> MemoryFiles::read(const File& file, std::int64_t offset, std::span<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  const Bytes* content = opened(file);
  if (content == nullptr || offset < 0) return io_error(file.path, "read", EBADF);
  const std::size_t first = std::min(static_cast<std::size_t>(offset), content->size());
  const std::size_t count = std::min(bytes.size(), content->size() - first);
  if (count > 0) std::memcpy(bytes.data(), content->data() + first, count);
  return count;
}

Result<std::int64_t> MemoryFiles::size(const File& file) {
  const std::lock_guard lock(mutex_);
  const Bytes* content = opened(file);
  if (content == nullptr) return io_error(file.path, "examined", EBADF);
  return static_cast<std::int64_t>(content->size());
}

Result<void> MemoryFiles::sync(const File& /*file*/) { return {}; }

Result<void> MemoryFiles::sync_folder(const std::string& /*path*/) { return {}; }

Result<void> MemoryFiles::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  if (folders_.contains(from)) return rename_folder(from, to);
  const auto found = files_.find(from);
  if (found == files_.end() || !has_parent(to)) return io_error(from, "renamed to " + to, ENOENT);
  if (folders_.contains(to)) return io_error(from, "renamed to " + to, EISDIR);
  const Content content = found->second;
  files_.erase(found);
  forget(to);
  files_[to] = content;
  return {};
}

Result<void> MemoryFiles::rename_folder(const std::string& from, const std::string& to) {
  if (!is_free(to)) return io_error(from, "renamed to " + to, EEXIST);
  if (!has_parent(to)) return io_error(from, "renamed to " + to, ENOENT);
  const std::string inside = from + "/";
  std::map<std::string, Content> files;
  for (auto& [name, content] : files_) {
    files[name.starts_with(inside) ? to + name.substr(from.size()) : name] = std::move(content);
  }
  files_ = std::move(files);
  std::set<std::string> folders;
  for (const std::string& name : folders_) {
    folders.insert(name == from || name.starts_with(inside) ? to + name.substr(from.size()) : name);
  }
  folders_ = std::move(folders);
  return {};
}

Result<void> MemoryFiles::make_folder(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (!is_free(path)) return io_error(path, "created", EEXIST);
  if (!has_parent(path)) return io_error(path, "created", ENOENT);
  folders_.insert(path);
  return {};
}

Result<void> MemoryFiles::remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (is_free(path)) return io_error(path, "removed", ENOENT);
  const std::string inside = path + "/";
  const auto starts = [&](const std::string& name) { return name.starts_with(inside); };
  const auto file = files_.lower_bound(inside);
  const auto folder = folders_.lower_bound(inside);
  const bool holds_file = file != files_.end() && starts(file->first);
  const bool holds_folder = folder != folders_.end() && starts(*folder);
  if (holds_file || holds_folder) return io_error(path, "removed", ENOTEMPTY);
  forget(path);
  folders_.erase(path);
  return {};
}

Result<std::vector<std::string>> MemoryFiles::list(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const bool top = path.empty() || path == "/" || path == ".";
  if (!top && !folders_.contains(path)) return io_error(path, "listed", ENOENT);
  const std::string inside = path == "/" ? "/" : top ? "" : path + "/";
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (!name.starts_with(inside) || name.size() == inside.size()) return;
    if (name.find('/', inside.size()) == std::string::npos) names.push_back(name.substr(inside.size()));
  };
  for (const auto& [name, content] : files_) add(name);
  for (const std::string& name : folders_) add(name);
  std::sort(names.begin(), names.end());
  return names;
}

Result<bool> MemoryFiles::exists(const std::string& path) {
  const std::lock_guard lock(mutex_);
  return path == "/" || path == "." || !is_free(path);
}

}  // namespace twinpod::store
