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
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // older than Linux 5.14
#endif

constexpr std::int64_t kTooLongNs = 50'000'000;  // for one: memory is short or in pieces, so it is not worth while
constexpr std::size_t kLaterBy = 4;
constexpr int kTries = 3;  // the kernel itself may hold a page for a moment
constexpr std::uintptr_t kSmall = 4096;

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000  // headers older than Linux 4.17
#endif

void* address_of(std::uintptr_t at) { return reinterpret_cast<void*>(at); }  // NOLINT: of memory that we were given

bool is_mapped(std::uintptr_t at) {
  unsigned char unused = 0;
  return mincore(address_of(at), kSmall, &unused) == 0 || errno != ENOMEM;
}

void map(std::uintptr_t begin, std::uintptr_t end) {
  if (begin < end)
    mmap(address_of(begin), end - begin, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
         0);
}

// A large buffer of malloc is a mapping of its own, which ends somewhere within a huge page. What is not mapped before
// or behind it gets mapped, too, at most a huge page of nobody's memory, and then the page can be huge. Where that
// fails it stays small.
void fill_up(std::uintptr_t begin, std::uintptr_t end) {
  std::uintptr_t first = begin, last = end;
  while (first < end && !is_mapped(first)) first += kSmall;
  while (last > first && !is_mapped(last - kSmall)) last -= kSmall;
  if (first == end) return;
  map(begin, first);
  map(last, end);
}

bool collapse(void* memory, std::size_t bytes) {
  for (int i = 0; i < kTries; ++i) {
    if (madvise(memory, bytes, MADV_COLLAPSE) == 0) return true;
    if (errno != EAGAIN) return false;
  }
  return false;
}

}  // namespace

// Of shared memory the kernel makes no huge page out of nothing, so something of each must be there.
bool make_huge(void* memory, std::size_t bytes) {
  for (std::size_t page = 0; page < bytes; page += HugePages::kBytes) {
    if (madvise(static_cast<std::byte*>(memory) + page, kSmall, MADV_POPULATE_WRITE) != 0) return false;
  }
  return collapse(memory, bytes);
}

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
  fill_up(first * kBytes, (first + count) * kBytes);
  (void)collapse(address_of(first * kBytes), count * kBytes);
  gave_up_ = now_ns() - start > static_cast<std::int64_t>(count) * kTooLongNs;
}

}  // namespace twinpod::comm
