// Norms, plainly: what the fast ones are tested against, and what runs where there is nothing better.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernel/norm.hpp"
#include "kernel/reference/dropout.hpp"
#include "kernel/reference/element.hpp"

namespace twinpod::kernel::reference {

template <typename T>
Sum<T> row_mean(std::int64_t width, const T* x) {
  Sum<T> sum = 0;
  for (std::int64_t j = 0; j < width; ++j) sum += get(x[j]);
  return sum / static_cast<Sum<T>>(width);
}

// 1 / sqrt(variance + epsilon)
template <typename T>
Sum<T> row_inverse(const NormShape& shape, const T* x, Sum<T> mean) {
  Sum<T> sum = 0;
  for (std::int64_t j = 0; j < shape.width; ++j) sum += (get(x[j]) - mean) * (get(x[j]) - mean);
  return 1 / std::sqrt(sum / static_cast<Sum<T>>(shape.width) + static_cast<Sum<T>>(shape.epsilon));
}

template <typename T>
void norm_again(const NormShape& shape, const T* sum, const Sum<T>* mean, const Sum<T>* inverse, const T* weight,
                const T* norm_bias, T* out) {
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    const Sum<T> middle = shape.rms ? 0 : mean[i];
    for (std::int64_t j = 0; j < shape.width; ++j) {
      const std::int64_t at = i * shape.width + j;
      const Sum<T> shift = norm_bias == nullptr ? 0 : get(norm_bias[j]);
      put(out[at], (get(sum[at]) - middle) * inverse[i] * get(weight[j]) + shift);
    }
  }
}

template <typename T>
void add_residual(const NormShape& shape, const T* x, const T* delta, const T* bias, T* sum, const Dropout& dropout) {
  for (std::int64_t at = 0; at < shape.rows * shape.width; ++at) {
    const std::int64_t column = at % shape.width;
    Sum<T> added = delta != nullptr ? get(delta[at]) : 0;
    if (dropout.on()) {
      if (bias != nullptr) added += get(bias[column]);
      put(sum[at], get(x[at]) + added * dropout_factor<Sum<T>>(dropout, at / shape.width, column));
      continue;
    }
    Sum<T> value = get(x[at]) + added;
    if (bias != nullptr) value += get(bias[column]);
    put(sum[at], value);
  }
}

template <typename T>
void add_norm(const NormShape& shape, const T* x, const T* delta, const T* bias, const T* weight, const T* norm_bias,
              T* sum, T* out, Sum<T>* mean, Sum<T>* inverse, const Dropout& dropout) {
  if (sum != nullptr) reference::add_residual(shape, x, delta, bias, sum, dropout);
  const T* from = sum == nullptr ? x : sum;
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    const T* row = from + i * shape.width;
    const Sum<T> middle = shape.rms ? 0 : row_mean(shape.width, row);
    if (!shape.rms) mean[i] = middle;
    inverse[i] = row_inverse(shape, row, middle);
  }
  reference::norm_again(shape, from, mean, inverse, weight, norm_bias, out);
}

// With h = (sum - mean) / deviation and g = dout * weight: dx = (g - mean of g - h * mean of g h) / deviation.
template <typename T>
void norm_backward(const NormShape& shape, const T* sum, const Sum<T>* mean, const Sum<T>* inverse, const T* weight,
                   const T* dout, const T* dresidual, T* dx, Sum<T>* dweight, Sum<T>* dnorm_bias, Sum<T>* dbias) {
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    const std::int64_t first = i * shape.width;
    const Sum<T> middle = shape.rms ? 0 : mean[i];
    Sum<T> mean_g = 0, mean_gh = 0;
    for (std::int64_t j = 0; j < shape.width; ++j) {
      const Sum<T> h = (get(sum[first + j]) - middle) * inverse[i];
      const Sum<T> g = get(dout[first + j]) * get(weight[j]);
      mean_g += g / static_cast<Sum<T>>(shape.width);
      mean_gh += g * h / static_cast<Sum<T>>(shape.width);
    }
    if (shape.rms) mean_g = 0;
    for (std::int64_t j = 0; j < shape.width; ++j) {
      const Sum<T> h = (get(sum[first + j]) - middle) * inverse[i];
      const Sum<T> g = get(dout[first + j]);
      Sum<T> d = (g * get(weight[j]) - mean_g - h * mean_gh) * inverse[i];
      if (dresidual != nullptr) d += get(dresidual[first + j]);
      dweight[j] += g * h;
      if (dnorm_bias != nullptr) dnorm_bias[j] += g;
      if (dbias != nullptr) dbias[j] += d;
      put(dx[first + j], d);
    }
  }
}

}  // namespace twinpod::kernel::reference
