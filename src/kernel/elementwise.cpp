#include "kernel/elementwise.hpp"

#include <cmath>

#include "kernel/passes.hpp"

namespace twinpod::kernel {

template <typename T>
void add_bias(std::int64_t rows, std::int64_t width, T* x, const T* bias) {
  passes<T>().add_bias(rows, width, x, bias);
}
template decltype(add_bias<float>) add_bias<float>;
template decltype(add_bias<Bf16>) add_bias<Bf16>;
template decltype(add_bias<double>) add_bias<double>;

template <typename T>
void add_column_sums(std::int64_t rows, std::int64_t width, const T* x, Sum<T>* sums) {
  passes<T>().add_column_sums(rows, width, x, sums);
}
template decltype(add_column_sums<float>) add_column_sums<float>;
template decltype(add_column_sums<Bf16>) add_column_sums<Bf16>;
template decltype(add_column_sums<double>) add_column_sums<double>;

template <typename T>
void add(std::int64_t count, T* a, const T* b) {
  passes<T>().add(count, a, b);
}
template decltype(add<float>) add<float>;
template decltype(add<Bf16>) add<Bf16>;
template decltype(add<double>) add<double>;

template <typename T>
void bias_gelu(std::int64_t rows, std::int64_t width, T* pre, const T* bias, T* out) {
  passes<T>().bias_gelu(rows, width, pre, bias, out);
}
template decltype(bias_gelu<float>) bias_gelu<float>;
template decltype(bias_gelu<Bf16>) bias_gelu<Bf16>;
template decltype(bias_gelu<double>) bias_gelu<double>;

template <typename T>
void gelu(std::int64_t count, const T* pre, T* out) {
  passes<T>().gelu(count, pre, out);
}
template decltype(gelu<float>) gelu<float>;
template decltype(gelu<Bf16>) gelu<Bf16>;
template decltype(gelu<double>) gelu<double>;

template <typename T>
void gelu_backward(std::int64_t rows, std::int64_t width, const T* pre, const T* dout, T* dpre, Sum<T>* dbias) {
  passes<T>().gelu_backward(rows, width, pre, dout, dpre, dbias);
}
template decltype(gelu_backward<float>) gelu_backward<float>;
template decltype(gelu_backward<Bf16>) gelu_backward<Bf16>;
template decltype(gelu_backward<double>) gelu_backward<double>;

template <typename T>
void bias_swiglu(std::int64_t rows, std::int64_t width, T* pre, const T* bias, T* out) {
  passes<T>().bias_swiglu(rows, width, pre, bias, out);
}
template decltype(bias_swiglu<float>) bias_swiglu<float>;
template decltype(bias_swiglu<Bf16>) bias_swiglu<Bf16>;
template decltype(bias_swiglu<double>) bias_swiglu<double>;

template <typename T>
void swiglu(std::int64_t rows, std::int64_t width, const T* pre, T* out) {
  passes<T>().swiglu(rows, width, pre, out);
}
template decltype(swiglu<float>) swiglu<float>;
template decltype(swiglu<Bf16>) swiglu<Bf16>;
template decltype(swiglu<double>) swiglu<double>;

template <typename T>
void swiglu_backward(std::int64_t rows, std::int64_t width, const T* pre, const T* dout, T* dpre, Sum<T>* dbias) {
  passes<T>().swiglu_backward(rows, width, pre, dout, dpre, dbias);
}
template decltype(swiglu_backward<float>) swiglu_backward<float>;
template decltype(swiglu_backward<Bf16>) swiglu_backward<Bf16>;
template decltype(swiglu_backward<double>) swiglu_backward<double>;

template <typename T>
void rotate(const RotaryShape& shape, T* x, bool back) {
  passes<T>().rotate(shape, x, back);
}
template decltype(rotate<float>) rotate<float>;
template decltype(rotate<Bf16>) rotate<Bf16>;
template decltype(rotate<double>) rotate<double>;

template <typename S>
void fill_rotary_table(const RotaryShape& shape, S* table) {
  const int half = shape.head_dim / 2;
  for (std::int64_t position = 0; position < shape.sequence; ++position) {
    for (int i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * std::pow(shape.base, -2.0 * i / shape.head_dim);
      table[2 * position * half + i] = static_cast<S>(std::cos(angle));
      table[(2 * position + 1) * half + i] = static_cast<S>(std::sin(angle));
    }
  }
}
template decltype(fill_rotary_table<float>) fill_rotary_table<float>;
template decltype(fill_rotary_table<double>) fill_rotary_table<double>;

template <typename T>
void rotate_by_table(const RotaryShape& shape, T* x, bool back, const Sum<T>* table, T* turned) {
  passes<T>().rotate_by_table(shape, x, back, table, turned);
}
template decltype(rotate_by_table<float>) rotate_by_table<float>;
template decltype(rotate_by_table<Bf16>) rotate_by_table<Bf16>;
template decltype(rotate_by_table<double>) rotate_by_table<double>;

template <typename T>
void drop(const Dropout& dropout, std::int64_t rows, std::int64_t width, const T* x, T* out) {
  passes<T>().drop(dropout, rows, width, x, out);
}
template decltype(drop<float>) drop<float>;
template decltype(drop<Bf16>) drop<Bf16>;
template decltype(drop<double>) drop<double>;

}  // namespace twinpod::kernel
