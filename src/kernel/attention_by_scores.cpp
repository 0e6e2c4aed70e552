// Attention as plain software does it: each head's scores are a matrix in memory, made by a product and read by
// another.
#include <cmath>

#include "kernel/attention.hpp"
#include "kernel/gemm.hpp"
#include "kernel/passes.hpp"

namespace twinpod::kernel {
namespace {

// Where the parts of a head of a sequence stand: in rows of qkv, in rows of the output, and its matrix of scores.
struct HeadPlace {
  std::int64_t queries, keys, values, out, scores;
  std::int64_t dropout_row;
  bool first_of_group;  // of the heads that share keys and values
};

std::int64_t out_stride(const AttentionShape& shape) { return std::int64_t{shape.heads} * shape.head_dim; }
std::int64_t row_stride(const AttentionShape& shape) {
  return std::int64_t{shape.heads + 2 * shape.kv_heads} * shape.head_dim;
}

template <typename F>
void for_each_head(const AttentionShape& shape, const Dropout& dropout, F&& f) {
  const int group = shape.heads / shape.kv_heads;
  const std::int64_t s = shape.sequence, d = shape.head_dim;
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    const std::int64_t row = b * s * row_stride(shape);
    for (int head = 0; head < shape.heads; ++head) {
      const std::int64_t kv = head / group;
      f(HeadPlace{row + head * d, row + (shape.heads + kv) * d, row + (shape.heads + shape.kv_heads + kv) * d,
                  b * s * out_stride(shape) + head * d, (b * shape.heads + head) * s * s,
                  dropout.first_row + b * s * dropout.stride + head, head % group == 0});
    }
  }
}

template <typename T>
void drop_scores(const AttentionShape& shape, const Dropout& dropout, const T* from, T* to) {
  for_each_head(shape, dropout, [&](const HeadPlace& head) {
    Dropout own = dropout;
    own.first_row = head.dropout_row;
    drop<T>(own, shape.sequence, shape.sequence, from + head.scores, to + head.scores);
  });
}

double scale_of(const AttentionShape& shape) { return 1 / std::sqrt(shape.head_dim); }

}  // namespace

template <typename T>
void causal_softmax(std::int64_t matrices, std::int64_t sequence, double scale, T* scores) {
  passes<T>().causal_softmax(matrices, sequence, scale, scores);
}

template <typename T>
void causal_softmax_backward(std::int64_t matrices, std::int64_t sequence, double scale, const T* shares, T* d) {
  passes<T>().causal_softmax_backward(matrices, sequence, scale, shares, d);
}

template <typename T>
void attention_shares(const AttentionShape& shape, const T* qkv, T* shares) {
  const std::int64_t s = shape.sequence, stride = row_stride(shape);
  for_each_head(shape, {}, [&](const HeadPlace& head) {
    gemm<T>({.m = s, .n = s, .k = shape.head_dim, .transpose_b = true, .stride_a = stride, .stride_b = stride},
            qkv + head.queries, qkv + head.keys, shares + head.scores);
  });
  causal_softmax<T>(shape.batch * shape.heads, s, scale_of(shape), shares);
}

template <typename T>
void attention_by_scores(const AttentionShape& shape, const T* qkv, T* shares, T* out, T* room,
                         const Dropout& dropout) {
  const std::int64_t s = shape.sequence;
  attention_shares<T>(shape, qkv, shares);
  const T* weights = shares;
  if (dropout.on()) {
    drop_scores(shape, dropout, shares, room);
    weights = room;
  }
  for_each_head(shape, dropout, [&](const HeadPlace& head) {
    gemm<T>({.m = s, .n = shape.head_dim, .k = s, .stride_b = row_stride(shape), .stride_c = out_stride(shape)},
            weights + head.scores, qkv + head.values, out + head.out);
  });
}

template <typename T>
void attention_by_scores_backward(const AttentionShape& shape, const T* qkv, const T* shares, const T* dout, T* dqkv,
                                  T* room, const Dropout& dropout) {
  const std::int64_t s = shape.sequence, d = shape.head_dim, stride = row_stride(shape), outs = out_stride(shape);
  const T* weights = shares;
  if (dropout.on()) {
    drop_scores(shape, dropout, shares, room);
    weights = room;
  }
  for_each_head(shape, dropout, [&](const HeadPlace& head) {
    const bool adds = !head.first_of_group;
    gemm<T>({.m = s, .n = d, .k = s, .transpose_a = true, .accumulate = adds, .stride_b = outs, .stride_c = stride},
            weights + head.scores, dout + head.out, dqkv + head.values);
  });
  for_each_head(shape, dropout, [&](const HeadPlace& head) {
    gemm<T>({.m = s, .n = s, .k = d, .transpose_b = true, .stride_a = outs, .stride_b = stride}, dout + head.out,
            qkv + head.values, room + head.scores);
  });
  if (dropout.on()) drop_scores<T>(shape, dropout, room, room);
  causal_softmax_backward<T>(shape.batch * shape.heads, s, scale_of(shape), shares, room);
  for_each_head(shape, dropout, [&](const HeadPlace& head) {
    gemm<T>({.m = s, .n = d, .k = s, .stride_b = stride, .stride_c = stride}, room + head.scores, qkv + head.keys,
            dqkv + head.queries);
    const bool adds = !head.first_of_group;
    gemm<T>({.m = s, .n = d, .k = s, .transpose_a = true, .accumulate = adds, .stride_b = stride, .stride_c = stride},
            room + head.scores, qkv + head.queries, dqkv + head.keys);
  });
}

#define TWINPOD_INSTANTIATE(T)                                              \
  template decltype(causal_softmax<T>) causal_softmax<T>;                   \
  template decltype(causal_softmax_backward<T>) causal_softmax_backward<T>; \
  template decltype(attention_shares<T>) attention_shares<T>;               \
  template decltype(attention_by_scores<T>) attention_by_scores<T>;         \
  template decltype(attention_by_scores_backward<T>) attention_by_scores_backward<T>
TWINPOD_INSTANTIATE(float);
TWINPOD_INSTANTIATE(Bf16);
TWINPOD_INSTANTIATE(double);
#undef TWINPOD_INSTANTIATE

}  // namespace twinpod::kernel
