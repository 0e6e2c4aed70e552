// Memory for values that other processes read where they lie, and that is used again: fresh memory costs a page fault
// for each page, more than copying to it.
//
//     auto memory = std::make_shared<ArenaMemory>(arena, bytes);         // a part of the shared segment, one's own
//     std::pmr::vector<float> gradient(1000000, memory.get());
//
// Small blocks, and what does not fit any more, come from the heap. Large ones are in huge pages, where the kernel has
// them for shared memory. Not thread safe. REQUIRES: the arena begins where a huge page can.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory_resource>
#include <vector>

#include "comm/huge_pages.hpp"

namespace twinpod::ps {

class ArenaMemory : public std::pmr::memory_resource {
 public:
  ArenaMemory(std::byte* arena, std::size_t bytes) : arena_(arena), bytes_(bytes) {}

 private:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kLarge = std::size_t{256} << 10U;

  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    const std::size_t size = (bytes + kPage - 1) / kPage * kPage;
    if (bytes < kPage || alignment > kPage) return heap_->allocate(bytes, alignment);
    std::vector<std::byte*>& free = free_[size];
    if (!free.empty()) {
      std::byte* const block = free.back();
      free.pop_back();
      return block;
    }
    if (bytes_ - used_ < size) return heap_->allocate(bytes, alignment);
    std::byte* const block = arena_ + used_;
    used_ += size;
    if (size >= kLarge) make_huge_up_to(used_);
    return block;
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    auto* const block = static_cast<std::byte*>(memory);
    if (block < arena_ || block >= arena_ + used_) return heap_->deallocate(memory, bytes, alignment);
    free_[(bytes + kPage - 1) / kPage * kPage].push_back(block);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  void make_huge_up_to(std::size_t end) {
    constexpr std::size_t kHuge = comm::HugePages::kBytes;
    const std::size_t last = std::min((end + kHuge - 1) / kHuge * kHuge, bytes_ / kHuge * kHuge);
    if (!has_huge_ || huge_ >= last) return;
    has_huge_ = comm::make_huge(arena_ + huge_, last - huge_);
    huge_ = last;
  }

  std::byte* arena_;
  std::size_t bytes_;
  std::size_t used_ = 0;
  std::size_t huge_ = 0;  // bytes of it that were made huge, from its beginning on
  bool has_huge_ = true;  // the kernel did so
  std::map<std::size_t, std::vector<std::byte*>> free_;
  std::pmr::memory_resource* heap_ = std::pmr::new_delete_resource();
};

}  // namespace twinpod::ps
