#include "kernel/norm.hpp"

#include "kernel/passes.hpp"

namespace twinpod::kernel {

template <typename T>
void add_norm(const NormShape& shape, const T* x, const T* delta, const T* bias, const T* weight, const T* norm_bias,
              T* sum, T* out, Sum<T>* mean, Sum<T>* inverse, const Dropout& dropout) {
  passes<T>().add_norm(shape, x, delta, bias, weight, norm_bias, sum, out, mean, inverse, dropout);
}
template decltype(add_norm<float>) add_norm<float>;
template decltype(add_norm<Bf16>) add_norm<Bf16>;
template decltype(add_norm<double>) add_norm<double>;

template <typename T>
void add_residual(const NormShape& shape, const T* x, const T* delta, const T* bias, T* sum, const Dropout& dropout) {
  passes<T>().add_residual(shape, x, delta, bias, sum, dropout);
}
template decltype(add_residual<float>) add_residual<float>;
template decltype(add_residual<Bf16>) add_residual<Bf16>;
template decltype(add_residual<double>) add_residual<double>;

template <typename T>
void norm_again(const NormShape& shape, const T* sum, const Sum<T>* mean, const Sum<T>* inverse, const T* weight,
                const T* norm_bias, T* out) {
  passes<T>().norm_again(shape, sum, mean, inverse, weight, norm_bias, out);
}
template decltype(norm_again<float>) norm_again<float>;
template decltype(norm_again<Bf16>) norm_again<Bf16>;
template decltype(norm_again<double>) norm_again<double>;

template <typename T>
void norm_backward(const NormShape& shape, const T* sum, const Sum<T>* mean, const Sum<T>* inverse, const T* weight,
                   const T* dout, const T* dresidual, T* dx, Sum<T>* dweight, Sum<T>* dnorm_bias, Sum<T>* dbias) {
  passes<T>().norm_backward(shape, sum, mean, inverse, weight, dout, dresidual, dx, dweight, dnorm_bias, dbias);
}
template decltype(norm_backward<float>) norm_backward<float>;
template decltype(norm_backward<Bf16>) norm_backward<Bf16>;
template decltype(norm_backward<double>) norm_backward<double>;

}  // namespace twinpod::kernel
