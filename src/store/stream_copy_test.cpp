#include "store/stream_copy.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace twinpod::store {
namespace {

TEST(StoreStreamCopy, EveryByteIsCopiedAndNoOther) {
  constexpr std::size_t kRoom = 200'000;
  std::vector<std::byte> from(kRoom);
  for (std::size_t i = 0; i < kRoom; ++i) from[i] = static_cast<std::byte>(i * 7 + i / 256 + 1);
  for (const std::size_t count : {0, 1, 63, 65'536, 65'599, 131'072, 150'001}) {
    for (const std::size_t offset : {0, 1, 16, 63}) {
      std::vector<std::byte> to(kRoom, std::byte{0xee});
      stream_copy(to.data() + offset, from.data() + 3, count);
      EXPECT_TRUE(std::equal(to.begin() + static_cast<std::ptrdiff_t>(offset),
                             to.begin() + static_cast<std::ptrdiff_t>(offset + count), from.begin() + 3))
          << count << " " << offset;
      EXPECT_TRUE(offset == 0 || to[offset - 1] == std::byte{0xee});
      EXPECT_EQ(to[offset + count], std::byte{0xee});
    }
  }
}

}  // namespace
}  // namespace twinpod::store
