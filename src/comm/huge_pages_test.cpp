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

struct Mapping {
  static constexpr std::size_t kSize = 4 * HugePages::kBytes;
  std::byte* all =
      static_cast<std::byte*>(mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  Mapping() { fill(all, kSize); }
  ~Mapping() { munmap(all, kSize); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  // Touched for the first time in small pages.
  static void fill(std::byte* memory, std::size_t bytes) {
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    std::memset(memory, 7, bytes);
    madvise(memory, bytes, MADV_HUGEPAGE);
  }
  std::byte* page() const {  // the first whole one
    const auto begin = reinterpret_cast<std::uintptr_t>(all);
    return all + (HugePages::kBytes - begin % HugePages::kBytes) % HugePages::kBytes;
  }
};

TEST(HugePages, MemoryThatIsMovedAgainAndAgainGetsThemAndKeepsItsBytes) {
  const Mapping mapping;
  if (madvise(mapping.page() + HugePages::kBytes, HugePages::kBytes, kCollapse) != 0)
    GTEST_SKIP() << "no huge pages here";
  const long before = huge_kilobytes(mapping.page());
  HugePages pages;
  for (std::size_t i = 1; i < HugePages::kFirst; ++i) pages.moved(mapping.page(), HugePages::kBytes);
  EXPECT_EQ(huge_kilobytes(mapping.page()), before);
  pages.moved(mapping.page(), HugePages::kBytes);
  EXPECT_EQ(huge_kilobytes(mapping.page()), before + 2048);
  for (std::size_t i = 0; i < HugePages::kBytes; ++i) ASSERT_EQ(mapping.page()[i], std::byte{7});
}

TEST(HugePages, PartsOfAPageCountTogether) {
  const Mapping mapping;
  if (madvise(mapping.page() + HugePages::kBytes, HugePages::kBytes, kCollapse) != 0)
    GTEST_SKIP() << "no huge pages here";
  const long before = huge_kilobytes(mapping.page());
  HugePages pages;
  for (std::size_t i = 0; i < 2 * HugePages::kFirst; ++i) {
    EXPECT_EQ(huge_kilobytes(mapping.page()), before);
    pages.moved(mapping.page() + HugePages::kBytes / 2, HugePages::kBytes / 2);
  }
  EXPECT_EQ(huge_kilobytes(mapping.page()), before + 2048);
}

// As a large buffer of malloc does.
TEST(HugePages, AMappingThatBeginsWithinAPageGetsItToo) {
  const Mapping other;
  if (madvise(other.page(), HugePages::kBytes, kCollapse) != 0) GTEST_SKIP() << "no huge pages here";
  constexpr std::size_t kHole = HugePages::kBytes / 4;
  void* const all = mmap(nullptr, 2 * HugePages::kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto begin = reinterpret_cast<std::uintptr_t>(all);
  const std::size_t to_page = (HugePages::kBytes - begin % HugePages::kBytes) % HugePages::kBytes;
  munmap(all, to_page + kHole);
  std::byte* const buffer = static_cast<std::byte*>(all) + to_page + kHole;
  std::memset(buffer, 7, HugePages::kBytes - kHole);
  const long before = huge_kilobytes(buffer);
  HugePages pages;
  for (std::size_t i = 0; i < 2 * HugePages::kFirst; ++i) pages.moved(buffer, HugePages::kBytes - kHole);
  EXPECT_EQ(huge_kilobytes(buffer), before + 2048);
  for (std::size_t i = 0; i < HugePages::kBytes - kHole; ++i) ASSERT_EQ(buffer[i], std::byte{7});
  munmap(all, 2 * HugePages::kBytes);
}

// Freed memory is given to somebody else at the same address.
TEST(HugePages, MemoryThatTookThePlaceOfOtherGetsThemLater) {
  const Mapping mapping;
  if (madvise(mapping.page() + HugePages::kBytes, HugePages::kBytes, kCollapse) != 0)
    GTEST_SKIP() << "no huge pages here";
  const long before = huge_kilobytes(mapping.page());
  HugePages pages;
  for (std::size_t i = 0; i < HugePages::kFirst; ++i) pages.moved(mapping.page(), HugePages::kBytes);
  ASSERT_EQ(huge_kilobytes(mapping.page()), before + 2048);
  madvise(mapping.page(), HugePages::kBytes, MADV_DONTNEED);
  Mapping::fill(mapping.page(), HugePages::kBytes);
  ASSERT_EQ(huge_kilobytes(mapping.page()), before);
  for (std::size_t i = 0; i < 4 * HugePages::kFirst; ++i) pages.moved(mapping.page(), HugePages::kBytes);
  EXPECT_EQ(huge_kilobytes(mapping.page()), before + 2048);
}

}  // namespace
}  // namespace twinpod::comm
