// Biases, activation functions and rotary positions, plainly.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernel/elementwise.hpp"
#include "kernel/reference/element.hpp"

namespace twinpod::kernel::reference {

template <typename T>
void add_bias(std::int64_t rows, std::int64_t width, T* x, const T* bias) {
  for (std::int64_t at = 0; at < rows * width; ++at) put(x[at], get(x[at]) + get(bias[at % width]));
}

template <typename T>
void add_column_sums(std::int64_t rows, std::int64_t width, const T* x, Sum<T>* sums) {
  for (std::int64_t at = 0; at < rows * width; ++at) sums[at % width] += get(x[at]);
}

template <typename T>
void add(std::int64_t count, T* a, const T* b) {
  for (std::int64_t i = 0; i < count; ++i) put(a[i], get(a[i]) + get(b[i]));
}

// gelu(x) = x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3)
template <typename S>
S gelu_tanh(S x) {
  constexpr S kScale = static_cast<S>(0.79788456080286535588);
  return std::tanh(kScale * (x + static_cast<S>(0.044715) * x * x * x));
}

template <typename S>
S gelu_slope(S x) {
  constexpr S kScale = static_cast<S>(0.79788456080286535588);
  const S t = gelu_tanh(x);
  const S du = kScale * (1 + 3 * static_cast<S>(0.044715) * x * x);
  const S rest = 1 - t * t;
  return (1 + t) / 2 + (rest > 0 ? x / 2 * rest * du : 0);  // du may be infinite
}

template <typename T>
void gelu(std::int64_t count, const T* pre, T* out) {
  for (std::int64_t i = 0; i < count; ++i) put(out[i], get(pre[i]) / 2 * (1 + gelu_tanh(get(pre[i]))));
}

template <typename T>
void bias_gelu(std::int64_t rows, std::int64_t width, T* pre, const T* bias, T* out) {
  if (bias != nullptr) reference::add_bias(rows, width, pre, bias);
  reference::gelu(rows * width, pre, out);
}

template <typename T>
void gelu_backward(std::int64_t rows, std::int64_t width, const T* pre, const T* dout, T* dpre, Sum<T>* dbias) {
  for (std::int64_t at = 0; at < rows * width; ++at) {
    const Sum<T> d = get(dout[at]) * gelu_slope(get(pre[at]));
    if (dbias != nullptr) dbias[at % width] += d;
    put(dpre[at], d);
  }
}

template <typename S>
S sigmoid(S x) {
  return 1 / (1 + std::exp(-x));
}

template <typename T>
void swiglu(std::int64_t rows, std::int64_t width, const T* pre, T* out) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < width; ++j) {
      const Sum<T> gate = get(pre[2 * i * width + j]);
      put(out[i * width + j], gate * sigmoid(gate) * get(pre[(2 * i + 1) * width + j]));
    }
  }
}

template <typename T>
void bias_swiglu(std::int64_t rows, std::int64_t width, T* pre, const T* bias, T* out) {
  if (bias != nullptr) reference::add_bias(rows, 2 * width, pre, bias);
  reference::swiglu(rows, width, pre, out);
}

template <typename T>
void swiglu_backward(std::int64_t rows, std::int64_t width, const T* pre, const T* dout, T* dpre, Sum<T>* dbias) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < width; ++j) {
      const std::int64_t at = 2 * i * width + j;
      const Sum<T> gate = get(pre[at]), value = get(pre[at + width]), d = get(dout[i * width + j]);
      const Sum<T> s = sigmoid(gate);
      const Sum<T> dgate = d * value * s * (1 + gate * (1 - s));
      const Sum<T> dvalue = d * gate * s;
      put(dpre[at], dgate);
      put(dpre[at + width], dvalue);
      if (dbias != nullptr) {
        dbias[j] += dgate;
        dbias[width + j] += dvalue;
      }
    }
  }
}

template <typename T>
void rotate(const RotaryShape& shape, T* x, bool back) {
  const int half = shape.head_dim / 2;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const auto position = static_cast<double>(row % shape.sequence);
    for (int i = 0; i < half; ++i) {
      const double angle = position * std::pow(shape.base, -2.0 * i / shape.head_dim);
      const auto c = static_cast<Sum<T>>(std::cos(angle));
      const auto s = static_cast<Sum<T>>(back ? -std::sin(angle) : std::sin(angle));
      for (int head = 0; head < shape.heads; ++head) {
        T& first = x[row * shape.stride + head * shape.head_dim + i];
        T& second = x[row * shape.stride + head * shape.head_dim + i + half];
        const Sum<T> a = get(first), b = get(second);
        put(first, a * c - b * s);
        put(second, a * s + b * c);
      }
    }
  }
}

template <typename T>
void rotate_by_table(const RotaryShape& shape, T* x, bool back, const Sum<T>* table, T* turned) {
  const int d = shape.head_dim, half = d / 2;
  const auto each_pair = [&](auto&& body) {
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      for (std::int64_t at = 0; at < std::int64_t{shape.heads} * d; ++at) {
        const std::int64_t angle = 2 * (row % shape.sequence) * half + at % half;
        body(x[row * shape.stride + at], turned[row * shape.heads * d + at], at, table[angle], table[angle + half],
             x + row * shape.stride);
      }
    }
  };
  each_pair([&](T&, T& other, std::int64_t at, Sum<T>, Sum<T>, const T* line) {
    const bool first = at % d < half;
    put(other, first ? -get(line[at + half]) : get(line[at - half]));
  });
  each_pair([&](T& value, T&, std::int64_t, Sum<T> cosine, Sum<T>, const T*) { put(value, get(value) * cosine); });
  each_pair([&](T& value, T& other, std::int64_t, Sum<T>, Sum<T> sine, const T*) {
    put(value, get(value) + get(other) * (back ? -sine : sine));
  });
}

}  // namespace twinpod::kernel::reference
