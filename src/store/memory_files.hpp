// Files in memory: the fastest tier, gone with the process. Nothing in it has to be synced.
//
//     MemoryFiles memory(8 << 30);         // bytes that its files may have together; a write beyond that is refused
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "store/files.hpp"

namespace twinpod::store {

class MemoryFiles final : public Files {
 public:
  explicit MemoryFiles(std::int64_t max_bytes = INT64_MAX) : max_bytes_(max_bytes) {}
  std::int64_t bytes() const;

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
  using Content = std::shared_ptr<Bytes>;
  bool is_free(const std::string& path) const;
  bool has_parent(const std::string& path) const;
  void forget(const std::string& path);
  Result<void> rename_folder(const std::string& from, const std::string& to);
  Bytes* opened(const File& file);

  mutable std::mutex mutex_;
  std::map<std::string, Content> files_;
  std::set<std::string> folders_;
  std::map<int, Content> open_;
  int next_id_ = 1;
  std::int64_t bytes_ = 0;  // of files with a name
  std::int64_t max_bytes_;
};

}  // namespace twinpod::store
