// The file system of this machine: local disks, NFS, Lustre.
//
//     PosixFiles files("runs/a");          // a store: symbolic links below this folder are not followed
//     (posix_place.hpp) PosixFiles disk;                     // files that a user named
//
// Only what is a regular file is read: whoever may write to a store must not make us wait for a pipe.
#pragma once

#include "store/files.hpp"

namespace twinpod::store {

class PosixFiles : public Files {
 public:
  explicit PosixFiles(std::string root = "") : root_(std::move(root)) {}

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
  Result<Locked> lock(const std::string& path) override;
  // create(), for reading, too, as a mapping wants it.
  Result<File> create_to_map(const std::string& path);

 protected:
  // A descriptor, for who wants another one than create() and open() make. `what` is for messages.
  Result<File> open_as(const std::string& path, int flags, std::string_view what) const;

 private:
  std::string root_;
};

}  // namespace twinpod::store
