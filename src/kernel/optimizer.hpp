// Updates of parameters, over flat buffers.
#pragma once

#include <cstdint>

#include "kernel/real.hpp"

namespace twinpod::kernel {

struct AdamW {
  double rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double decay = 0;           // weight decay, of the rate
  double gradient_scale = 1;  // from clipping, and from averages
  std::int64_t step = 1;      // from 1 on, for the correction of both means
};

// `master` is updated; `copy` (may be null, or of the same memory when T is the master's type) is what products use.
template <typename T>
void adamw(const AdamW& settings, std::int64_t count, Sum<T>* master, T* copy, const Sum<T>* gradient, Sum<T>* mean,
           Sum<T>* square);

struct Sgd {
  double rate = 1e-2;
  double momentum = 0.9;
  double decay = 0;
  double gradient_scale = 1;
};
// velocity = momentum * velocity + gradient + decay * master; master -= rate * velocity. Without momentum velocity may
// be null.
template <typename T>
void sgd(const Sgd& settings, std::int64_t count, Sum<T>* master, T* copy, const Sum<T>* gradient, Sum<T>* velocity);

// Both as plain software does them: a pass for each operation. Clipping scales the gradients themselves. `scratch`: one
// number for each element.
template <typename T>
void adamw_in_passes(const AdamW& settings, std::int64_t count, Sum<T>* master, T* copy, Sum<T>* gradient, Sum<T>* mean,
                     Sum<T>* square, Sum<T>* scratch);
template <typename T>
void sgd_in_passes(const Sgd& settings, std::int64_t count, Sum<T>* master, T* copy, Sum<T>* gradient,
                   Sum<T>* velocity);

// In double, in an order that does not depend on the processor.
template <typename S>
double sum_of_squares(std::int64_t count, const S* x);

}  // namespace twinpod::kernel
