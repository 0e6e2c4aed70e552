#include "kernel/passes.hpp"

#include <type_traits>

#include "kernel/processor.hpp"
#include "kernel/reference/attention.hpp"
#include "kernel/reference/dropout.hpp"
#include "kernel/reference/elementwise.hpp"
#include "kernel/reference/norm.hpp"
#include "kernel/reference/optimizer.hpp"
#include "kernel/reference/vocabulary.hpp"

namespace twinpod::kernel {
namespace {

template <typename T>
const Passes<T>& plain_passes() {
  static constexpr Passes<T> kPasses{
      .add_bias = reference::add_bias<T>,
      .add_column_sums = reference::add_column_sums<T>,
      .add = reference::add<T>,
      .bias_gelu = reference::bias_gelu<T>,
      .gelu = reference::gelu<T>,
      .gelu_backward = reference::gelu_backward<T>,
      .bias_swiglu = reference::bias_swiglu<T>,
      .swiglu = reference::swiglu<T>,
      .swiglu_backward = reference::swiglu_backward<T>,
      .rotate = reference::rotate<T>,
      .rotate_by_table = reference::rotate_by_table<T>,
      .drop = reference::drop<T>,
      .add_norm = reference::add_norm<T>,
      .add_residual = reference::add_residual<T>,
      .norm_again = reference::norm_again<T>,
      .norm_backward = reference::norm_backward<T>,
      .look_up = reference::look_up<T>,
      .look_up_backward = reference::look_up_backward<T>,
      .row_maxima = reference::row_maxima<T>,
      .row_sums = reference::row_sums<T>,
      .loss_backward = reference::loss_backward<T>,
      .loss_and_backward = reference::loss_and_backward<T>,
      .probabilities_of = reference::probabilities_of<T>,
      .gradients_of_probabilities = reference::gradients_of_probabilities<T>,
      .adamw = reference::adamw<T>,
      .sgd = reference::sgd<T>,
      .adamw_in_passes = reference::adamw_in_passes<T>,
      .sgd_in_passes = reference::sgd_in_passes<T>,
      .sum_of_squares = reference::sum_of_squares<Sum<T>>,
      .attention = reference::attention<T>,
      .attention_backward = reference::attention_backward<T>,
      .causal_softmax = reference::causal_softmax<T>,
      .causal_softmax_backward = reference::causal_softmax_backward<T>,
      .multiply = nullptr,
      .multiply_to_sums = nullptr,
      .packed_floats = 0,
      .multiply_by_seven = nullptr,
      .seven_floats = 0,
  };
  return kPasses;
}

}  // namespace

template <typename T>
const Passes<T>& passes() {
#ifdef __x86_64__
  if constexpr (!std::is_same_v<T, double>) {
    if (instructions() == Instructions::amx) return passes_amx<T>();
    if (instructions() == Instructions::avx512) return passes_avx512<T>();
    if (instructions() == Instructions::avx2) return passes_avx2<T>();
  }
#endif
  return plain_passes<T>();
}
template decltype(passes<float>) passes<float>;
template decltype(passes<Bf16>) passes<Bf16>;
template decltype(passes<double>) passes<double>;

}  // namespace twinpod::kernel
