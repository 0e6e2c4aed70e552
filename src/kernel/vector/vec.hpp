// A register of floats, for AVX2 and for AVX-512: kernels are written once over either and compiled twice.
//
//     each<V>(count, [&](std::int64_t i, auto lanes) { (V::load(a + i, lanes) + V::load(b + i, lanes)).store(a + i,
//     lanes); });
//
// `lanes` is All{}, or First{n} for what is left at the end: the others are read as zero and not written.
// This header, and all that is compiled with flags for an instruction set, is templates over V or always inlined: a
// function that both kinds of files could share might be taken from the one that the processor cannot run.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernel/real.hpp"

#define TWINPOD_INLINE [[gnu::always_inline]] inline

namespace twinpod::kernel {

struct All {};
struct First {
  int count;
};

#ifdef __AVX512F__
struct Avx512 {
  static constexpr int kWidth = 16;
  __m512 v;

  TWINPOD_INLINE static Avx512 of(float x) { return {_mm512_set1_ps(x)}; }
  TWINPOD_INLINE static Avx512 zero() { return {_mm512_setzero_ps()}; }
  TWINPOD_INLINE static __mmask16 mask(First f) { return static_cast<__mmask16>((1U << f.count) - 1U); }
  TWINPOD_INLINE static Avx512 wide(__m256i bits) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
  }
  // Rounded to nearest even; not-a-numbers stay that.
  TWINPOD_INLINE __m256i narrow() const {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i kept = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(kept, 16));
  }
  TWINPOD_INLINE static Avx512 load(const float* p, All = {}) { return {_mm512_loadu_ps(p)}; }
  TWINPOD_INLINE static Avx512 load(const float* p, First f) { return {_mm512_maskz_loadu_ps(mask(f), p)}; }
  TWINPOD_INLINE static Avx512 load(const Bf16* p, All = {}) {
    return wide(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  TWINPOD_INLINE static Avx512 load(const Bf16* p, First f) { return wide(_mm256_maskz_loadu_epi16(mask(f), p)); }
  TWINPOD_INLINE void store(float* p, All = {}) const { _mm512_storeu_ps(p, v); }
  TWINPOD_INLINE void store(float* p, First f) const { _mm512_mask_storeu_ps(p, mask(f), v); }
  TWINPOD_INLINE void store(Bf16* p, All = {}) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow()); }
  TWINPOD_INLINE void store(Bf16* p, First f) const { _mm256_mask_storeu_epi16(p, mask(f), narrow()); }

  TWINPOD_INLINE friend Avx512 operator+(Avx512 a, Avx512 b) { return {_mm512_add_ps(a.v, b.v)}; }
  TWINPOD_INLINE friend Avx512 operator-(Avx512 a, Avx512 b) { return {_mm512_sub_ps(a.v, b.v)}; }
  TWINPOD_INLINE friend Avx512 operator*(Avx512 a, Avx512 b) { return {_mm512_mul_ps(a.v, b.v)}; }
  TWINPOD_INLINE friend Avx512 operator/(Avx512 a, Avx512 b) { return {_mm512_div_ps(a.v, b.v)}; }
  TWINPOD_INLINE friend Avx512 fma(Avx512 a, Avx512 b, Avx512 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  // The second one where either is not a number.
  TWINPOD_INLINE friend Avx512 max(Avx512 a, Avx512 b) { return {_mm512_max_ps(a.v, b.v)}; }
  TWINPOD_INLINE friend Avx512 min(Avx512 a, Avx512 b) { return {_mm512_min_ps(a.v, b.v)}; }
  TWINPOD_INLINE friend Avx512 root(Avx512 a) { return {_mm512_sqrt_ps(a.v)}; }
  TWINPOD_INLINE friend float sum(Avx512 a) { return _mm512_reduce_add_ps(a.v); }
  TWINPOD_INLINE friend float largest(Avx512 a) { return _mm512_reduce_max_ps(a.v); }
  TWINPOD_INLINE friend Avx512 nearest(Avx512 a) { return {_mm512_roundscale_ps(a.v, 8)}; }
  // a 2^n, of whole numbers n
  TWINPOD_INLINE friend Avx512 scaled(Avx512 a, Avx512 n) { return {_mm512_scalef_ps(a.v, n.v)}; }
  // 1 / a, to the last bit or two.
  TWINPOD_INLINE friend Avx512 inverse(Avx512 a) {
    const __m512 guess = _mm512_rcp14_ps(a.v);
    return {_mm512_mul_ps(guess, _mm512_fnmadd_ps(a.v, guess, _mm512_set1_ps(2)))};
  }
  TWINPOD_INLINE static Avx512 only(Avx512 a, First f, Avx512 other) {
    return {_mm512_mask_blend_ps(mask(f), other.v, a.v)};
  }
  TWINPOD_INLINE static Avx512 only(Avx512 a, All, Avx512) { return a; }
};
#endif

struct Avx2 {
  static constexpr int kWidth = 8;
  __m256 v;

