#include "comm/huge_pages.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

namespace twinpod::comm {
namespace {

constexpr int kCollapse = 25;  // MADV_COLLAPSE, which older headers lack

// Kilobytes of huge pages in the mapping that holds the address; -1 if the kernel does not say.
long huge_kilobytes(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long first = 0;
    unsigned long last = 0;
    long kilobytes = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &last) == 2) here = first <= wanted && wanted < last;
    if (here && std::sscanf(line.c_str(), "AnonHugePages: %ld kB", &kilobytes) == 1) return kilobytes;
  }
  return -1;
}

// One whole page that can be huge, with none beside it that anybody may use: what the kernel says of the mapping is
// said of this page.
struct Mapping {
  static constexpr std::size_t kSize = 4 * HugePages::kBytes;
  std::byte* all = static_cast<std::byte*>(mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::byte* page = all + HugePages::kBytes + to_page(all);

  Mapping() {
    mprotect(page, HugePages::kBytes, PROT_READ | PROT_WRITE);
    fill(page, HugePages::kBytes);
  }
  ~Mapping() { munmap(all, kSize); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  static std::size_t to_page(const void* from) {
    return (HugePages::kBytes - reinterpret_cast<std::uintptr_t>(from) % HugePages::kBytes) % HugePages::kBytes;
  }
  // In small pages; who is asked to make them huge might do so before we look, so the kernel is asked only where it
  // makes all memory huge at once.
  static void fill(std::byte* memory, std::size_t bytes) {
    std::memset(memory, 7, bytes);
    if (huge_kilobytes(memory) <= 0) return;
    madvise(memory, bytes, MADV_DONTNEED);
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    std::memset(memory, 7, bytes);
    madvise(memory, bytes, MADV_HUGEPAGE);
  }
};

bool can_be_huge() {
  const Mapping mapping;
  return madvise(mapping.page, HugePages::kBytes, kCollapse) == 0 && huge_kilobytes(mapping.page) == 2048;
}

TEST(HugePages, MemoryThatIsMovedAgainAndAgainGetsThemAndKeepsItsBytes) {
  if (!can_be_huge()) GTEST_SKIP() << "no huge pages here";
  const Mapping mapping;
  HugePages pages;
  for (std::size_t i = 1; i < HugePages::kFirst; ++i) pages.moved(mapping.page, HugePages::kBytes);
  EXPECT_EQ(huge_kilobytes(mapping.page), 0);
  pages.moved(mapping.page, HugePages::kBytes);
  EXPECT_EQ(huge_kilobytes(mapping.page), 2048);
  for (std::size_t i = 0; i < HugePages::kBytes; ++i) ASSERT_EQ(mapping.page[i], std::byte{7});
}

TEST(HugePages, PartsOfAPageCountTogether) {
  if (!can_be_huge()) GTEST_SKIP() << "no huge pages here";
  const Mapping mapping;
  HugePages pages;
  for (std::size_t i = 0; i < 2 * HugePages::kFirst; ++i) {
    EXPECT_EQ(huge_kilobytes(mapping.page), 0);
    pages.moved(mapping.page + HugePages::kBytes / 2, HugePages::kBytes / 2);
  }
  EXPECT_EQ(huge_kilobytes(mapping.page), 2048);
}

// As a large buffer of malloc does.
TEST(HugePages, AMappingThatBeginsWithinAPageGetsItToo) {
  if (!can_be_huge()) GTEST_SKIP() << "no huge pages here";
  const Mapping mapping;
  constexpr std::size_t kHole = HugePages::kBytes / 4;
  munmap(mapping.page, kHole);
  std::byte* const buffer = mapping.page + kHole;
  HugePages pages;
  for (std::size_t i = 0; i < 2 * HugePages::kFirst; ++i) pages.moved(buffer, HugePages::kBytes - kHole);
  EXPECT_EQ(huge_kilobytes(buffer), 2048);
  for (std::size_t i = 0; i < HugePages::kBytes - kHole; ++i) ASSERT_EQ(buffer[i], std::byte{7});
}

// Freed memory is given to somebody else at the same address.
TEST(HugePages, MemoryThatTookThePlaceOfOtherGetsThemLater) {
  if (!can_be_huge()) GTEST_SKIP() << "no huge pages here";
  const Mapping mapping;
  HugePages pages;
  for (std::size_t i = 0; i < HugePages::kFirst; ++i) pages.moved(mapping.page, HugePages::kBytes);
  ASSERT_EQ(huge_kilobytes(mapping.page), 2048);
  madvise(mapping.page, HugePages::kBytes, MADV_DONTNEED);
  Mapping::fill(mapping.page, HugePages::kBytes);
  ASSERT_EQ(huge_kilobytes(mapping.page), 0);
  for (std::size_t i = 0; i < 4 * HugePages::kFirst; ++i) pages.moved(mapping.page, HugePages::kBytes);
  EXPECT_EQ(huge_kilobytes(mapping.page), 2048);
}

}  // namespace
}  // namespace twinpod::comm
