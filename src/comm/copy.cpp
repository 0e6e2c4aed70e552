#include "comm/copy.hpp"

#include <cstdint>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

namespace twinpod::comm {

void copy_streaming(void* to, const void* from, std::size_t bytes) {
#ifdef __x86_64__
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kAhead = 1024;  // the processor itself stops looking ahead at the end of a page
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  const std::size_t head = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;  // up to a whole line
  std::memcpy(target, source, head);
  const std::size_t end = head + (bytes - head) / kLine * kLine;
  for (std::size_t i = head; i < end; i += kLine) {
    const auto* const here = reinterpret_cast<const __m128i*>(source + i);
    auto* const there = reinterpret_cast<__m128i*>(target + i);
    _mm_prefetch(reinterpret_cast<const char*>(source + i + kAhead), _MM_HINT_T0);
    const __m128i a = _mm_loadu_si128(here);
    const __m128i b = _mm_loadu_si128(here + 1);
    const __m128i c = _mm_loadu_si128(here + 2);
    const __m128i d = _mm_loadu_si128(here + 3);
    _mm_stream_si128(there, a);
    _mm_stream_si128(there + 1, b);
    _mm_stream_si128(there + 2, c);
    _mm_stream_si128(there + 3, d);
  }
  _mm_sfence();
  std::memcpy(target + end, source + end, bytes - end);
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace twinpod::comm
