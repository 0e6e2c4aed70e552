// Updates of parameters, plainly.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "kernel/optimizer.hpp"
#include "kernel/reference/element.hpp"

namespace twinpod::kernel::reference {

template <typename T>
void adamw(const AdamW& settings, std::int64_t count, Sum<T>* master, T* copy, const Sum<T>* gradient, Sum<T>* mean,
           Sum<T>* square) {
  using S = Sum<T>;
  const auto beta1 = static_cast<S>(settings.beta1), beta2 = static_cast<S>(settings.beta2);
  const auto of_mean = static_cast<S>(1 / (1 - std::pow(settings.beta1, static_cast<double>(settings.step))));
  const auto of_square = static_cast<S>(1 / (1 - std::pow(settings.beta2, static_cast<double>(settings.step))));
  for (std::int64_t i = 0; i < count; ++i) {
    const S g = gradient[i] * static_cast<S>(settings.gradient_scale);
    mean[i] = beta1 * mean[i] + (1 - beta1) * g;
    square[i] = beta2 * square[i] + (1 - beta2) * g * g;
    const S step = mean[i] * of_mean / (std::sqrt(square[i] * of_square) + static_cast<S>(settings.epsilon));
    master[i] -= static_cast<S>(settings.rate) * (step + static_cast<S>(settings.decay) * master[i]);
    if (copy != nullptr) put(copy[i], master[i]);
  }
}

template <typename T>
void sgd(const Sgd& settings, std::int64_t count, Sum<T>* master, T* copy, const Sum<T>* gradient, Sum<T>* velocity) {
  using S = Sum<T>;
  for (std::int64_t i = 0; i < count; ++i) {
    const S g = gradient[i] * static_cast<S>(settings.gradient_scale);
    const S before = velocity == nullptr ? 0 : static_cast<S>(settings.momentum) * velocity[i];
    const S v = before + g + static_cast<S>(settings.decay) * master[i];
    if (velocity != nullptr) velocity[i] = v;
    master[i] -= static_cast<S>(settings.rate) * v;
    if (copy != nullptr) put(copy[i], master[i]);
  }
}

template <typename T>
void adamw_in_passes(const AdamW& settings, std::int64_t count, Sum<T>* master, T* copy, Sum<T>* gradient, Sum<T>* mean,
                     Sum<T>* square, Sum<T>* scratch) {
  using S = Sum<T>;
  const auto beta1 = static_cast<S>(settings.beta1), beta2 = static_cast<S>(settings.beta2);
  const auto of_square = static_cast<S>(1 / (1 - std::pow(settings.beta2, static_cast<double>(settings.step))));
  const auto rate = static_cast<S>(settings.rate / (1 - std::pow(settings.beta1, static_cast<double>(settings.step))));
  const auto pass = [&](auto&& body) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
  };
  pass([&](std::int64_t i) { gradient[i] *= static_cast<S>(settings.gradient_scale); });
  pass([&](std::int64_t i) { master[i] *= static_cast<S>(1 - settings.rate * settings.decay); });
  pass([&](std::int64_t i) { mean[i] = beta1 * mean[i] + (1 - beta1) * gradient[i]; });
  pass([&](std::int64_t i) { square[i] = beta2 * square[i] + (1 - beta2) * gradient[i] * gradient[i]; });
  pass([&](std::int64_t i) { scratch[i] = std::sqrt(square[i] * of_square) + static_cast<S>(settings.epsilon); });
  pass([&](std::int64_t i) { master[i] -= rate * mean[i] / scratch[i]; });
  if (copy != nullptr) pass([&](std::int64_t i) { put(copy[i], master[i]); });
}

template <typename T>
void sgd_in_passes(const Sgd& settings, std::int64_t count, Sum<T>* master, T* copy, Sum<T>* gradient,
                   Sum<T>* velocity) {
  using S = Sum<T>;
  for (std::int64_t i = 0; i < count; ++i) gradient[i] *= static_cast<S>(settings.gradient_scale);
  for (std::int64_t i = 0; i < count; ++i) gradient[i] += static_cast<S>(settings.decay) * master[i];
  for (std::int64_t i = 0; i < count && velocity != nullptr; ++i)
    velocity[i] = static_cast<S>(settings.momentum) * velocity[i] + gradient[i];
  const S* step = velocity == nullptr ? gradient : velocity;
  for (std::int64_t i = 0; i < count; ++i) master[i] -= static_cast<S>(settings.rate) * step[i];
  if (copy == nullptr) return;
  for (std::int64_t i = 0; i < count; ++i) put(copy[i], master[i]);
}

// 32 sums side by side, each of every 32nd element, whatever the processor. The square of a float is exact in double,
// so that a fused multiplication and addition changes nothing.
template <typename S>
double sum_of_squares(std::int64_t count, const S* x) {
  constexpr int kLanes = 32;
  std::array<double, kLanes> sums{};
  const std::int64_t whole = count - count % kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const double value = x[i + lane];
      sums[static_cast<std::size_t>(lane)] += value * value;
    }
  }
  double sum = 0;
  for (const double part : sums) sum += part;
  for (std::int64_t i = whole; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

}  // namespace twinpod::kernel::reference
