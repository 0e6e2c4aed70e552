#include "kernel/attention.hpp"

#include <type_traits>

#include "kernel/attention_blocks.hpp"
#include "kernel/passes.hpp"

namespace twinpod::kernel {

template <typename T>
std::size_t attention_workspace_bytes(const AttentionShape& shape) {
  if constexpr (std::is_same_v<T, double>) return 0;  // the plain kernels need none
  return attention_floats(shape) * sizeof(float);
}
template decltype(attention_workspace_bytes<float>) attention_workspace_bytes<float>;
template decltype(attention_workspace_bytes<Bf16>) attention_workspace_bytes<Bf16>;
template decltype(attention_workspace_bytes<double>) attention_workspace_bytes<double>;

template <typename T>
void attention(const AttentionShape& shape, const T* qkv, T* out, Sum<T>* log_sums, void* workspace,
               const Dropout& dropout) {
  passes<T>().attention(shape, qkv, out, log_sums, workspace, dropout);
}
template decltype(attention<float>) attention<float>;
template decltype(attention<Bf16>) attention<Bf16>;
template decltype(attention<double>) attention<double>;

template <typename T>
void attention_backward(const AttentionShape& shape, const T* qkv, const T* out, const Sum<T>* log_sums, const T* dout,
                        T* dqkv, void* workspace, const Dropout& dropout) {
  passes<T>().attention_backward(shape, qkv, out, log_sums, dout, dqkv, workspace, dropout);
}
template decltype(attention_backward<float>) attention_backward<float>;
template decltype(attention_backward<Bf16>) attention_backward<Bf16>;
template decltype(attention_backward<double>) attention_backward<double>;

}  // namespace twinpod::kernel
