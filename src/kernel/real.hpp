// The element types that kernels work on.
//
//     void add(std::int64_t count, const T* a, T* b);      // T: float, Bf16 or double
//
// float is how models train; Bf16 is stored in 16 bits and computed with in float; double is for tests, which compare
// gradients with finite differences. Sums over many elements are of type Sum<T>.
#pragma once

#include <cstdint>

#include "core/half.hpp"

namespace twinpod::kernel {

template <typename T>
struct SumOf {
  using type = float;
};
template <>
struct SumOf<double> {
  using type = double;
};
template <typename T>
using Sum = typename SumOf<T>::type;

}  // namespace twinpod::kernel
