// A file's bytes in memory, read-only: pages come when they are touched.
//
//     Result<MappedFile> file = map_file("tokens.bin");
//     file->bytes()[0]
//
// The file must not be cut short while it is mapped: the system ends a process that reads pages which are gone.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "core/error.hpp"

namespace twinpod::data {

class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(void* address, std::size_t size) : address_(address), size_(size) {}
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(size_, other.size_);
    return *this;
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(address_), size_}; }

 private:
  void* address_ = nullptr;  // nullptr: an empty file, or none
  std::size_t size_ = 0;
};

Result<MappedFile> map_file(const std::string& path);
Result<MappedFile> map_descriptor(const std::string& path, int descriptor);  // the path is for messages

// Starts to read these bytes of a mapped file, without waiting for them.
void read_ahead(std::span<const std::byte> bytes);

// An error about a file: `tokens.idx: cannot be opened: No such file or directory`.
tl::unexpected<Error> file_error(const std::string& path, std::string message, std::string hint = "");

}  // namespace twinpod::data
