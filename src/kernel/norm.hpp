// Layer norm and RMS norm, fused with what stands before them: the sum of a residual stream.
//
//     add_norm<float>({.rows = tokens, .width = hidden}, x, delta, bias, weight, norm_bias, sum, out, mean, inverse);
//
// Backward passes add to gradients of parameters and overwrite gradients of activations.
#pragma once

#include <cstdint>

#include "kernel/dropout.hpp"
#include "kernel/real.hpp"

namespace twinpod::kernel {

struct NormShape {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  double epsilon = 1e-5;
  bool rms = false;  // no mean is taken away
};

// sum = x + delta + bias; out = norm(sum) * weight + norm_bias. Dropout is of delta + bias.
// delta, bias and norm_bias may be null; with no delta and no bias, sum may be null too (it is x). sum may be x.
// mean (layer norm only, else null) and inverse: one value a row, 1 / sqrt(variance + epsilon), for the backward pass.
template <typename T>
void add_norm(const NormShape& shape, const T* x, const T* delta, const T* bias, const T* weight, const T* norm_bias,
              T* sum, T* out, Sum<T>* mean, Sum<T>* inverse, const Dropout& dropout = {});

// The same sum without the norm.
template <typename T>
void add_residual(const NormShape& shape, const T* x, const T* delta, const T* bias, T* sum,
                  const Dropout& dropout = {});

// norm(sum) again, from what the forward pass left.
template <typename T>
void norm_again(const NormShape& shape, const T* sum, const Sum<T>* mean, const Sum<T>* inverse, const T* weight,
                const T* norm_bias, T* out);

// dx = gradient through the norm of dout, plus dresidual (may be null; may be dx).
// dweight and dnorm_bias (may be null) are added to. dbias (may be null) is the gradient of the bias in front of the
// norm: the sum of dx over the rows, added to.
template <typename T>
void norm_backward(const NormShape& shape, const T* sum, const Sum<T>* mean, const Sum<T>* inverse, const T* weight,
                   const T* dout, const T* dresidual, T* dx, Sum<T>* dweight, Sum<T>* dnorm_bias, Sum<T>* dbias);

}  // namespace twinpod::kernel
