#include "comm/huge_pages.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "comm/wait.hpp"

namespace twinpod::comm {
namespace {

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // headers older than Linux 6.1
#endif

constexpr std::int64_t kTooLongNs = 50'000'000;  // for one: memory is short or in pieces, so it is not worth while
constexpr std::size_t kLaterBy = 4;
constexpr int kTries = 3;  // the kernel itself may hold a page for a moment

}  // namespace

void HugePages::moved(const void* memory, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t end = begin + bytes;
  const std::lock_guard lock(mutex_);
  if (gave_up_) return;
  std::uintptr_t due = 0;  // so many pages before this one
  std::uintptr_t page = begin / kBytes;
  for (; page * kBytes < end; ++page) {
    const std::size_t here = std::min(end, (page + 1) * kBytes) - std::max(begin, page * kBytes);
    if (is_due(pages_[page], here)) {
      ++due;
    } else {
      make_huge(page - due, due);
      due = 0;
    }
  }
  make_huge(page - due, due);
}

bool HugePages::is_due(Page& page, std::size_t bytes) {
  page.moved += bytes;
  if (page.moved < page.next) return false;
  page.next = kLaterBy * page.moved;
  return true;
}

// Many in one call, because a call costs more than a page: the kernel first has something done by all cores. A page
// that cannot be huge is left as it is: it is only slower.
void HugePages::make_huge(std::uintptr_t first, std::size_t count) {
  if (count == 0) return;
  const std::int64_t start = now_ns();
  auto* const memory = reinterpret_cast<void*>(first * kBytes);  // NOLINT: an address that we got
  int tries = kTries;
  while (madvise(memory, count * kBytes, MADV_COLLAPSE) != 0 && errno == EAGAIN && --tries > 0) continue;
  gave_up_ = now_ns() - start > static_cast<std::int64_t>(count) * kTooLongNs;
}

}  // namespace twinpod::comm
