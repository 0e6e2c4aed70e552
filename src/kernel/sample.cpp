#include "kernel/sample.hpp"

#include <cstdint>
#include <cstring>

namespace twinpod::kernel {

void fill_sample(std::span<std::byte> memory) {
  constexpr std::uint64_t kRandom = 0x80FF'80FF'80FF'80FF;  // sign, last bit of the exponent, digits
  constexpr std::uint64_t kFixed = 0x3C00'3C00'3C00'3C00;
  std::uint64_t state = 0x9E37'79B9'7F4A'7C15;
  for (std::size_t at = 0; at + sizeof state <= memory.size(); at += sizeof state) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    const std::uint64_t word = (state & kRandom) | kFixed;
    std::memcpy(memory.data() + at, &word, sizeof word);
  }
}

}  // namespace twinpod::kernel
