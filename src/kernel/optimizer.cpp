#include "kernel/optimizer.hpp"

#include "kernel/passes.hpp"

namespace twinpod::kernel {

template <typename T>
void adamw(const AdamW& settings, std::int64_t count, Sum<T>* master, T* copy, const Sum<T>* gradient, Sum<T>* mean,
           Sum<T>* square) {
  passes<T>().adamw(settings, count, master, copy, gradient, mean, square);
}
template decltype(adamw<float>) adamw<float>;
template decltype(adamw<Bf16>) adamw<Bf16>;
template decltype(adamw<double>) adamw<double>;

template <typename T>
void sgd(const Sgd& settings, std::int64_t count, Sum<T>* master, T* copy, const Sum<T>* gradient, Sum<T>* velocity) {
  passes<T>().sgd(settings, count, master, copy, gradient, velocity);
}
template decltype(sgd<float>) sgd<float>;
template decltype(sgd<Bf16>) sgd<Bf16>;
template decltype(sgd<double>) sgd<double>;

template <typename T>
void adamw_in_passes(const AdamW& settings, std::int64_t count, Sum<T>* master, T* copy, Sum<T>* gradient, Sum<T>* mean,
                     Sum<T>* square, Sum<T>* scratch) {
  passes<T>().adamw_in_passes(settings, count, master, copy, gradient, mean, square, scratch);
}
template decltype(adamw_in_passes<float>) adamw_in_passes<float>;
template decltype(adamw_in_passes<Bf16>) adamw_in_passes<Bf16>;
template decltype(adamw_in_passes<double>) adamw_in_passes<double>;

template <typename T>
void sgd_in_passes(const Sgd& settings, std::int64_t count, Sum<T>* master, T* copy, Sum<T>* gradient,
                   Sum<T>* velocity) {
  passes<T>().sgd_in_passes(settings, count, master, copy, gradient, velocity);
}
template decltype(sgd_in_passes<float>) sgd_in_passes<float>;
template decltype(sgd_in_passes<Bf16>) sgd_in_passes<Bf16>;
template decltype(sgd_in_passes<double>) sgd_in_passes<double>;

template <typename S>
double sum_of_squares(std::int64_t count, const S* x) {
  return passes<S>().sum_of_squares(count, x);
}
template decltype(sum_of_squares<float>) sum_of_squares<float>;
template decltype(sum_of_squares<double>) sum_of_squares<double>;

}  // namespace twinpod::kernel
