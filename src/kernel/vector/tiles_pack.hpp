// Operands of a product, cut into the tiles that AMX multiplies.
//
// A tile is 16 lines (rows of a, columns of b) by 32 of the depth, 1 KiB of bf16: as rows, tile[line][pair], or as
// pairs, tile[pair][line], where a pair is two numbers of the depth in 32 bits. Either is the other one turned over,
// so that each operand is read the way it lies in memory. Which two numbers are a pair is up to us, as long as both
// operands agree: of fp32 those 16 apart, which needs no shuffling; of bf16 neighbours, as they lie in memory.
//
// A number of fp32 becomes kPieces<float> of bf16 whose sum it is: 24 bits are three times 8. Or two, whose sum is it
// within 2^-17 of its size (Gemm::rounds_operands).
#pragma once

#include <cstdint>

#include "kernel/vector/vec.hpp"

namespace twinpod::kernel::vector {

constexpr int kTileLines = 16;
constexpr int kTileDepth = 32;
constexpr std::int64_t kTileBytes = 1024;
constexpr int kStripLines = 2 * kTileLines;  // two tiles side by side

template <typename T>
constexpr int kPieces = sizeof(T) == sizeof(float) ? 3 : 1;

// An operand: element (line, x) at data[line * stride + x] or, when lines lie side by side, at data[x * stride + line].
template <typename T>
struct Lines {
  const T* data;
  std::int64_t stride;
  bool side_by_side;
};

// Bytes of a strip: steps of kTileDepth, and in each all pieces of its two tiles.
template <typename T, int Pieces = kPieces<T>>
constexpr std::int64_t strip_bytes(std::int64_t depth) {
  return (depth + kTileDepth - 1) / kTileDepth * Pieces * 2 * kTileBytes;
}

// 16 x 16 of 32 bits turned over.
TWINPOD_INLINE void turn(__m512i (&m)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(m[i], m[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(m[i], m[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    m[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    m[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    m[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    m[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(m[i], m[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(m[i], m[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(m[i + 8], m[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(m[i + 8], m[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    m[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    m[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    m[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    m[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

TWINPOD_INLINE void turn(__m512 (&m)[16]) {
  __m512i bits[16];
  for (int i = 0; i < 16; ++i) bits[i] = _mm512_castps_si512(m[i]);
  turn(bits);
  for (int i = 0; i < 16; ++i) m[i] = _mm512_castsi512_ps(bits[i]);
}

// Pairs of two vectors of floats, all pieces: the upper 16 bits, then those of what is left, and once more. Cutting off
// loses nothing, since 24 bits are three times 8, and takes fewer instructions than rounding.
TWINPOD_INLINE void split_pairs(__m512 first, __m512 second, __m512i (&pieces)[3]) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000U));
  for (__m512i& piece : pieces) {
    const __m512i low = _mm512_castps_si512(first), high = _mm512_castps_si512(second);
    piece = _mm512_ternarylogic_epi32(_mm512_srli_epi32(low, 16), high, upper, 0xf8);  // low >> 16 | high & upper
    first = _mm512_sub_ps(first, _mm512_castsi512_ps(_mm512_and_si512(low, upper)));
    second = _mm512_sub_ps(second, _mm512_castsi512_ps(_mm512_and_si512(high, upper)));
  }
}

// The same with two pieces. They are rounded, so that errors have either sign and a long sum of them stays small.
TWINPOD_INLINE void split_pairs(__m512 first, __m512 second, __m512i (&pieces)[2]) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000U)), half = _mm512_set1_epi32(0x8000);
  for (__m512i& piece : pieces) {
    const __m512i low = _mm512_add_epi32(_mm512_castps_si512(first), half);
    const __m512i high = _mm512_add_epi32(_mm512_castps_si512(second), half);
    piece = _mm512_ternarylogic_epi32(_mm512_srli_epi32(low, 16), high, upper, 0xf8);
    first = _mm512_sub_ps(first, _mm512_castsi512_ps(_mm512_and_si512(low, upper)));
    second = _mm512_sub_ps(second, _mm512_castsi512_ps(_mm512_and_si512(high, upper)));
  }
}

TWINPOD_INLINE __mmask16 first_16(std::int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffffU : count <= 0 ? 0U : (1U << static_cast<unsigned>(count)) - 1U);
}
TWINPOD_INLINE __mmask32 first_32(std::int64_t count) {
  return count >= 32 ? ~__mmask32{0} : count <= 0 ? 0U : (__mmask32{1} << static_cast<unsigned>(count)) - 1U;
}

// One of 16 vectors of 16 numbers as their operand lies in memory, zeros where it ends.
template <bool Whole>
TWINPOD_INLINE __m512 read_16(const float* from, bool there, std::int64_t width) {
  if constexpr (Whole) return _mm512_loadu_ps(from);
  return there && width > 0 ? _mm512_maskz_loadu_ps(first_16(width), from) : _mm512_setzero_ps();
}

template <int Pieces>
TWINPOD_INLINE void write_pairs(__m512 first, __m512 second, std::byte* to) {
  __m512i pieces[Pieces];
  split_pairs(first, second, pieces);
  for (int piece = 0; piece < Pieces; ++piece) _mm512_store_si512(to + piece * 2 * kTileBytes, pieces[piece]);
}

// One tile of `from`, all its pieces, each 2 tiles after the one before it. Whole: nothing is missing.
template <bool SideBySide, bool AsPairs, bool Whole, int Pieces>
TWINPOD_INLINE void pack_tile_of(const Lines<float>& from, std::int64_t lines, std::int64_t depth, std::byte* to) {
  const std::int64_t stride = from.stride, half = SideBySide ? 16 * stride : 16;
  const std::int64_t ahead = SideBySide ? kTileDepth * stride : 2 * kTileDepth;
  const std::int64_t rows = SideBySide ? depth : lines, width = SideBySide ? lines : depth;
  const std::int64_t rows_2 = SideBySide ? depth - 16 : lines, width_2 = SideBySide ? lines : depth - 16;
  if constexpr (SideBySide == AsPairs) {
    for (int at = 0; at < 16; ++at) {
      const float* p = from.data + at * stride;
      __builtin_prefetch(p + ahead);
      __builtin_prefetch(p + half + ahead);
      write_pairs<Pieces>(read_16<Whole>(p, at < rows, width), read_16<Whole>(p + half, at < rows_2, width_2),
                          to + 64 * at);
    }
    return;
  }
  // Two squares are turned over, rather than three pieces later; each has all registers for itself.
  alignas(64) float turned[16][16];
  __m512 square[16];
  for (int at = 0; at < 16; ++at) {
    const float* p = from.data + at * stride;
    __builtin_prefetch(p + ahead);
    square[at] = read_16<Whole>(p, at < rows, width);
  }
  turn(square);
  for (int at = 0; at < 16; ++at) _mm512_store_ps(turned[at], square[at]);
  for (int at = 0; at < 16; ++at) {
    const float* p = from.data + half + at * stride;
    __builtin_prefetch(p + ahead);
    square[at] = read_16<Whole>(p, at < rows_2, width_2);
  }
  turn(square);
  for (int at = 0; at < 16; ++at) write_pairs<Pieces>(_mm512_load_ps(turned[at]), square[at], to + 64 * at);
}

template <bool SideBySide, bool AsPairs, int Pieces>
TWINPOD_INLINE void pack_tile(const Lines<float>& from, std::int64_t lines, std::int64_t depth, std::byte* to) {
  if (lines >= kTileLines && depth >= kTileDepth) {
    pack_tile_of<SideBySide, AsPairs, true, Pieces>(from, lines, depth, to);
  } else {
    pack_tile_of<SideBySide, AsPairs, false, Pieces>(from, lines, depth, to);
  }
}

template <bool SideBySide, bool AsPairs, int Pieces>
TWINPOD_INLINE void pack_tile(const Lines<Bf16>& from, std::int64_t lines, std::int64_t depth, std::byte* to) {
  __m512i tile[16];
  for (int at = 0; at < 16; ++at) {
    if constexpr (!SideBySide) {
      const Bf16* p = from.data + at * from.stride;
      tile[at] = at < lines ? _mm512_maskz_loadu_epi16(first_32(depth), p) : _mm512_setzero_si512();
      continue;
    }
    const __mmask16 mask = first_16(lines);
    const Bf16* p = from.data + 2 * at * from.stride;
    const __m256i first = 2 * at < depth ? _mm256_maskz_loadu_epi16(mask, p) : _mm256_setzero_si256();
    const __m256i second =
        2 * at + 1 < depth ? _mm256_maskz_loadu_epi16(mask, p + from.stride) : _mm256_setzero_si256();
    tile[at] = _mm512_or_si512(_mm512_cvtepu16_epi32(first), _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16));
  }
  if constexpr (SideBySide != AsPairs) turn(tile);
  for (int at = 0; at < 16; ++at) _mm512_store_si512(to + 64 * at, tile[at]);
}

template <bool SideBySide, bool AsPairs, int Pieces, typename T>
void pack_strips_as(Lines<T> from, std::int64_t lines, std::int64_t depth, std::byte* to, std::int64_t strip) {
  const std::int64_t per_line = SideBySide ? 1 : from.stride, per_depth = SideBySide ? from.stride : 1;
  const T* data = from.data;
  for (std::int64_t line = 0; line < lines; line += kStripLines, to += strip) {
    std::byte* at = to;
    for (std::int64_t x = 0; x < depth; x += kTileDepth, at += Pieces * 2 * kTileBytes) {
      for (int half = 0; half < 2; ++half) {
        const std::int64_t first = line + half * kTileLines;
        from.data = first < lines ? data + first * per_line + x * per_depth : data;
        pack_tile<SideBySide, AsPairs, Pieces>(from, lines - first, depth - x, at + half * kTileBytes);
      }
    }
  }
}

// Strips of `lines` lines, filled up with zeros; one after the other, or with room for so many steps each.
template <typename T, int Pieces = kPieces<T>>
void pack_strips(const Lines<T>& from, std::int64_t lines, std::int64_t depth, bool as_pairs, std::byte* to,
                 std::int64_t steps = 0) {
  const std::int64_t strip = steps == 0 ? strip_bytes<T, Pieces>(depth) : steps * strip_bytes<T, Pieces>(kTileDepth);
  if (from.side_by_side) {
    as_pairs ? pack_strips_as<true, true, Pieces>(from, lines, depth, to, strip)
             : pack_strips_as<true, false, Pieces>(from, lines, depth, to, strip);
  } else {
    as_pairs ? pack_strips_as<false, true, Pieces>(from, lines, depth, to, strip)
             : pack_strips_as<false, false, Pieces>(from, lines, depth, to, strip);
  }
}

}  // namespace twinpod::kernel::vector
