// Matrix products, plainly.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernel/gemm.hpp"
#include "kernel/reference/element.hpp"

namespace twinpod::kernel::reference {

// REQUIRES: strides are set.
template <typename T>
void multiply(const Gemm& s, const T* a, const T* b, T* c) {
  for (std::int64_t i = 0; i < s.m; ++i) {
    T* row = c + i * s.stride_c;
    if (!s.accumulate) std::fill(row, row + s.n, T{});
    for (std::int64_t x = 0; x < s.k; ++x) {
      const T factor = s.transpose_a ? a[x * s.stride_a + i] : a[i * s.stride_a + x];
      for (std::int64_t j = 0; j < s.n; ++j)
        row[j] += factor * (s.transpose_b ? b[j * s.stride_b + x] : b[x * s.stride_b + j]);
    }
  }
}

}  // namespace twinpod::kernel::reference
