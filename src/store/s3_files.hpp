// An S3-compatible object store as a tier: AWS, MinIO, Ceph and others.
//
//     S3Files files({.endpoint = "http://127.0.0.1:9000", .bucket = "models", .access_key = ..., .secret_key = ...});
//     begin_checkpoint(files, "runs/a");
//
// Objects have no folders and cannot be renamed, but are there whole or not at all. So a file is seen when sync() has
// returned, and not before; a folder is an empty object whose name ends in a slash, made only when there was none;
// names need no sync. Files are written from their first byte on, in parts that go to the server while more are added.
// What a process that was killed had uploaded is removed with the folder that it was for.
#pragma once

#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>

#include "store/files.hpp"
#include "store/s3_client.hpp"

namespace twinpod::store {

struct S3Options {
  // Of an upload, at first: after each thousand parts twice as much, as there may be no more than ten thousand. A file
  // that fits into one is put at once. Servers want at least 5 MiB.
  std::size_t part_bytes = 16U << 20U;
  std::size_t parts_in_flight = 4;
};

class S3Files final : public Files {
 public:
  explicit S3Files(S3Address address, const S3Options& options = {}) : client_(std::move(address)), options_(options) {}

  bool has_rename() const override { return false; }
  Result<void> put(const std::string& path, std::span<const std::byte> bytes) override;

  Result<File> create(const std::string& path) override;
  Result<File> open(const std::string& path) override;
  // What was not synced by then is given up.
  Result<void> close(const File& file) override;
  Result<std::size_t> write(const File& file, std::int64_t offset, std::span<const std::byte> bytes) override;
  Result<std::size_t> read(const File& file, std::int64_t offset, std::span<std::byte> bytes) override;
  Result<void> begin_read(const File& file, std::int64_t offset, std::span<std::byte> bytes) override;
  Result<void> wait(const File& file, std::size_t left) override;
  Result<std::int64_t> size(const File& file) override;
  Result<void> sync(const File& file) override;
  Result<void> sync_folder(const std::string& path) override;
  Result<void> rename(const std::string& from, const std::string& to) override;
  Result<void> make_folder(const std::string& path) override;
  Result<void> remove(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  Result<bool> exists(const std::string& path) override;
  Result<std::int64_t> modified_s(const std::string& path) override;

 private:
  struct Open {
    std::string key;
    bool writing = false;
    bool done = false;     // it is an object
    S3Object object = {};  // of one that is read
    S3Upload upload = {};  // without an id: nothing was sent yet
    std::shared_ptr<Bytes> buffer = std::make_shared<Bytes>();
    std::int64_t bytes = 0;  // so far
    int next_part = 1;
    std::vector<std::future<Result<S3Part>>> in_flight = {};
    std::vector<S3Part> parts = {};
    std::deque<std::future<Result<void>>> reads = {};
  };

  std::shared_ptr<Open> opened(const File& file);
  File add(std::shared_ptr<Open> open, const std::string& path);
  std::size_t part_bytes(const Open& open) const;
  Result<void> send_part(Open& open);
  Result<void> collect_part(Open& open);
  Result<void> finish(Open& open);
  Result<void> remove_folder(const std::string& path);

  S3Client client_;
  S3Options options_;
  std::mutex mutex_;  // of the two below; a file is used by one thread at a time
  std::map<int, std::shared_ptr<Open>> open_;
  int next_id_ = 1;
};

}  // namespace twinpod::store
