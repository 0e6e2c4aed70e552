// Small matrix products inside the caches, with all sums in registers: what attention is made of.
#pragma once

#include <cstdint>

#include "kernel/vector/vec.hpp"

namespace twinpod::kernel::vector {

constexpr int kRows = 4;  // of c in registers at a time
// Vectors of c in registers at a time, beside each row. AVX2 has half as many registers.
template <typename V>
constexpr int kColumns = V::kWidth == 16 ? 4 : 2;

// Where an operand stands: element (i, j) at data[i * row + j * column].
struct Operand {
  const float* data;
  std::int64_t row, column;
};

// c (kRows x Columns vectors) = or += a (kRows x depth) b (depth x ...); rows of b and c are b_stride, c_stride apart.
template <typename V, int Columns, bool Add>
TWINPOD_INLINE void tile(std::int64_t depth, Operand a, const float* b, std::int64_t b_stride, float* c,
                         std::int64_t c_stride) {
  V sums[kRows][Columns];
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < Columns; ++j) sums[r][j] = Add ? V::load(c + r * c_stride + j * V::kWidth) : V::zero();
  }
  for (std::int64_t x = 0; x < depth; ++x) {
    V line[Columns];
    for (int j = 0; j < Columns; ++j) line[j] = V::load(b + x * b_stride + j * V::kWidth);
    for (int r = 0; r < kRows; ++r) {
      const V factor = V::of(a.data[r * a.row + x * a.column]);
      for (int j = 0; j < Columns; ++j) sums[r][j] = fma(factor, line[j], sums[r][j]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < Columns; ++j) sums[r][j].store(c + r * c_stride + j * V::kWidth);
  }
}

// kRows rows of c, `vectors` vectors wide.
template <typename V, bool Add>
TWINPOD_INLINE void strip(std::int64_t vectors, std::int64_t depth, Operand a, const float* b, std::int64_t b_stride,
                          float* c, std::int64_t c_stride) {
  constexpr int kMost = kColumns<V>;
  for (; vectors >= kMost; vectors -= kMost, b += kMost * V::kWidth, c += kMost * V::kWidth)
    tile<V, kMost, Add>(depth, a, b, b_stride, c, c_stride);
  if constexpr (kMost == 4) {
    if (vectors == 3) return tile<V, 3, Add>(depth, a, b, b_stride, c, c_stride);
    if (vectors == 2) return tile<V, 2, Add>(depth, a, b, b_stride, c, c_stride);
  }
  if (vectors == 1) tile<V, 1, Add>(depth, a, b, b_stride, c, c_stride);
}

// 8 rows of 8 become 8 columns; both instruction sets have these.
template <typename V>
TWINPOD_INLINE void transpose_8x8(__m256 (&m)[8]) {
  __m256 p[8], q[8];
  for (int i = 0; i < 8; i += 2) {
    p[i] = _mm256_unpacklo_ps(m[i], m[i + 1]);
    p[i + 1] = _mm256_unpackhi_ps(m[i], m[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    q[i] = _mm256_shuffle_ps(p[i], p[i + 2], 0x44);
    q[i + 1] = _mm256_shuffle_ps(p[i], p[i + 2], 0xee);
    q[i + 2] = _mm256_shuffle_ps(p[i + 1], p[i + 3], 0x44);
    q[i + 3] = _mm256_shuffle_ps(p[i + 1], p[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    m[i] = _mm256_permute2f128_ps(q[i], q[i + 4], 0x20);
    m[i + 4] = _mm256_permute2f128_ps(q[i], q[i + 4], 0x31);
  }
}

// to[j * to_stride + i] = from[i * stride + j] for i < rows, j < width; in i filled up with zeros to the next multiple
// of 8.
template <typename V, typename T>
void transpose(std::int64_t rows, std::int64_t width, const T* from, std::int64_t stride, float* to,
               std::int64_t to_stride) {
  for (std::int64_t i = 0; i < rows; i += 8) {
    for (std::int64_t j = 0; j < width; j += 8) {
      __m256 m[8];
      const auto left = static_cast<int>(width - j);
      for (int r = 0; r < 8; ++r) {
        const T* row = from + (i + r) * stride + j;
        m[r] = i + r >= rows ? _mm256_setzero_ps() : left >= 8 ? Avx2::load(row).v : Avx2::load(row, First{left}).v;
      }
      transpose_8x8<V>(m);
      for (int c = 0; c < 8 && c < left; ++c) _mm256_storeu_ps(to + (j + c) * to_stride + i, m[c]);
    }
  }
}

}  // namespace twinpod::kernel::vector
