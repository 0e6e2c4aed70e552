#include "kernel/gemm.hpp"

#include <algorithm>
#include <atomic>
#include <oneapi/dnnl/dnnl.hpp>
#include <type_traits>
#include <vector>

#include "kernel/reference/element.hpp"

namespace twinpod::kernel {
namespace {

std::atomic<bool>& tuning() {
  static std::atomic<bool> on = true;
  return on;
}

Gemm with_strides(Gemm shape) {
  if (shape.stride_a == 0) shape.stride_a = shape.transpose_a ? shape.m : shape.k;
  if (shape.stride_b == 0) shape.stride_b = shape.transpose_b ? shape.k : shape.n;
  if (shape.stride_c == 0) shape.stride_c = shape.n;
  return shape;
}

void by_library(const Gemm& s, const float* a, const float* b, float* c) {
  dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, 1, a, s.stride_a, b, s.stride_b,
             s.accumulate ? 1 : 0, c, s.stride_c);
}

void plain(const Gemm& s, const double* a, const double* b, double* c) {
  for (std::int64_t i = 0; i < s.m; ++i) {
    double* row = c + i * s.stride_c;
    if (!s.accumulate) std::fill(row, row + s.n, 0.0);
    for (std::int64_t x = 0; x < s.k; ++x) {
      const double factor = s.transpose_a ? a[x * s.stride_a + i] : a[i * s.stride_a + x];
      for (std::int64_t j = 0; j < s.n; ++j)
        row[j] += factor * (s.transpose_b ? b[j * s.stride_b + x] : b[x * s.stride_b + j]);
    }
  }
}

std::vector<float> widen(std::int64_t rows, std::int64_t width, std::int64_t stride, const Bf16* x) {
  std::vector<float> wide(static_cast<std::size_t>(rows * width));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < width; ++j)
      wide[static_cast<std::size_t>(i * width + j)] = to_float(x[i * stride + j]);
  }
  return wide;
}

template <typename C>
void widened(Gemm s, const Bf16* a, const Bf16* b, C* c) {
  const std::vector<float> wide_a = widen(s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k, s.stride_a, a);
  const std::vector<float> wide_b = widen(s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n, s.stride_b, b);
  s.stride_a = s.stride_b = 0;
  if constexpr (std::is_same_v<C, float>) {
    by_library(with_strides(s), wide_a.data(), wide_b.data(), c);
  } else {
    std::vector<float> wide_c = widen(s.m, s.n, s.stride_c, c);
    Gemm wide = s;
    wide.stride_c = 0;
    by_library(with_strides(wide), wide_a.data(), wide_b.data(), wide_c.data());
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j)
        c[i * s.stride_c + j] = to_bf16(wide_c[static_cast<std::size_t>(i * s.n + j)]);
    }
  }
}

template <typename C>
void clear(const Gemm& s, C* c) {
  for (std::int64_t i = 0; i < s.m; ++i) std::fill(c + i * s.stride_c, c + i * s.stride_c + s.n, C{});
}

}  // namespace

void tune_gemm(bool on) { tuning() = on; }

template <typename T, typename C>
void gemm(const Gemm& shape, const T* a, const T* b, C* c) {
  const Gemm s = with_strides(shape);
  if (s.m <= 0 || s.n <= 0) return;
  if (s.k <= 0) {
    if (!s.accumulate) clear(s, c);
  } else if constexpr (std::is_same_v<T, float>) {
    by_library(s, a, b, c);
  } else if constexpr (std::is_same_v<T, double>) {
    plain(s, a, b, c);
  } else {
    widened(s, a, b, c);
  }
}
template decltype(gemm<float, float>) gemm<float, float>;
template decltype(gemm<double, double>) gemm<double, double>;
template decltype(gemm<Bf16, Bf16>) gemm<Bf16, Bf16>;
template decltype(gemm<Bf16, float>) gemm<Bf16, float>;

}  // namespace twinpod::kernel
