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

#include "kernel/dropout.hpp"
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
// Dropout is of the softmax: its row is a token's head (`stride`: heads of all ranks), its column a key's position.
template <typename T>
void attention(const AttentionShape& shape, const T* qkv, T* out, Sum<T>* log_sums, void* workspace,
               const Dropout& dropout = {});

// dqkv is overwritten, in the form of qkv.
template <typename T>
void attention_backward(const AttentionShape& shape, const T* qkv, const T* out, const Sum<T>* log_sums, const T* dout,
                        T* dqkv, void* workspace, const Dropout& dropout = {});

// The same, with the softmax of all scores in memory: shares is batch x heads x sequence x sequence, for backward.
// `room` has the same size.
template <typename T>
void attention_by_scores(const AttentionShape& shape, const T* qkv, T* shares, T* out, T* room,
                         const Dropout& dropout = {});
// shares again, where they were not kept.
template <typename T>
void attention_shares(const AttentionShape& shape, const T* qkv, T* shares);
template <typename T>
void attention_by_scores_backward(const AttentionShape& shape, const T* qkv, const T* shares, const T* dout, T* dqkv,
                                  T* room, const Dropout& dropout = {});

// Passes that these are made of, over so many matrices of sequence x sequence.
// Scores become the softmax of score * scale over the keys up to the query's own, zeros behind.
template <typename T>
void causal_softmax(std::int64_t matrices, std::int64_t sequence, double scale, T* scores);
// d = shares * (d - sum of shares * d) * scale
template <typename T>
void causal_softmax_backward(std::int64_t matrices, std::int64_t sequence, double scale, const T* shares, T* d);

}  // namespace twinpod::kernel
