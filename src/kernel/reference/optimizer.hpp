// Updates of parameters, plainly.
#pragma once

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
    velocity[i] = static_cast<S>(settings.momentum) * velocity[i] + g + static_cast<S>(settings.decay) * master[i];
    master[i] -= static_cast<S>(settings.rate) * velocity[i];
    if (copy != nullptr) put(copy[i], master[i]);
  }
}

}  // namespace twinpod::kernel::reference
