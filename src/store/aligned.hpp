// Memory that direct I/O accepts: aligned to a block, not set to zero, and in large pages when it is long, as the
// kernel has to look up each page for each read and write.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace twinpod::store {

// Of disks and pages; direct I/O moves whole ones.
inline constexpr std::size_t kBlockBytes = 4096;
inline constexpr std::size_t kLargePageBytes = 2 << 20;

class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(std::size_t bytes) : size_(bytes) {
    const std::size_t page = bytes >= kLargePageBytes ? kLargePageBytes : kBlockBytes;
    const std::size_t room = (bytes + page - 1) / page * page;
    bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(page, room)));
    if (!bytes_) throw std::bad_alloc();
    if (page == kLargePageBytes) (void)::madvise(bytes_.get(), room, MADV_HUGEPAGE);  // a wish
  }

  std::byte* data() const { return bytes_.get(); }
  std::size_t size() const { return size_; }
  std::span<std::byte> first(std::size_t count) const { return {bytes_.get(), count}; }

 private:
  std::unique_ptr<std::byte, void (*)(void*)> bytes_ = {nullptr, &std::free};
  std::size_t size_ = 0;
};

}  // namespace twinpod::store
