// What tests of kernels share: numbers to try, ways to compare, and each instruction set in turn.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

#include "core/rng.hpp"
#include "kernel/processor.hpp"
#include "kernel/reference/element.hpp"

namespace twinpod::kernel {

using Doubles = std::vector<double>;

inline Doubles some(std::int64_t count, std::uint64_t seed, double scale = 1) {
  Rng rng(seed);
  Doubles values(static_cast<std::size_t>(count));
  for (double& value : values) value = scale * (2 * rng.uniform() - 1);
  return values;
}

template <typename T>
std::vector<T> as(const Doubles& values) {
  std::vector<T> result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) reference::put(result[i], static_cast<Sum<T>>(values[i]));
  return result;
}

template <typename T>
Doubles doubles(const std::vector<T>& values) {
  Doubles result;
  for (const T& value : values) result.push_back(static_cast<double>(reference::get(value)));
  return result;
}

// Rounded to T and back: what both versions of a kernel start from.
template <typename T>
Doubles rounded(const Doubles& values) {
  return doubles(as<T>(values));
}

// The largest difference, relative to the largest number.
inline double difference(const Doubles& a, const Doubles& b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 1e-30, apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return INFINITY;
    largest = std::max(largest, std::abs(b[i]));
    apart = std::max(apart, std::abs(a[i] - b[i]));
  }
  return apart / largest;
}

// How far a version for T may be from the one for double.
template <typename T>
constexpr double kTolerance = std::is_same_v<T, Bf16>    ? 8e-3
                              : std::is_same_v<T, float> ? 1e-5
                                                         : 1e-12;

// Runs `test` with each instruction set that the processor has.
inline void with_each_instruction_set(const std::function<void()>& test) {
  const Instructions best = instructions();
  for (const Instructions set : {Instructions::scalar, Instructions::avx2, Instructions::avx512, Instructions::amx}) {
    if (set > best) continue;
    SCOPED_TRACE(name_of(set));
    use_instructions(set);
    test();
  }
  use_instructions(best);
}

inline double dot(const Doubles& a, const Doubles& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Gradient of `loss` by central differences, one element of x at a time.
inline Doubles numeric_gradient(Doubles& x, const std::function<double()>& loss) {
  constexpr double kStep = 1e-5;
  Doubles gradient;
  for (double& element : x) {
    const double value = element;
    element = value + kStep;
    const double above = loss();
    element = value - kStep;
    gradient.push_back((above - loss()) / (2 * kStep));
    element = value;
  }
  return gradient;
}

constexpr double kGradientTolerance = 1e-6;
const std::vector<std::int64_t> kOddSizes = {1, 7, 31, 64, 65, 384};

}  // namespace twinpod::kernel
