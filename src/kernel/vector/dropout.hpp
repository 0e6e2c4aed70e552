// Dropout over vectors: the same bits as kernel/dropout.hpp has for one element.
#pragma once

#include "kernel/dropout.hpp"
#include "kernel/vector/vec.hpp"

namespace twinpod::kernel::vector {

#ifdef __AVX512F__
TWINPOD_INLINE Avx512 dropout_factors(const Avx512& /*which*/, const DropoutRow& row, std::int64_t column) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m512i x =
      _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(static_cast<std::uint32_t>(column) + row.low)), lanes);
  x = _mm512_mullo_epi32(_mm512_xor_si512(x, _mm512_srli_epi32(x, 16)),
                         _mm512_set1_epi32(static_cast<int>(0x85ebca6b)));
  x = _mm512_xor_si512(x, _mm512_set1_epi32(static_cast<int>(row.high)));
  x = _mm512_mullo_epi32(_mm512_xor_si512(x, _mm512_srli_epi32(x, 13)),
                         _mm512_set1_epi32(static_cast<int>(0xc2b2ae35)));
  x = _mm512_srli_epi32(_mm512_xor_si512(x, _mm512_srli_epi32(x, 16)), 8);
  const __mmask16 kept = _mm512_cmpge_epu32_mask(x, _mm512_set1_epi32(static_cast<int>(row.threshold)));
  return {_mm512_maskz_mov_ps(kept, _mm512_set1_ps(static_cast<float>(row.scale)))};
}
#endif

TWINPOD_INLINE Avx2 dropout_factors(const Avx2& /*which*/, const DropoutRow& row, std::int64_t column) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  __m256i x =
      _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(static_cast<std::uint32_t>(column) + row.low)), lanes);
  x = _mm256_mullo_epi32(_mm256_xor_si256(x, _mm256_srli_epi32(x, 16)),
                         _mm256_set1_epi32(static_cast<int>(0x85ebca6b)));
  x = _mm256_xor_si256(x, _mm256_set1_epi32(static_cast<int>(row.high)));
  x = _mm256_mullo_epi32(_mm256_xor_si256(x, _mm256_srli_epi32(x, 13)),
                         _mm256_set1_epi32(static_cast<int>(0xc2b2ae35)));
  x = _mm256_srli_epi32(_mm256_xor_si256(x, _mm256_srli_epi32(x, 16)), 8);
  const __m256i kept = _mm256_cmpgt_epi32(x, _mm256_set1_epi32(static_cast<int>(row.threshold) - 1));
  return {_mm256_and_ps(_mm256_castsi256_ps(kept), _mm256_set1_ps(static_cast<float>(row.scale)))};
}

// Of the vector's columns from `column` on: 1 / (1 - rate) where they are kept, else 0.
template <typename V>
TWINPOD_INLINE V dropout_factors(const DropoutRow& row, std::int64_t column) {
  return dropout_factors(V{}, row, column);
}

template <typename V, typename T>
TWINPOD_INLINE void drop_row(const DropoutRow& row, std::int64_t width, const T* x, T* out) {
  each<V>(width, [&](std::int64_t j, auto lanes) {
    (V::load(x + j, lanes) * dropout_factors<V>(row, j)).store(out + j, lanes);
  });
}

template <typename V, typename T>
void drop(const Dropout& dropout, std::int64_t rows, std::int64_t width, const T* x, T* out) {
  for (std::int64_t i = 0; i < rows; ++i, x += width, out += width)
    drop_row<V>(dropout_row(dropout, dropout.first_row + i * dropout.stride), width, x, out);
}

}  // namespace twinpod::kernel::vector
