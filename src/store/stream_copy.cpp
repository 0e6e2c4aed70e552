#include "store/stream_copy.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace twinpod::store {

#if defined(__SSE2__)
void stream_copy(std::byte* to, const std::byte* from, std::size_t count) {
  constexpr std::size_t kShort = 64 << 10;  // stays in the cache anyway
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kPiece = sizeof(__m128i);
  if (count < kShort) {
    std::memcpy(to, from, count);
    return;
  }
  const std::size_t head = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  std::memcpy(to, from, head);
  const std::size_t end = head + (count - head) / kLine * kLine;
  for (std::size_t i = head; i < end; i += kLine) {
    for (std::size_t j = 0; j < kLine; j += kPiece) {
      const __m128i piece = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i + j));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i + j), piece);
    }
  }
  _mm_sfence();
  std::memcpy(to + end, from + end, count - end);
}
#else
void stream_copy(std::byte* to, const std::byte* from, std::size_t count) { std::memcpy(to, from, count); }
#endif

}  // namespace twinpod::store
