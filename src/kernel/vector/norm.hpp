// Norms over vectors. A row stays in the L1 cache between its passes.
#pragma once

#include <cstdint>

#include "kernel/norm.hpp"
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
              T* sum, T* out, float* mean, float* inverse) {
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    const std::int64_t at = i * shape.width;
    if (sum != nullptr) add_row<V>(shape.width, x + at, delta == nullptr ? nullptr : delta + at, bias, sum + at);
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
