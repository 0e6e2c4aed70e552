// Kernels that pass once over their data: biases, activation functions, rotary positions.
//
// Backward passes add to gradients of parameters and overwrite gradients of activations.
#pragma once

#include <cstdint>

#include "kernel/dropout.hpp"
#include "kernel/real.hpp"

namespace twinpod::kernel {

// x += bias, for every row.
template <typename T>
void add_bias(std::int64_t rows, std::int64_t width, T* x, const T* bias);
// sums[j] += sum of column j.
template <typename T>
void add_column_sums(std::int64_t rows, std::int64_t width, const T* x, Sum<T>* sums);
// a += b
template <typename T>
void add(std::int64_t count, T* a, const T* b);

// GELU by tanh. pre += bias (may be null), out = gelu(pre).
template <typename T>
void bias_gelu(std::int64_t rows, std::int64_t width, T* pre, const T* bias, T* out);
// out = gelu(pre) again.
template <typename T>
void gelu(std::int64_t count, const T* pre, T* out);
// dpre = dout * gelu'(pre); dbias (may be null) += column sums of it. dpre may be dout.
template <typename T>
void gelu_backward(std::int64_t rows, std::int64_t width, const T* pre, const T* dout, T* dpre, Sum<T>* dbias);

// SwiGLU: a row of pre holds width gates and then width values; out = silu(gate) * value.
// bias (may be null) has 2 width elements and is added to pre.
template <typename T>
void bias_swiglu(std::int64_t rows, std::int64_t width, T* pre, const T* bias, T* out);
template <typename T>
void swiglu(std::int64_t rows, std::int64_t width, const T* pre, T* out);
template <typename T>
void swiglu_backward(std::int64_t rows, std::int64_t width, const T* pre, const T* dout, T* dpre, Sum<T>* dbias);

// Rotary positions on `heads` heads of each row, in place: pairs (i, i + head_dim / 2) are turned by
// position / base^(2 i / head_dim), as Llama's weights expect. A row's position is its number modulo `sequence`.
struct RotaryShape {
  std::int64_t rows = 0;
  std::int64_t sequence = 0;
  int heads = 0;
  int head_dim = 0;
  std::int64_t stride = 0;  // elements from row to row
  double base = 10000;
};
// `back`: turned the other way round, for gradients.
template <typename T>
void rotate(const RotaryShape& shape, T* x, bool back);

// As plain software does it: with a table of cosines and sines (sequence x head_dim / 2 of each), and a copy of x whose
// pairs are exchanged, in passes of their own. `turned` has rows x heads x head_dim elements.
template <typename S>
void fill_rotary_table(const RotaryShape& shape, S* table);
template <typename T>
void rotate_by_table(const RotaryShape& shape, T* x, bool back, const Sum<T>* table, T* turned);

}  // namespace twinpod::kernel
