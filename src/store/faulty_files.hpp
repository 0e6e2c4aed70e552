// Any files, of which one operation fails on purpose, or all for a while: for tests that a fault is over when it is
// over.
//
//     FaultyFiles files(disk);
//     files.fail({.at = 17, .code = ENOSPC, .lasting = true});     // operation 17 and all later ones
//     ... saves fail ...
//     files.fail({});                                              // there is room again
#pragma once

#include <cerrno>
#include <functional>
#include <mutex>

#include "store/simulated_files.hpp"

namespace twinpod::store {

class FaultyFiles final : public Files {
 public:
  explicit FaultyFiles(Files& below) : below_(below) {}

  std::int64_t operations() const {
    const std::lock_guard lock(mutex_);
    return operations_;
  }
  void fail(const IoFault& fault) {
    const std::lock_guard lock(mutex_);
    fault_ = fault;
  }
  // Only operations on such paths; empty: on all.
  void only(std::string part) { only_ = std::move(part); }

  bool has_rename() const override { return below_.has_rename(); }
  Result<void> put(const std::string& path, std::span<const std::byte> bytes) override {
    return unless<void>(path, "put", true, [&] { return below_.put(path, bytes); });
  }
  Result<File> create(const std::string& path) override {
    return unless<File>(path, "created", true, [&] { return below_.create(path); });
  }
  Result<File> open(const std::string& path) override {
    return unless<File>(path, "opened", false, [&] { return below_.open(path); });
  }
  Result<void> close(const File& file) override { return below_.close(file); }
  Result<std::size_t> write(const File& file, std::int64_t offset, std::span<const std::byte> bytes) override {
    return unless<std::size_t>(file.path, "written", true, [&] { return below_.write(file, offset, bytes); });
  }
  Result<std::size_t> read(const File& file, std::int64_t offset, std::span<std::byte> bytes) override {
    return unless<std::size_t>(file.path, "read", false, [&] { return below_.read(file, offset, bytes); });
  }
  // Half of it is written, as by a disk that is full then.
  Result<void> begin_write(const File& file, std::int64_t offset, std::span<const std::byte> bytes) override {
    const int code = next(file.path, true);
    if (code == 0) return below_.begin_write(file, offset, bytes);
    Result<void> half = below_.begin_write(file, offset, bytes.first(bytes.size() / 2));
    if (half) half = below_.wait(file, 0);
    return half ? Result<void>(io_error(file.path, "written", code)) : half;
  }
  Result<void> begin_read(const File& file, std::int64_t offset, std::span<std::byte> bytes) override {
    return unless<void>(file.path, "read", false, [&] { return below_.begin_read(file, offset, bytes); });
  }
  Result<void> wait(const File& file, std::size_t left) override { return below_.wait(file, left); }
  Result<std::int64_t> size(const File& file) override {
    return unless<std::int64_t>(file.path, "examined", false, [&] { return below_.size(file); });
  }
  Result<void> sync(const File& file) override {
    return unless<void>(file.path, "brought to the disk", true, [&] { return below_.sync(file); });
  }
  Result<void> sync_folder(const std::string& path) override {
    return unless<void>(path, "brought to the disk", true, [&] { return below_.sync_folder(path); });
  }
  Result<void> rename(const std::string& from, const std::string& to) override {
    return unless<void>(from, "renamed", true, [&] { return below_.rename(from, to); });
  }
  Result<void> make_folder(const std::string& path) override {
    return unless<void>(path, "created", true, [&] { return below_.make_folder(path); });
  }
  Result<void> remove(const std::string& path) override {
    return unless<void>(path, "removed", true, [&] { return below_.remove(path); });
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    return unless<std::vector<std::string>>(path, "listed", false, [&] { return below_.list(path); });
  }
  Result<bool> exists(const std::string& path) override {
    return unless<bool>(path, "examined", false, [&] { return below_.exists(path); });
  }
  Result<Locked> lock(const std::string& path) override { return below_.lock(path); }

 private:
  // The errno that this one fails with; 0: none. A full disk can be read.
  int next(const std::string& path, bool changes) {
    const std::lock_guard lock(mutex_);
    if (path.find(only_) == std::string::npos) return 0;
    ++operations_;
    const bool hit = fault_.at > 0 && (operations_ == fault_.at || (fault_.lasting && operations_ > fault_.at));
    return hit && (changes || fault_.code != ENOSPC) ? fault_.code : 0;
  }
  template <typename T>
  Result<T> unless(const std::string& path, std::string_view what, bool changes,
                   const std::function<Result<T>()>& act) {
    const int code = next(path, changes);
    if (code != 0) return io_error(path, what, code);
    return act();
  }

  Files& below_;
  std::string only_;
  mutable std::mutex mutex_;
  IoFault fault_;
  std::int64_t operations_ = 0;
};

}  // namespace twinpod::store
