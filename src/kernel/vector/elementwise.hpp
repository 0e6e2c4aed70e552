// Biases, activation functions and rotary positions over vectors.
#pragma once

#include <cstdint>

#include "kernel/elementwise.hpp"
#include "kernel/vector/vec.hpp"

namespace twinpod::kernel::vector {

template <typename V, typename T>
void add_bias(std::int64_t rows, std::int64_t width, T* x, const T* bias) {
  for (std::int64_t row = 0; row < rows; ++row, x += width) {
    each<V>(width, [&](std::int64_t j, auto lanes) {
      (V::load(x + j, lanes) + V::load(bias + j, lanes)).store(x + j, lanes);
    });
  }
}

// Four rows at a time: the sums are then read and written a quarter as often.
template <typename V, typename T>
void add_column_sums(std::int64_t rows, std::int64_t width, const T* x, float* sums) {
  std::int64_t row = 0;
  for (; row + 4 <= rows; row += 4, x += 4 * width) {
    each<V>(width, [&](std::int64_t j, auto lanes) {
      const V first = V::load(x + j, lanes) + V::load(x + width + j, lanes);
      const V second = V::load(x + 2 * width + j, lanes) + V::load(x + 3 * width + j, lanes);
      (V::load(sums + j, lanes) + (first + second)).store(sums + j, lanes);
    });
  }
  for (; row < rows; ++row, x += width) {
    each<V>(width, [&](std::int64_t j, auto lanes) {
      (V::load(sums + j, lanes) + V::load(x + j, lanes)).store(sums + j, lanes);
    });
  }
}

template <typename V, typename T>
void add(std::int64_t count, T* a, const T* b) {
  each<V>(count,
          [&](std::int64_t i, auto lanes) { (V::load(a + i, lanes) + V::load(b + i, lanes)).store(a + i, lanes); });
}

template <typename V>
TWINPOD_INLINE V limited(V x, float limit) {
  return min(V::of(limit), max(V::of(-limit), x));  // in this order not-a-numbers pass
}

// 1 / (1 + e^-x); beyond +-87 it is 1, or less than the smallest float.
template <typename V>
TWINPOD_INLINE V sigmoid(V x) {
  return inverse(V::of(1) + exponential(limited(V::zero() - x, 87)));
}

// (1 + tanh u) / 2 = sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3); nothing changes beyond |x| = 10.
template <typename V>
TWINPOD_INLINE V gelu_share(V x) {
  return sigmoid(x * fma(x * x, V::of(0.0713548163F), V::of(1.59576912F)));
}
template <typename V>
TWINPOD_INLINE V gelu_of(V x) {
  return x * gelu_share(limited(x, 10));
}
template <typename V>
TWINPOD_INLINE V gelu_slope(V given) {
  const V x = limited(given, 10);
  const V share = gelu_share(x);
  const V slope = fma(x * x, V::of(3 * 0.0713548163F), V::of(1.59576912F));
  return fma(x * slope, share * (V::of(1) - share), share);
}

template <typename V, typename T>
void gelu(std::int64_t count, const T* pre, T* out) {
  each<V>(count, [&](std::int64_t i, auto lanes) { gelu_of(V::load(pre + i, lanes)).store(out + i, lanes); });
}

template <typename V, typename T>
void bias_gelu(std::int64_t rows, std::int64_t width, T* pre, const T* bias, T* out) {
  if (bias == nullptr) return vector::gelu<V>(rows * width, pre, out);
  for (std::int64_t row = 0; row < rows; ++row, pre += width, out += width) {
    each<V>(width, [&](std::int64_t j, auto lanes) {
      const V x = as_stored(V::load(pre + j, lanes) + V::load(bias + j, lanes), pre);
      x.store(pre + j, lanes);
      gelu_of(x).store(out + j, lanes);
    });
  }
}

template <typename V, typename T>
void gelu_backward(std::int64_t rows, std::int64_t width, const T* pre, const T* dout, T* dpre, float* dbias) {
  for (std::int64_t row = 0; row < rows; ++row, pre += width, dout += width, dpre += width) {
    each<V>(width, [&](std::int64_t j, auto lanes) {
      const V d = V::load(dout + j, lanes) * gelu_slope(V::load(pre + j, lanes));
      if (dbias != nullptr) (V::load(dbias + j, lanes) + d).store(dbias + j, lanes);
      d.store(dpre + j, lanes);
    });
  }
}

template <typename V, typename T>
void swiglu(std::int64_t rows, std::int64_t width, const T* pre, T* out) {
  for (std::int64_t row = 0; row < rows; ++row, pre += 2 * width, out += width) {
    each<V>(width, [&](std::int64_t j, auto lanes) {
      const V gate = V::load(pre + j, lanes);
      (gate * sigmoid(gate) * V::load(pre + width + j, lanes)).store(out + j, lanes);
    });
  }
}

template <typename V, typename T>
void bias_swiglu(std::int64_t rows, std::int64_t width, T* pre, const T* bias, T* out) {
  for (std::int64_t row = 0; row < rows; ++row) {
    T* line = pre + 2 * row * width;
    if (bias != nullptr) vector::add_bias<V>(1, 2 * width, line, bias);
    vector::swiglu<V>(1, width, line, out + row * width);
  }
}

template <typename V, typename T>
void swiglu_backward(std::int64_t rows, std::int64_t width, const T* pre, const T* dout, T* dpre, float* dbias) {
  for (std::int64_t row = 0; row < rows; ++row, pre += 2 * width, dout += width, dpre += 2 * width) {
    each<V>(width, [&](std::int64_t j, auto lanes) {
      const V gate = V::load(pre + j, lanes), value = V::load(pre + width + j, lanes), d = V::load(dout + j, lanes);
      const V s = sigmoid(gate);
      const V dgate = d * value * s * fma(gate, V::of(1) - s, V::of(1));
      const V dvalue = d * gate * s;
      if (dbias != nullptr) {
        (V::load(dbias + j, lanes) + dgate).store(dbias + j, lanes);
        (V::load(dbias + width + j, lanes) + dvalue).store(dbias + width + j, lanes);
      }
      dgate.store(dpre + j, lanes);
      dvalue.store(dpre + width + j, lanes);
    });
  }
}

constexpr int kAngles = 256;  // of pairs that are turned together

// Pairs first .. first + count of a row's heads.
template <typename V, typename T>
void rotate_row(const RotaryShape& shape, int first, int count, T* x, const float* cosines, const float* sines) {
  const int half = shape.head_dim / 2;
  for (int head = 0; head < shape.heads; ++head, x += shape.head_dim) {
    each<V>(count, [&](std::int64_t i, auto lanes) {
      const V a = V::load(x + first + i, lanes), b = V::load(x + half + first + i, lanes);
      const V c = V::load(cosines + i, lanes), s = V::load(sines + i, lanes);
      (a * c - b * s).store(x + first + i, lanes);
      fma(a, s, b * c).store(x + half + first + i, lanes);
    });
  }
}

// Positions are outermost, so that each one's sines and cosines are found once. They follow from those of the position
// before by one more turn, in double: after 100,000 turns they are right to 1e-11.
template <typename V, typename T>
void rotate_pairs(const RotaryShape& shape, int first, int count, T* x, bool back) {
  double cosine[kAngles], sine[kAngles], turn_cosine[kAngles], turn_sine[kAngles];
  float cosines[kAngles], sines[kAngles];
  for (int i = 0; i < count; ++i) {
    const double angle = __builtin_pow(shape.base, -2.0 * (first + i) / shape.head_dim);
    cosine[i] = 1;
    sine[i] = 0;
    turn_cosine[i] = __builtin_cos(angle);
    turn_sine[i] = back ? -__builtin_sin(angle) : __builtin_sin(angle);
  }
  for (std::int64_t position = 0; position < shape.sequence && position < shape.rows; ++position) {
    for (int i = 0; i < count; ++i) {
      cosines[i] = static_cast<float>(cosine[i]);
      sines[i] = static_cast<float>(sine[i]);
      const double next = cosine[i] * turn_cosine[i] - sine[i] * turn_sine[i];
      sine[i] = cosine[i] * turn_sine[i] + sine[i] * turn_cosine[i];
      cosine[i] = next;
    }
    for (std::int64_t row = position; row < shape.rows; row += shape.sequence)
      rotate_row<V>(shape, first, count, x + row * shape.stride, cosines, sines);
  }
}

template <typename V, typename T>
void rotate(const RotaryShape& shape, T* x, bool back) {
  const int half = shape.head_dim / 2;
  for (int first = 0; first < half; first += kAngles)
    rotate_pairs<V>(shape, first, half - first < kAngles ? half - first : kAngles, x, back);
}

// Calls body(half of a head in x, the same half of the copy, the other half of x, second, angles of the row).
template <typename V, typename T, typename Body>
TWINPOD_INLINE void each_half(const RotaryShape& shape, T* x, const float* table, T* turned, const Body& body) {
  const int half = shape.head_dim / 2;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const float* angles = table + 2 * (row % shape.sequence) * half;
    for (int h = 0; h < 2 * shape.heads; ++h) {
      T* line = x + row * shape.stride;
      T* other = line + (h % 2 == 0 ? h + 1 : h - 1) * half;
      body(line + h * half, turned + (2 * row * shape.heads + h) * half, other, h % 2 == 1, angles);
    }
  }
}

template <typename V, typename T>
void rotate_by_table(const RotaryShape& shape, T* x, bool back, const float* table, T* turned) {
  const int half = shape.head_dim / 2;
  each_half<V>(shape, x, table, turned, [&](T*, T* copy, const T* other, bool second, const float*) {
    const V sign = V::of(second ? 1 : -1);
    each<V>(half, [&](std::int64_t i, auto lanes) { (V::load(other + i, lanes) * sign).store(copy + i, lanes); });
  });
  each_half<V>(shape, x, table, turned, [&](T* own, T*, const T*, bool, const float* angles) {
    each<V>(half, [&](std::int64_t i, auto lanes) {
      (V::load(own + i, lanes) * V::load(angles + i, lanes)).store(own + i, lanes);
    });
  });
  const V sign = V::of(back ? -1 : 1);
  each_half<V>(shape, x, table, turned, [&](T* own, T* copy, const T*, bool, const float* angles) {
    each<V>(half, [&](std::int64_t i, auto lanes) {
      const V sine = V::load(angles + half + i, lanes) * sign;
      fma(V::load(copy + i, lanes), sine, V::load(own + i, lanes)).store(own + i, lanes);
    });
  });
}

}  // namespace twinpod::kernel::vector
