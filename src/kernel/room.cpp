#include "kernel/room.hpp"

#include <sys/mman.h>

#include <memory>
#include <new>

namespace twinpod::kernel {

// In huge pages, because a product walks through all of it again and again.
std::byte* room_of_thread(std::int64_t bytes) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20U;
  struct Free {
    void operator()(std::byte* room) const { ::operator delete (room, std::align_val_t{kHugePage}); }
  };
  thread_local std::unique_ptr<std::byte, Free> room;
  thread_local std::size_t size = 0;
  if (size < static_cast<std::size_t>(bytes)) {
    size = (static_cast<std::size_t>(bytes) + kHugePage - 1) / kHugePage * kHugePage;
    room.reset();
    room.reset(static_cast<std::byte*>(::operator new (size, std::align_val_t{kHugePage})));
    madvise(room.get(), size, MADV_HUGEPAGE);
  }
  return room.get();
}

}  // namespace twinpod::kernel
