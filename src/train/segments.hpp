// What segments.cpp, layers.cpp and ends.cpp share: where the tensors of an op lie, products, dropout.
#pragma once

#include <algorithm>

#include "core/rng.hpp"
#include "kernel/elementwise.hpp"
#include "kernel/gemm.hpp"
#include "train/rank.hpp"

namespace twinpod::train {

// A layer of the chunk at work, with the activations of a micro-batch.
template <typename T>
struct LayerView {
  const Piece& piece;
  const T* weights;
  const model::KeptLayer& places;
  std::byte* stored;
  std::byte* working;
  int number;  // of the model
  int micro_batch;

  template <typename U = T>
  U* at(model::Kept which) const {
    const model::KeptPlace& place = places[which];
    return reinterpret_cast<U*>((place.stored ? stored : working) + place.offset);  // NOLINT: raw memory
  }
  const T* weight(Role role) const {
    const std::int64_t offset = piece.at(role);
    return offset < 0 ? nullptr : weights + offset;
  }
};

template <typename T>
Sum<T>* gradient(Rank<T>& rank, const Piece& piece, Role role) {
  const std::int64_t offset = piece.at(role);
  return offset < 0 ? nullptr : gradients_of(rank, piece) + offset;
}

template <typename T>
const std::int32_t* of_micro_batch(Rank<T>& rank, const std::vector<std::int32_t>& all, const Place& place) {
  return all.data() + place.micro_batch * rank.sizes.tokens;
}

// x w^T, the gradient of x, and the gradient of w.
template <typename T>
void forward_product(std::int64_t rows, std::int64_t outputs, std::int64_t inputs, const T* x, const T* w, T* y) {
  kernel::gemm<T>({.m = rows, .n = outputs, .k = inputs, .transpose_b = true, .recombines = true}, x, w, y);
}

template <typename T>
void backward_product(std::int64_t rows, std::int64_t outputs, std::int64_t inputs, const T* dy, const T* w, T* dx) {
  kernel::gemm<T>({.m = rows, .n = inputs, .k = outputs, .recombines = true}, dy, w, dx);
}

// Nothing is multiplied by the gradient of w, so that a small error of it stays small. In the vocabulary's the rows of
// seldom tokens are smaller than others by many digits, which they must keep.
template <typename T>
void weight_product(const Rank<T>& rank, std::int64_t outputs, std::int64_t inputs, const T* dy, const T* x, Sum<T>* dw,
                    bool accumulate, bool of_vocabulary = false) {
  const bool whole = rank.job.training.recipe.whole_gradients;
  kernel::gemm<T, Sum<T>>({.m = outputs,
                           .n = inputs,
                           .k = rank.sizes.tokens,
                           .transpose_a = true,
                           .accumulate = accumulate,
                           .rounds_operands = !whole,
                           .recombines = !whole && !of_vocabulary},
                          dy, x, dw);
}

// The first backward pass of a step overwrites gradients of matrices; the others add.
template <typename T>
bool accumulates(Rank<T>& rank, const Piece& piece) {
  return rank.shards_gradients || rank.passes[&piece] > 0;
}

// This rank's rows of a tensor with all rows.
template <typename T, typename U>
U* own_rows(Rank<T>& rank, U* all) {
  return rank.sequence_parallel() ? all + rank.tp_rank * rank.sizes.rows * rank.sizes.hidden : all;
}

// Positions are those of queries and keys.
template <typename T>
kernel::RotaryShape rotary_shape(const Rank<T>& rank) {
  const kernel::AttentionShape& a = rank.sizes.attention;
  return {rank.sizes.tokens, a.sequence, a.heads + a.kv_heads, a.head_dim, rank.sizes.queries + 2 * rank.sizes.keys};
}

// ---- dropout ----

// Each draws numbers of its own.
enum class Drop : std::uint8_t { embedding, attention, mlp, scores };

// Of all rows of a micro-batch, numbered as in the whole batch: samples are dealt out to micro-batch after micro-batch
// and, within one, to copy after copy (data/samples.hpp). The optimizer counts the steps.
template <typename T>
kernel::Dropout dropout_of(const Rank<T>& rank, Drop what, int layer, int micro_batch) {
  const spec::Recipe& recipe = rank.job.training.recipe;
  const double rate = what == Drop::scores ? recipe.attention_dropout : recipe.dropout;
  if (!rank.drops || rate <= 0) return {};
  std::uint64_t key = rank.seed;
  for (const std::int64_t part : {rank.settings.adamw.step, std::int64_t{layer} + 1, static_cast<std::int64_t>(what)}) {
    std::uint64_t state = key ^ static_cast<std::uint64_t>(part);
    key = splitmix64(state);
  }
  const std::int64_t token = (std::int64_t{micro_batch} * rank.copies + rank.copy) * rank.sizes.tokens;
  if (what != Drop::scores) return {key, rate, token, 1};
  const std::int64_t heads = rank.job.model.attention.heads;
  return {key, rate, token * heads + rank.tp_rank * rank.sizes.attention.heads, heads};
}

// The same of this rank's rows.
template <typename T>
kernel::Dropout of_own_rows(const Rank<T>& rank, kernel::Dropout dropout) {
  if (rank.sequence_parallel()) dropout.first_row += rank.tp_rank * rank.sizes.rows;
  return dropout;
}

// ---- the residual stream ----

// sum = the stream with what is to be added to it, out = its norm. `sum` may be null when nothing is to be added.
template <typename T>
struct NormCall {
  const T* x = nullptr;
  const T* weight = nullptr;
  const T* bias = nullptr;
  T* sum = nullptr;
  T* out = nullptr;
  Sum<T>* mean = nullptr;
  Sum<T>* scale = nullptr;
};
template <typename T>
void add_and_norm(Rank<T>& rank, const NormCall<T>& call);

// ---- what the segments do ----

template <typename T>
void norm_of_layer(Rank<T>& rank, const LayerView<T>& layer, bool attention, bool again);
template <typename T>
void attention_forward(Rank<T>& rank, const LayerView<T>& layer, bool again);
template <typename T>
void attention_backward(Rank<T>& rank, const LayerView<T>& layer);
template <typename T>
void mlp_forward(Rank<T>& rank, const LayerView<T>& layer, bool again);
template <typename T>
void mlp_backward(Rank<T>& rank, const LayerView<T>& layer);
// Selective recomputation: what one pass over memory makes again.
template <typename T>
void remake(Rank<T>& rank, const LayerView<T>& layer);

template <typename T>
void embedding_forward(Rank<T>& rank, const Place& place);
template <typename T>
void embedding_backward(Rank<T>& rank, const Place& place);
template <typename T>
void norm_of_head(Rank<T>& rank, const Place& place);
template <typename T>
T* normed_rows_of_head(Rank<T>& rank, const Place& place);
template <typename T>
void head_forward(Rank<T>& rank, const Place& place);
template <typename T>
void head_backward(Rank<T>& rank, const Place& place);

}  // namespace twinpod::train
