// Memory that direct I/O accepts: aligned to a block, and not set to zero.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace twinpod::store {

// Of disks and pages; direct I/O moves whole ones.
inline constexpr std::size_t kBlockBytes = 4096;

class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(std::size_t bytes)
      : bytes_(static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, rounded_up(bytes))), &std::free), size_(bytes) {
    if (!bytes_) throw std::bad_alloc();
  }
  static constexpr std::size_t rounded_up(std::size_t bytes) {
    return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  }

  std::byte* data() const { return bytes_.get(); }
  std::size_t size() const { return size_; }
  std::span<std::byte> first(std::size_t count) const { return {bytes_.get(), count}; }

 private:
  std::unique_ptr<std::byte, void (*)(void*)> bytes_ = {nullptr, &std::free};
  std::size_t size_ = 0;
};

}  // namespace twinpod::store
