// Dropout, plainly.
#pragma once

#include "kernel/dropout.hpp"
#include "kernel/reference/element.hpp"

namespace twinpod::kernel::reference {

// 1 / (1 - rate), or 0; 1 where nothing is dropped.
template <typename S>
S dropout_factor(const Dropout& dropout, std::int64_t row, std::int64_t column) {
  if (!dropout.on()) return 1;
  const DropoutRow bits = dropout_row(dropout, dropout.first_row + row * dropout.stride);
  return keeps(bits, column) ? static_cast<S>(bits.scale) : 0;
}

template <typename T>
void drop(const Dropout& dropout, std::int64_t rows, std::int64_t width, const T* x, T* out) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < width; ++j)
      put(out[i * width + j], get(x[i * width + j]) * dropout_factor<Sum<T>>(dropout, i, j));
  }
}

}  // namespace twinpod::kernel::reference
