// Causal attention that never stores the scores of a whole sequence.
//
//     const AttentionShape shape{.batch = 8, .sequence = 256, .heads = 6, .kv_heads = 6, .head_dim = 64};
//     std::vector<std::byte> room(attention_workspace_bytes<float>(shape));
//     attention<float>(shape, qkv, out, log_sums, room.data());
//
// A row of qkv is a token: its queries (heads x head_dim), then keys and values (kv_heads x head_dim each). Rows of a
// sequence follow each other. Several query heads may share a key/value head (grouped-query attention).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/real.hpp"

namespace twinpod::kernel {

struct AttentionShape {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
};

// Of forward and backward pass, a multiple of 64.
template <typename T>
std::size_t attention_workspace_bytes(const AttentionShape& shape);

// out: rows x (heads x head_dim). log_sums: batch x heads x sequence, log of the sum of exp(score), for backward.
template <typename T>
void attention(const AttentionShape& shape, const T* qkv, T* out, Sum<T>* log_sums, void* workspace);

// dqkv is overwritten, in the form of qkv.
template <typename T>
void attention_backward(const AttentionShape& shape, const T* qkv, const T* out, const Sum<T>* log_sums, const T* dout,
                        T* dqkv, void* workspace);

}  // namespace twinpod::kernel
