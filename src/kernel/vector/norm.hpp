// Norms over vectors. A row stays in the L1 cache between its passes.
#pragma once

#include <cstdint>

#include "kernel/norm.hpp"
#include "kernel/vector/dropout.hpp"
#include "kernel/vector/vec.hpp"

namespace twinpod::kernel::vector {

template <typename V, typename T>
TWINPOD_INLINE void add_row(std::int64_t width, const T* x, const T* delta, const T* bias, T* sum) {
  each<V>(width, [&](std::int64_t j, auto lanes) {
    V value = V::load(x + j, lanes);
    if (delta != nullptr) value = value + V::load(delta + j, lanes);
    if (bias != nullptr) value = value + V::load(bias + j, lanes);
    value.store(sum + j, lanes);
  });
}

// delta and bias are there or not as before, but what they give is dropped here and there.
template <typename V, typename T>
TWINPOD_INLINE void add_dropped_row(std::int64_t width, const T* x, const T* delta, const T* bias,
                                    const DropoutRow& bits, T* sum) {
  each<V>(width, [&](std::int64_t j, auto lanes) {
    V added = delta == nullptr ? V::zero() : V::load(delta + j, lanes);
    if (bias != nullptr) added = added + V::load(bias + j, lanes);
    (V::load(x + j, lanes) + added * dropout_factors<V>(bits, j)).store(sum + j, lanes);
  });
}

// Row i of those that `shape` counts.
template <typename V, typename T>
TWINPOD_INLINE void add_row_of(const NormShape& shape, std::int64_t i, const T* x, const T* delta, const T* bias,
                               T* sum, const Dropout& dropout) {
  const std::int64_t at = i * shape.width;
  const T* own = delta == nullptr ? nullptr : delta + at;
  if (!dropout.on()) return add_row<V>(shape.width, x + at, own, bias, sum + at);
  const DropoutRow bits = dropout_row(dropout, dropout.first_row + i * dropout.stride);
  add_dropped_row<V>(shape.width, x + at, own, bias, bits, sum + at);
}

template <typename V, typename T>
void add_residual(const NormShape& shape, const T* x, const T* delta, const T* bias, T* sum, const Dropout& dropout) {
  for (std::int64_t i = 0; i < shape.rows; ++i) add_row_of<V>(shape, i, x, delta, bias, sum, dropout);
}

template <typename V, typename T>
TWINPOD_INLINE float row_mean(std::int64_t width, const T* x) {
  V total = V::zero();
  each<V>(width, [&](std::int64_t j, auto lanes) { total = total + V::load(x + j, lanes); });
  return sum(total) / static_cast<float>(width);
}

template <typename V, typename T>
TWINPOD_INLINE float row_inverse(const NormShape& shape, const T* x, float mean) {
  V total = V::zero();
  each<V>(shape.width, [&](std::int64_t j, auto lanes) {
    const V away = V::only(V::load(x + j, lanes) - V::of(mean), lanes, V::zero());
    total = fma(away, away, total);
  });
  const float variance = sum(total) / static_cast<float>(shape.width);
  return 1 / __builtin_sqrtf(variance + static_cast<float>(shape.epsilon));
}

template <typename V, typename T>
TWINPOD_INLINE void norm_row(std::int64_t width, const T* x, float mean, float inverse, const T* weight,
                             const T* norm_bias, T* out) {
  each<V>(width, [&](std::int64_t j, auto lanes) {
    const V h = (V::load(x + j, lanes) - V::of(mean)) * V::of(inverse);
    const V shift = norm_bias == nullptr ? V::zero() : V::load(norm_bias + j, lanes);
    fma(h, V::load(weight + j, lanes), shift).store(out + j, lanes);
  });
}

template <typename V, typename T>
void norm_again(const NormShape& shape, const T* sum, const float* mean, const float* inverse, const T* weight,
                const T* norm_bias, T* out) {
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    const std::int64_t at = i * shape.width;
    norm_row<V>(shape.width, sum + at, shape.rms ? 0 : mean[i], inverse[i], weight, norm_bias, out + at);
  }
}

template <typename V, typename T>
void add_norm(const NormShape& shape, const T* x, const T* delta, const T* bias, const T* weight, const T* norm_bias,
              T* sum, T* out, float* mean, float* inverse, const Dropout& dropout) {
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    const std::int64_t at = i * shape.width;
    if (sum != nullptr) add_row_of<V>(shape, i, x, delta, bias, sum, dropout);
    const T* row = sum == nullptr ? x + at : sum + at;
    const float middle = shape.rms ? 0 : row_mean<V>(shape.width, row);
    if (!shape.rms) mean[i] = middle;
    inverse[i] = row_inverse<V>(shape, row, middle);
    norm_row<V>(shape.width, row, middle, inverse[i], weight, norm_bias, out + at);
  }
}

// h and g as in reference/norm.hpp.
struct GradientMeans {
  float of_g, of_gh;
};

template <typename V, typename T>
TWINPOD_INLINE GradientMeans gradient_means(const NormShape& shape, const T* x, float mean, float inverse,
                                            const T* weight, const T* dout) {
  V total_g = V::zero(), total_gx = V::zero();
  each<V>(shape.width, [&](std::int64_t j, auto lanes) {
    const V g = V::load(dout + j, lanes) * V::load(weight + j, lanes);
    total_g = total_g + g;
    total_gx = fma(g, V::load(x + j, lanes) - V::of(mean), total_gx);
  });
  const float width = static_cast<float>(shape.width);
  return {shape.rms ? 0 : sum(total_g) / width, sum(total_gx) * inverse / width};
}

template <typename V, typename T>
void norm_backward(const NormShape& shape, const T* sum, const float* mean, const float* inverse, const T* weight,
                   const T* dout, const T* dresidual, T* dx, float* dweight, float* dnorm_bias, float* dbias) {
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    const std::int64_t at = i * shape.width;
    const float middle = shape.rms ? 0 : mean[i];
    const GradientMeans means = gradient_means<V>(shape, sum + at, middle, inverse[i], weight, dout + at);
    each<V>(shape.width, [&](std::int64_t j, auto lanes) {
      const V h = (V::load(sum + at + j, lanes) - V::of(middle)) * V::of(inverse[i]);
      const V g = V::load(dout + at + j, lanes);
      const V inner = fma(g, V::load(weight + j, lanes), V::zero() - V::of(means.of_g)) - h * V::of(means.of_gh);
      V d = inner * V::of(inverse[i]);
      if (dresidual != nullptr) d = d + V::load(dresidual + at + j, lanes);
      fma(g, h, V::load(dweight + j, lanes)).store(dweight + j, lanes);
      if (dnorm_bias != nullptr) (V::load(dnorm_bias + j, lanes) + g).store(dnorm_bias + j, lanes);
      if (dbias != nullptr) (V::load(dbias + j, lanes) + d).store(dbias + j, lanes);
      d.store(dx + at + j, lanes);
    });
  }
}

}  // namespace twinpod::kernel::vector
