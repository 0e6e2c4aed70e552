#include "train/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace twinpod::train {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20U;
constexpr std::size_t kPage = 4096;

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

// One page or more, so that every area is aligned; from two huge pages on in huge pages.
void* map_area(std::int64_t bytes, std::size_t& mapped) {
  const bool huge = static_cast<std::size_t>(bytes) >= 2 * kHugePage;
  mapped = round_up(std::max<std::size_t>(static_cast<std::size_t>(bytes), 1), huge ? kHugePage : kPage);
  const std::size_t room = huge ? mapped + kHugePage : mapped;
  void* area = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED) throw std::bad_alloc();
  if (!huge) return area;
  // Cut to where a huge page begins.
  auto* first = static_cast<std::byte*>(area);
  const std::size_t before = round_up(reinterpret_cast<std::size_t>(first), kHugePage) -  // NOLINT: an address
                             reinterpret_cast<std::size_t>(first);                        // NOLINT: an address
  if (before > 0) munmap(first, before);
  if (before < kHugePage) munmap(first + before + mapped, kHugePage - before);
  madvise(first + before, mapped, MADV_HUGEPAGE);
  return first + before;
}

}  // namespace

Memory::~Memory() {
  for (const auto& [memory, area] : areas_) munmap(memory, area.mapped);
}

void Memory::count(std::int64_t bytes, program::BufferKind kind) {
  live_ += bytes;
  by_kind_[static_cast<std::size_t>(kind)] += static_cast<double>(bytes);
  if (live_ <= peak_) return;
  peak_ = live_;
  at_peak_ = by_kind_;
}

void* Memory::take(std::int64_t bytes, program::BufferKind kind) {
  count(bytes, kind);
  std::vector<void*>& unused = unused_[bytes];
  if (!unused.empty()) {
    void* memory = unused.back();
    unused.pop_back();
    areas_.at(memory).kind = kind;
    return memory;
  }
  Area area{bytes, 0, kind};
  void* memory = map_area(bytes, area.mapped);
  areas_[memory] = area;
  return memory;
}

void Memory::give(void* memory) {
  const Area& area = areas_.at(memory);
  live_ -= area.bytes;
  by_kind_[static_cast<std::size_t>(area.kind)] -= static_cast<double>(area.bytes);
  unused_[area.bytes].push_back(memory);
}

}  // namespace twinpod::train
