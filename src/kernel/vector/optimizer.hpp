// Updates of parameters over vectors.
#pragma once

#include <cstdint>

#include "kernel/optimizer.hpp"
#include "kernel/vector/vec.hpp"

namespace twinpod::kernel::vector {

// What AdamW multiplies by, in every lane.
template <typename V>
struct AdamWFactors {
  V scale, epsilon;
  V beta1, rest1;  // of the mean: of what it was, of the gradient
  V beta2, rest2;  // of the mean square
  V of_square;     // corrects the mean square, as `rate` does the mean
  V rate;
  V kept;  // of a weight, after its decay
};

template <typename V>
TWINPOD_INLINE AdamWFactors<V> adamw_factors(const AdamW& s) {
  const auto in_lanes = [](double value) { return V::of(static_cast<float>(value)); };
  const auto rest = [](double beta) { return V::of(1 - static_cast<float>(beta)); };
  const auto correction = [&](double beta) { return 1 - __builtin_pow(beta, static_cast<double>(s.step)); };
  return {in_lanes(s.gradient_scale),
          in_lanes(s.epsilon),
          in_lanes(s.beta1),
          rest(s.beta1),
          in_lanes(s.beta2),
          rest(s.beta2),
          in_lanes(1 / correction(s.beta2)),
          in_lanes(-s.rate / correction(s.beta1)),
          in_lanes(1 - s.rate * s.decay)};
}

template <typename V, typename T>
void adamw(const AdamW& s, std::int64_t count, float* master, T* copy, const float* gradient, float* mean,
           float* square) {
  const AdamWFactors<V> by = adamw_factors<V>(s);
  each<V>(count, [&](std::int64_t i, auto lanes) {
    const V g = V::load(gradient + i, lanes) * by.scale;
    const V m = fma(by.beta1, V::load(mean + i, lanes), by.rest1 * g);
    const V v = fma(by.beta2, V::load(square + i, lanes), by.rest2 * g * g);
    const V p = fma(by.rate, m / (root(v * by.of_square) + by.epsilon), by.kept * V::load(master + i, lanes));
    m.store(mean + i, lanes);
    v.store(square + i, lanes);
    p.store(master + i, lanes);
    if (copy != nullptr && static_cast<void*>(copy) != master) p.store(copy + i, lanes);
  });
}

template <typename V, typename T>
void sgd(const Sgd& s, std::int64_t count, float* master, T* copy, const float* gradient, float* velocity) {
  const V scale = V::of(static_cast<float>(s.gradient_scale)), momentum = V::of(static_cast<float>(s.momentum));
  const V rate = V::of(static_cast<float>(-s.rate)), decay = V::of(static_cast<float>(s.decay));
  each<V>(count, [&](std::int64_t i, auto lanes) {
    const V p = V::load(master + i, lanes);
    V v = fma(V::load(gradient + i, lanes), scale, decay * p);
    if (velocity != nullptr) {
      v = fma(momentum, V::load(velocity + i, lanes), v);
      v.store(velocity + i, lanes);
    }
    const V next = fma(rate, v, p);
    next.store(master + i, lanes);
    if (copy != nullptr && static_cast<void*>(copy) != master) next.store(copy + i, lanes);
  });
}

// What products use, where that is not the master copy.
template <typename V, typename T>
TWINPOD_INLINE void copy_master(std::int64_t count, const float* master, T* copy) {
  if (copy == nullptr || static_cast<const void*>(copy) == master) return;
  each<V>(count, [&](std::int64_t i, auto lanes) { V::load(master + i, lanes).store(copy + i, lanes); });
}

// x = f(x, y), in a pass of its own.
template <typename V, typename F>
TWINPOD_INLINE void pass(std::int64_t count, float* x, const float* y, const F& f) {
  each<V>(count,
          [&](std::int64_t i, auto lanes) { f(V::load(x + i, lanes), V::load(y + i, lanes)).store(x + i, lanes); });
}

template <typename V, typename T>
void adamw_in_passes(const AdamW& s, std::int64_t count, float* master, T* copy, float* gradient, float* mean,
                     float* square, float* scratch) {
  const AdamWFactors<V> by = adamw_factors<V>(s);
  pass<V>(count, gradient, gradient, [&](V g, V) { return g * by.scale; });
  pass<V>(count, master, master, [&](V p, V) { return p * by.kept; });
  pass<V>(count, mean, gradient, [&](V m, V g) { return fma(by.beta1, m, by.rest1 * g); });
  pass<V>(count, square, gradient, [&](V v, V g) { return fma(by.beta2, v, by.rest2 * g * g); });
  pass<V>(count, scratch, square, [&](V, V v) { return root(v * by.of_square) + by.epsilon; });
  each<V>(count, [&](std::int64_t i, auto lanes) {
    const V p = V::load(master + i, lanes), m = V::load(mean + i, lanes);
    fma(by.rate, m / V::load(scratch + i, lanes), p).store(master + i, lanes);
  });
  copy_master<V>(count, master, copy);
}

template <typename V, typename T>
void sgd_in_passes(const Sgd& s, std::int64_t count, float* master, T* copy, float* gradient, float* velocity) {
  const V scale = V::of(static_cast<float>(s.gradient_scale)), momentum = V::of(static_cast<float>(s.momentum));
  const V rate = V::of(static_cast<float>(-s.rate)), decay = V::of(static_cast<float>(s.decay));
  pass<V>(count, gradient, gradient, [&](V g, V) { return g * scale; });
  pass<V>(count, gradient, master, [&](V g, V p) { return fma(decay, p, g); });
  if (velocity != nullptr) pass<V>(count, velocity, gradient, [&](V v, V g) { return fma(momentum, v, g); });
  pass<V>(count, master, velocity == nullptr ? gradient : velocity, [&](V p, V v) { return fma(rate, v, p); });
  copy_master<V>(count, master, copy);
}

// The 32 sums of reference::sum_of_squares.
template <typename V>
double sum_of_squares(std::int64_t count, const float* x) {
  using Doubles = double __attribute__((vector_size(64)));
  using Floats = float __attribute__((vector_size(32)));
  constexpr int kLanes = 8, kSums = 4;
  Doubles sums[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums * kLanes <= count; i += kSums * kLanes) {
    for (int k = 0; k < kSums; ++k) {
      Floats values;
      __builtin_memcpy(&values, x + i + k * kLanes, sizeof values);
      const Doubles wide = __builtin_convertvector(values, Doubles);
      sums[k] += wide * wide;
    }
  }
  double sum = 0;
  for (const Doubles& part : sums) {
    for (int lane = 0; lane < kLanes; ++lane) sum += part[lane];
  }
  for (; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

}  // namespace twinpod::kernel::vector
