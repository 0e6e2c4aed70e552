// Memory that other processes read and write through the kernel, again and again, is given huge pages.
//
// The kernel looks up every page of the other process by itself, which takes longer than copying it: 4 KiB at a time it
// moves half of what it moves from huge pages. Making a page huge copies it once, so only what has been moved a few
// times before gets one; what it holds stays the same. Beside a mapping that ends within a huge page the rest of the
// page is mapped, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace twinpod::comm {

// Whether all of it is in huge pages now; what it holds stays the same. REQUIRES: it begins and ends where a huge page
// does.
bool make_huge(void* memory, std::size_t bytes);

// Any thread may call.
class HugePages {
 public:
  static constexpr std::size_t kBytes = std::size_t{2} << 20U;
  static constexpr std::size_t kFirst = 16;  // times that a page is moved before it becomes huge

  // Others have read or written this memory. REQUIRES: nobody does so any more, or its pages cannot be moved.
  void moved(const void* memory, std::size_t bytes);

 private:
  struct Page {
    std::size_t moved = 0;               // bytes
    std::size_t next = kFirst * kBytes;  // when to make it huge; again later, because it may be other memory by then
  };
  static bool is_due(Page& page, std::size_t bytes);
  void make_huge(std::uintptr_t first, std::size_t count);

  std::mutex mutex_;
  std::unordered_map<std::uintptr_t, Page> pages_;  // by number
  bool gave_up_ = false;
};

}  // namespace twinpod::comm
