#include "store/checksum.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "store/checksum_ways.hpp"
#include "store/files.hpp"

namespace twinpod::store {
namespace {

// https://github.com/Cyan4973/xxHash: XXH3 of nothing with seed 0.
TEST(StoreChecksum, IsXxh3) { EXPECT_EQ(checksum({}), 0x2d06800538d394c2U); }

TEST(StoreChecksum, EveryWayComputesTheSame) {
  std::vector<std::byte> bytes(1 << 20);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + i / 251);
  for (const std::size_t count : {0, 1, 16, 17, 128, 129, 240, 241, 1024, 1025, 65'537, 1 << 20}) {
    for (const std::size_t offset : {0, 1, 7}) {
      if (offset + count > bytes.size()) continue;
      const std::span<const std::byte> part = std::span(bytes).subspan(offset, count);
      const std::uint64_t sum = checksum_plain(part);
      EXPECT_EQ(checksum(part), sum) << count;
      EXPECT_TRUE(!has_avx2() || checksum_avx2(part) == sum) << count;
    }
  }
}

}  // namespace
}  // namespace twinpod::store
