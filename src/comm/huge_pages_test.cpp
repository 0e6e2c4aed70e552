#include "comm/huge_pages.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

namespace twinpod::comm {
namespace {

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
  Mapping() {
    madvise(all, kSize, MADV_NOHUGEPAGE);
    std::memset(all, 7, kSize);
    madvise(all, kSize, MADV_HUGEPAGE);
  }
  ~Mapping() { munmap(all, kSize); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::byte* page() const {  // the first whole one
    const auto begin = reinterpret_cast<std::uintptr_t>(all);
    return all + (HugePages::kBytes - begin % HugePages::kBytes) % HugePages::kBytes;
  }
};

TEST(HugePages, MemoryThatIsMovedAgainAndAgainGetsThemAndKeepsItsBytes) {
  const Mapping mapping;
  if (madvise(mapping.page() + HugePages::kBytes, HugePages::kBytes, 25) != 0) GTEST_SKIP() << "no huge pages here";
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
  if (madvise(mapping.page() + HugePages::kBytes, HugePages::kBytes, 25) != 0) GTEST_SKIP() << "no huge pages here";
  const long before = huge_kilobytes(mapping.page());
  HugePages pages;
  for (std::size_t i = 0; i < 2 * HugePages::kFirst; ++i) {
    EXPECT_EQ(huge_kilobytes(mapping.page()), before);
    pages.moved(mapping.page() + HugePages::kBytes / 2, HugePages::kBytes / 2);
  }
  EXPECT_EQ(huge_kilobytes(mapping.page()), before + 2048);
}

TEST(HugePages, MemoryThatIsNotThereDoesNoHarm) {
  HugePages pages;
  for (int i = 0; i < 1000; ++i) pages.moved(reinterpret_cast<void*>(HugePages::kBytes * 5), HugePages::kBytes);
}

}  // namespace
}  // namespace twinpod::comm
