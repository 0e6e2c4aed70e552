// The kernels over vectors as a table. One file for each instruction set makes it, with flags for that set.
#pragma once

#include "kernel/passes.hpp"
#include "kernel/vector/attention_backward.hpp"
#include "kernel/vector/elementwise.hpp"
#include "kernel/vector/norm.hpp"
#include "kernel/vector/optimizer.hpp"
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
    .add_norm = vector::add_norm<V, T>,
    .norm_again = vector::norm_again<V, T>,
    .norm_backward = vector::norm_backward<V, T>,
    .look_up = vector::look_up<V, T>,
    .look_up_backward = vector::look_up_backward<V, T>,
    .row_maxima = vector::row_maxima<V, T>,
    .row_sums = vector::row_sums<V, T>,
    .loss_backward = vector::loss_backward<V, T>,
    .loss_and_backward = vector::loss_and_backward<V, T>,
    .adamw = vector::adamw<V, T>,
    .sgd = vector::sgd<V, T>,
    .attention = vector::attention<V, T>,
    .attention_backward = vector::attention_backward<V, T>,
};

}  // namespace twinpod::kernel::vector