  TWINPOD_INLINE static Avx2 of(float x) { return {_mm256_set1_ps(x)}; }
  TWINPOD_INLINE static Avx2 zero() { return {_mm256_setzero_ps()}; }
  TWINPOD_INLINE static __m256i mask(First f) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(f.count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  TWINPOD_INLINE static Avx2 wide(__m128i bits) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
  }
  TWINPOD_INLINE __m128i narrow() const {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256 nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    const __m256 quiet = _mm256_castsi256_ps(_mm256_or_si256(bits, _mm256_set1_epi32(0x400000)));
    const __m256i kept = _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(rounded), quiet, nan));
    const __m256i high = _mm256_srli_epi32(kept, 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(high, high), 0x08);
    return _mm256_castsi256_si128(packed);
  }
  TWINPOD_INLINE static Avx2 load(const float* p, All = {}) { return {_mm256_loadu_ps(p)}; }
  TWINPOD_INLINE static Avx2 load(const float* p, First f) { return {_mm256_maskload_ps(p, mask(f))}; }
  TWINPOD_INLINE static Avx2 load(const Bf16* p, All = {}) {
    return wide(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  TWINPOD_INLINE static Avx2 load(const Bf16* p, First f) {
    alignas(16) Bf16 part[kWidth] = {};
    for (int i = 0; i < f.count; ++i) part[i] = p[i];
    return load(part);
  }
  TWINPOD_INLINE void store(float* p, All = {}) const { _mm256_storeu_ps(p, v); }
  TWINPOD_INLINE void store(float* p, First f) const { _mm256_maskstore_ps(p, mask(f), v); }
  TWINPOD_INLINE void store(Bf16* p, All = {}) const { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow()); }
  TWINPOD_INLINE void store(Bf16* p, First f) const {
    alignas(16) Bf16 part[kWidth];
    store(part);
    for (int i = 0; i < f.count; ++i) p[i] = part[i];
  }

  TWINPOD_INLINE friend Avx2 operator+(Avx2 a, Avx2 b) { return {_mm256_add_ps(a.v, b.v)}; }
  TWINPOD_INLINE friend Avx2 operator-(Avx2 a, Avx2 b) { return {_mm256_sub_ps(a.v, b.v)}; }
  TWINPOD_INLINE friend Avx2 operator*(Avx2 a, Avx2 b) { return {_mm256_mul_ps(a.v, b.v)}; }
  TWINPOD_INLINE friend Avx2 operator/(Avx2 a, Avx2 b) { return {_mm256_div_ps(a.v, b.v)}; }
  TWINPOD_INLINE friend Avx2 fma(Avx2 a, Avx2 b, Avx2 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
  TWINPOD_INLINE friend Avx2 max(Avx2 a, Avx2 b) { return {_mm256_max_ps(a.v, b.v)}; }
  TWINPOD_INLINE friend Avx2 min(Avx2 a, Avx2 b) { return {_mm256_min_ps(a.v, b.v)}; }
  TWINPOD_INLINE friend Avx2 root(Avx2 a) { return {_mm256_sqrt_ps(a.v)}; }
  TWINPOD_INLINE friend float sum(Avx2 a) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  TWINPOD_INLINE friend float largest(Avx2 a) {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
  TWINPOD_INLINE friend Avx2 nearest(Avx2 a) { return {_mm256_round_ps(a.v, 8)}; }
  // In two halves: each is a normal number, while 2^n need not be.
  TWINPOD_INLINE friend Avx2 scaled(Avx2 a, Avx2 n) {
    const __m256i whole = _mm256_cvtps_epi32(n.v), half = _mm256_srai_epi32(whole, 1);
    return {_mm256_mul_ps(_mm256_mul_ps(a.v, power_of_two(half)), power_of_two(_mm256_sub_epi32(whole, half)))};
  }
  TWINPOD_INLINE static __m256 power_of_two(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
  }
  TWINPOD_INLINE friend Avx2 inverse(Avx2 a) { return {_mm256_div_ps(_mm256_set1_ps(1), a.v)}; }
  TWINPOD_INLINE static Avx2 only(Avx2 a, First f, Avx2 other) {
    return {_mm256_blendv_ps(other.v, a.v, _mm256_castsi256_ps(mask(f)))};
  }
  TWINPOD_INLINE static Avx2 only(Avx2 a, All, Avx2) { return a; }
};

// Calls body(i, All{}) for i = 0, kWidth, ..., and body(i, First{n}) for what is left.
template <typename V, typename Body>
TWINPOD_INLINE void each(std::int64_t count, const Body& body) {
  std::int64_t i = 0;
  for (; i + V::kWidth <= count; i += V::kWidth) body(i, All{});
  if (i < count) body(i, First{static_cast<int>(count - i)});
}

// e^x: 2^n e^r with |r| <= ln 2 / 2 and a polynomial of degree 6, within 2 units of the last place. Below the smallest
// normal number the result is 0 or nearly so; what is not a number stays that.
template <typename V>
TWINPOD_INLINE V exponential(V x) {
  const V limited = min(V::of(89), max(V::of(-104), x));  // in this order not-a-numbers pass
  const V n = nearest(limited * V::of(1.44269504F));
  V r = fma(n, V::of(-0.693145752F), limited);
  r = fma(n, V::of(-1.42860677e-6F), r);
  V y = fma(r, V::of(1.3888889e-3F), V::of(8.3333333e-3F));
  y = fma(r, y, V::of(4.16666667e-2F));
  y = fma(r, y, V::of(1.66666667e-1F));
  y = fma(r, y, V::of(0.5F));
  y = fma(r, y, V::of(1));
  y = fma(r, y, V::of(1));
  return scaled(y, n);
}

}  // namespace twinpod::kernel
