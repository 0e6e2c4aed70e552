// Operands of a product, cut into the tiles that AMX multiplies.
//
// A tile is 16 lines (rows of a, columns of b) by 32 of the depth, 1 KiB of bf16: as rows, tile[line][pair], or as
// pairs, tile[pair][line], where a pair is two numbers of the depth in 32 bits. Either is the other one turned over,
// so that each operand is read the way it lies in memory. Which two numbers are a pair is up to us, as long as both
// operands agree: of fp32 those 16 apart, which needs no shuffling; of bf16 neighbours, as they lie in memory.
//
// A number of fp32 becomes kPieces<float> of bf16 whose sum it is: 24 bits are three times 8.
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
template <typename T>
constexpr std::int64_t strip_bytes(std::int64_t depth) {
  return (depth + kTileDepth - 1) / kTileDepth * kPieces<T> * 2 * kTileBytes;
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

// The upper 16 bits of a number, rounded; what is left of it stays in x.
TWINPOD_INLINE __m512i upper_piece(__m512& x) {
  const __m512i rounded = _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000));
  const __m512i piece = _mm512_and_si512(rounded, _mm512_set1_epi32(static_cast<int>(0xffff0000U)));
  x = _mm512_sub_ps(x, _mm512_castsi512_ps(piece));
  return piece;
}

// Pairs of two vectors of floats, all pieces.
TWINPOD_INLINE void split_pairs(__m512 first, __m512 second, __m512i (&pieces)[3]) {
  for (__m512i& piece : pieces) {
    const __m512i low = _mm512_srli_epi32(upper_piece(first), 16);
    piece = _mm512_or_si512(low, upper_piece(second));
  }
}

TWINPOD_INLINE __mmask16 first_16(std::int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffffU : count <= 0 ? 0U : (1U << static_cast<unsigned>(count)) - 1U);
}
TWINPOD_INLINE __mmask32 first_32(std::int64_t count) {
  return count >= 32 ? ~__mmask32{0} : count <= 0 ? 0U : (__mmask32{1} << static_cast<unsigned>(count)) - 1U;
}

// One line of a tile as its operand lies in memory: `at` of 16, the first `depth` of the tile's numbers.
TWINPOD_INLINE void read_line(const Lines<float>& from, int at, std::int64_t lines, std::int64_t depth,
                              __m512i (&pieces)[3]) {
  __m512 first, second;
  if (from.side_by_side) {
    const __mmask16 mask = first_16(lines);
    const float* p = from.data + at * from.stride;
    __builtin_prefetch(p + kTileDepth * from.stride);
    __builtin_prefetch(p + (kTileDepth + 16) * from.stride);
    first = at < depth ? _mm512_maskz_loadu_ps(mask, p) : _mm512_setzero_ps();
    second = at + 16 < depth ? _mm512_maskz_loadu_ps(mask, p + 16 * from.stride) : _mm512_setzero_ps();
  } else {
    const float* p = from.data + at * from.stride;
    __builtin_prefetch(p + 2 * kTileDepth);
    __builtin_prefetch(p + 2 * kTileDepth + 16);
    const bool there = at < lines;
    first = there ? _mm512_maskz_loadu_ps(first_16(depth), p) : _mm512_setzero_ps();
    second = there && depth > 16 ? _mm512_maskz_loadu_ps(first_16(depth - 16), p + 16) : _mm512_setzero_ps();
  }
  split_pairs(first, second, pieces);
}

TWINPOD_INLINE void read_line(const Lines<Bf16>& from, int at, std::int64_t lines, std::int64_t depth,
                              __m512i (&pieces)[1]) {
  if (!from.side_by_side) {
    pieces[0] =
        at < lines ? _mm512_maskz_loadu_epi16(first_32(depth), from.data + at * from.stride) : _mm512_setzero_si512();
    return;
  }
  const __mmask16 mask = first_16(lines);
  const Bf16* p = from.data + 2 * at * from.stride;
  const __m256i first = 2 * at < depth ? _mm256_maskz_loadu_epi16(mask, p) : _mm256_setzero_si256();
  const __m256i second = 2 * at + 1 < depth ? _mm256_maskz_loadu_epi16(mask, p + from.stride) : _mm256_setzero_si256();
  pieces[0] = _mm512_or_si512(_mm512_cvtepu16_epi32(first), _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16));
}

// One tile of `from`, all its pieces, each 2 tiles after the one before it.
template <typename T>
TWINPOD_INLINE void pack_tile(const Lines<T>& from, std::int64_t lines, std::int64_t depth, bool as_pairs,
                              std::byte* to) {
  __m512i tile[kPieces<T>][16];
  for (int at = 0; at < 16; ++at) {
    __m512i pieces[kPieces<T>];
    read_line(from, at, lines, depth, pieces);
    for (int piece = 0; piece < kPieces<T>; ++piece) tile[piece][at] = pieces[piece];
  }
  for (int piece = 0; piece < kPieces<T>; ++piece, to += 2 * kTileBytes) {
    if (from.side_by_side != as_pairs) turn(tile[piece]);
    for (int at = 0; at < 16; ++at) _mm512_store_si512(to + 64 * at, tile[piece][at]);
  }
}

// Strips of `lines` lines, one after the other, filled up with zeros.
template <typename T>
void pack_strips(Lines<T> from, std::int64_t lines, std::int64_t depth, bool as_pairs, std::byte* to) {
  const std::int64_t per_line = from.side_by_side ? 1 : from.stride;
  const std::int64_t per_depth = from.side_by_side ? from.stride : 1;
  const T* data = from.data;
  for (std::int64_t line = 0; line < lines; line += kStripLines) {
    for (std::int64_t x = 0; x < depth; x += kTileDepth, to += kPieces<T> * 2 * kTileBytes) {
      for (int half = 0; half < 2; ++half) {
        const std::int64_t first = line + half * kTileLines;
        from.data = first < lines ? data + first * per_line + x * per_depth : data;
        pack_tile(from, lines - first, depth - x, as_pairs, to + half * kTileBytes);
      }
    }
  }
}

}  // namespace twinpod::kernel::vector
