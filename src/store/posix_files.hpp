// The file system of this machine: local disks, NFS, Lustre.
#pragma once

#include "store/files.hpp"

namespace twinpod::store {

class PosixFiles : public Files {
 public:
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
  Result<std::int64_t> modified_s(const std::string& path) override;
};

}  // namespace twinpod::store
