// The kernels of one instruction set: how the functions of the public headers find their fastest version.
#pragma once

#include "kernel/attention.hpp"
#include "kernel/dropout.hpp"
#include "kernel/elementwise.hpp"
#include "kernel/gemm.hpp"
#include "kernel/norm.hpp"
#include "kernel/optimizer.hpp"
#include "kernel/vocabulary.hpp"

namespace twinpod::kernel {

template <typename T>
struct Passes {
  decltype(kernel::add_bias<T>)* add_bias;
  decltype(kernel::add_column_sums<T>)* add_column_sums;
  decltype(kernel::add<T>)* add;
  decltype(kernel::bias_gelu<T>)* bias_gelu;
  decltype(kernel::gelu<T>)* gelu;
  decltype(kernel::gelu_backward<T>)* gelu_backward;
  decltype(kernel::bias_swiglu<T>)* bias_swiglu;
  decltype(kernel::swiglu<T>)* swiglu;
  decltype(kernel::swiglu_backward<T>)* swiglu_backward;
  decltype(kernel::rotate<T>)* rotate;
  decltype(kernel::rotate_by_table<T>)* rotate_by_table;
  decltype(kernel::drop<T>)* drop;
  decltype(kernel::add_norm<T>)* add_norm;
  decltype(kernel::add_residual<T>)* add_residual;
  decltype(kernel::norm_again<T>)* norm_again;
  decltype(kernel::norm_backward<T>)* norm_backward;
  decltype(kernel::look_up<T>)* look_up;
  decltype(kernel::look_up_backward<T>)* look_up_backward;
  decltype(kernel::row_maxima<T>)* row_maxima;
  decltype(kernel::row_sums<T>)* row_sums;
  decltype(kernel::loss_backward<T>)* loss_backward;
  decltype(kernel::loss_and_backward<T>)* loss_and_backward;
  decltype(kernel::probabilities_of<T>)* probabilities_of;
  decltype(kernel::gradients_of_probabilities<T>)* gradients_of_probabilities;
  decltype(kernel::adamw<T>)* adamw;
  decltype(kernel::sgd<T>)* sgd;
  decltype(kernel::adamw_in_passes<T>)* adamw_in_passes;
  decltype(kernel::sgd_in_passes<T>)* sgd_in_passes;
  decltype(kernel::sum_of_squares<Sum<T>>)* sum_of_squares;
  decltype(kernel::attention<T>)* attention;
  decltype(kernel::attention_backward<T>)* attention_backward;
  decltype(kernel::causal_softmax<T>)* causal_softmax;
  decltype(kernel::causal_softmax_backward<T>)* causal_softmax_backward;
  // Products by packed blocks, with strides set and room for `packed_floats`; null where there are none.
  void (*multiply)(const Gemm& shape, const T* a, const T* b, T* c, float* room);
  void (*multiply_to_sums)(const Gemm& shape, const T* a, const T* b, Sum<T>* c, float* room);
  std::int64_t packed_floats;
  // The same with fewer multiplications (vector/strassen.hpp), for float only.
  void (*multiply_by_seven)(const Gemm& shape, const float* a, const float* b, float* c, float* room);
  std::int64_t seven_floats;
};

// Of instructions(); for double always the plain ones. T: float, Bf16, double.
template <typename T>
const Passes<T>& passes();

// Of float and Bf16, on x86 only: vector/passes_avx2.cpp, passes_avx512.cpp, passes_amx.cpp.
template <typename T>
const Passes<T>& passes_avx2();
template <typename T>
const Passes<T>& passes_avx512();
template <typename T>
const Passes<T>& passes_amx();
template <>
const Passes<float>& passes_avx2<float>();
template <>
const Passes<Bf16>& passes_avx2<Bf16>();
template <>
const Passes<float>& passes_avx512<float>();
template <>
const Passes<Bf16>& passes_avx512<Bf16>();
template <>
const Passes<float>& passes_amx<float>();
template <>
const Passes<Bf16>& passes_amx<Bf16>();

}  // namespace twinpod::kernel
