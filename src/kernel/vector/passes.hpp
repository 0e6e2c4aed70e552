// The kernels over vectors as a table. One file for each instruction set makes it, with flags for that set.
#pragma once

#include <type_traits>

#include "kernel/passes.hpp"
#include "kernel/vector/attention_vectors.hpp"
#include "kernel/vector/elementwise.hpp"
#include "kernel/vector/gemm.hpp"
#include "kernel/vector/norm.hpp"
#include "kernel/vector/optimizer.hpp"
#include "kernel/vector/strassen.hpp"
#include "kernel/vector/vocabulary.hpp"

namespace twinpod::kernel::vector {

template <typename V, typename T>
constexpr Passes<T> kVectorPasses{
    .add_bias = vector::add_bias<V, T>,
    .add_column_sums = vector::add_column_sums<V, T>,
    .add = vector::add<V, T>,
    .bias_gelu = vector::bias_gelu<V, T>,
    .gelu = vector::gelu<V, T>,
    .gelu_backward = vector::gelu_backward<V, T>,
    .bias_swiglu = vector::bias_swiglu<V, T>,
    .swiglu = vector::swiglu<V, T>,
    .swiglu_backward = vector::swiglu_backward<V, T>,
    .rotate = vector::rotate<V, T>,
    .rotate_by_table = vector::rotate_by_table<V, T>,
    .drop = vector::drop<V, T>,
    .add_norm = vector::add_norm<V, T>,
    .add_residual = vector::add_residual<V, T>,
    .norm_again = vector::norm_again<V, T>,
    .norm_backward = vector::norm_backward<V, T>,
    .look_up = vector::look_up<V, T>,
    .look_up_backward = vector::look_up_backward<V, T>,
    .row_maxima = vector::row_maxima<V, T>,
    .row_sums = vector::row_sums<V, T>,
    .loss_backward = vector::loss_backward<V, T>,
    .loss_and_backward = vector::loss_and_backward<V, T>,
    .probabilities_of = vector::probabilities_of<V, T>,
    .gradients_of_probabilities = vector::gradients_of_probabilities<V, T>,
    .adamw = vector::adamw<V, T>,
    .sgd = vector::sgd<V, T>,
    .adamw_in_passes = vector::adamw_in_passes<V, T>,
    .sgd_in_passes = vector::sgd_in_passes<V, T>,
    .sum_of_squares = vector::sum_of_squares<V>,
    .attention = vector::attention<V, T>,
    .attention_backward = vector::attention_backward<V, T>,
    .causal_softmax = vector::causal_softmax<V, T>,
    .causal_softmax_backward = vector::causal_softmax_backward<V, T>,
    .multiply = vector::multiply<V, T, T>,
    .multiply_to_sums = vector::multiply<V, T, float>,
    .packed_floats = kPackedFloats,
    .multiply_by_seven = std::is_same_v<T, float> ? vector::multiply_by_seven<V> : nullptr,
    .seven_floats = kPackedFloats + kStrassenFloats,
};

}  // namespace twinpod::kernel::vector
