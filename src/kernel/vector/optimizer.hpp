// Updates of parameters over vectors.
#pragma once

#include <cstdint>

#include "kernel/optimizer.hpp"
#include "kernel/vector/vec.hpp"

namespace twinpod::kernel::vector {

template <typename V, typename T>
void adamw(const AdamW& s, std::int64_t count, float* master, T* copy, const float* gradient, float* mean,
           float* square) {
  const auto step = static_cast<double>(s.step);
  const V scale = V::of(static_cast<float>(s.gradient_scale)), epsilon = V::of(static_cast<float>(s.epsilon));
  const V beta1 = V::of(static_cast<float>(s.beta1)), rest1 = V::of(1 - static_cast<float>(s.beta1));
  const V beta2 = V::of(static_cast<float>(s.beta2)), rest2 = V::of(1 - static_cast<float>(s.beta2));
  const V of_square = V::of(static_cast<float>(1 / (1 - __builtin_pow(s.beta2, step))));
  const V rate = V::of(static_cast<float>(-s.rate / (1 - __builtin_pow(s.beta1, step))));
  const V kept = V::of(static_cast<float>(1 - s.rate * s.decay));
  each<V>(count, [&](std::int64_t i, auto lanes) {
    const V g = V::load(gradient + i, lanes) * scale;
    const V m = fma(beta1, V::load(mean + i, lanes), rest1 * g);
    const V v = fma(beta2, V::load(square + i, lanes), rest2 * g * g);
    const V p = fma(rate, m / (root(v * of_square) + epsilon), kept * V::load(master + i, lanes));
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
    const V v = fma(momentum, V::load(velocity + i, lanes), fma(V::load(gradient + i, lanes), scale, decay * p));
    v.store(velocity + i, lanes);
    const V next = fma(rate, v, p);
    next.store(master + i, lanes);
    if (copy != nullptr && static_cast<void*>(copy) != master) next.store(copy + i, lanes);
  });
}

}  // namespace twinpod::kernel::vector
