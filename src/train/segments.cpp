// What the segments of a model compute, forward and backward.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernel/elementwise.hpp"
#include "kernel/gemm.hpp"
#include "train/rank.hpp"

namespace twinpod::train {
namespace {

using model::Kept;
using program::Phase;
using program::PlacedOp;
using program::Segment;

template <typename T>
struct LayerView {
  const Piece& piece;
  const T* weights;
  model::KeptLayer places;
  std::byte* stored;
  std::byte* working;

  template <typename U = T>
  U* at(Kept which) const {
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
const std::vector<Piece>& chunk_of(Rank<T>& rank, const Place& place) {
  return rank.pieces.chunks[static_cast<std::size_t>(place.chunk)];
}

template <typename T>
LayerView<T> layer_view(Rank<T>& rank, const PlacedOp& op, const Place& place) {
  const auto layer = static_cast<std::size_t>(op.op->layer);
  const Piece& piece = piece_of(chunk_of(rank, place), Segment::block, op.op->layer);
  const program::Shape& shape = rank.program.shapes[static_cast<std::size_t>(op.block->shapes[0])];
  const model::KeptRules rules{rank.job.layout.recompute, shape.layers[layer].recomputed, sizeof(T)};
  KeptBuffers& kept = rank.kept.at(place.key());
  return {piece, weights_of(rank, piece), model::kept_of_layer(rank.job.model, model::shard_of(rank.job), rules),
          kept.stored[layer], kept.working[layer]};
}

template <typename T>
const std::int32_t* of_micro_batch(Rank<T>& rank, const std::vector<std::int32_t>& all, const Place& place) {
  return all.data() + place.micro_batch * rank.sizes.tokens;
}

// x w^T, the gradient of x, and the gradient of w.
template <typename T>
void forward_product(std::int64_t rows, std::int64_t outputs, std::int64_t inputs, const T* x, const T* w, T* y) {
  kernel::gemm<T>({.m = rows, .n = outputs, .k = inputs, .transpose_b = true}, x, w, y);
}

template <typename T>
void backward_product(std::int64_t rows, std::int64_t outputs, std::int64_t inputs, const T* dy, const T* w, T* dx) {
  kernel::gemm<T>({.m = rows, .n = inputs, .k = outputs}, dy, w, dx);
}

template <typename T>
void weight_product(std::int64_t rows, std::int64_t outputs, std::int64_t inputs, const T* dy, const T* x, Sum<T>* dw,
                    bool accumulate) {
  kernel::gemm<T, Sum<T>>({.m = outputs, .n = inputs, .k = rows, .transpose_a = true, .accumulate = accumulate}, dy, x,
                          dw);
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

// ---- forward ----

template <typename T>
void after_delta(Rank<T>& rank, const T* bias) {
  rank.flow.delta = own_rows(rank, rank.space(rank.places.delta));
  rank.flow.bias = bias;
  if (rank.shards_parameters && bias != nullptr) {
    // The piece may be gone when the next one adds it.
    std::copy_n(bias, rank.sizes.hidden, rank.bias);
    rank.flow.bias = rank.bias;
  }
  rank.flow.normed = false;
}

template <typename T>
void norm_of_layer(Rank<T>& rank, const LayerView<T>& layer, bool attention, bool again) {
  Flow<T>& flow = rank.flow;
  const Kept input = attention ? Kept::input : Kept::middle;
  // What goes on to the next layer must outlive this one's buffers.
  const bool passes_on = !attention && !again && !layer.places[Kept::middle].stored;
  T* sum = passes_on ? rank.space(rank.places.stream) : layer.at(input);
  const bool first = again && attention;  // what is recomputed begins with what was stored
  const T* x = first ? sum : flow.stream;
  const bool has_mean = !rank.sizes.norm.rms;
  kernel::add_norm<T>(rank.sizes.norm, x, first ? nullptr : flow.delta, first ? nullptr : flow.bias,
                      layer.weight(attention ? Role::attention_norm : Role::mlp_norm),
                      layer.weight(attention ? Role::attention_norm_bias : Role::mlp_norm_bias), first ? nullptr : sum,
                      own_rows(rank, layer.at(attention ? Kept::attention_in : Kept::mlp_in)),
                      has_mean ? layer.template at<Sum<T>>(attention ? Kept::input_mean : Kept::middle_mean) : nullptr,
                      layer.template at<Sum<T>>(attention ? Kept::input_scale : Kept::middle_scale));
  flow.stream = sum;
  flow.delta = nullptr;
  flow.bias = nullptr;
  flow.normed = true;
}

template <typename T>
void rotate_heads(Rank<T>& rank, T* qkv, bool back) {
  if (rank.job.model.positions != spec::Positions::rotary) return;
  const kernel::AttentionShape& a = rank.sizes.attention;
  kernel::RotaryShape shape{rank.sizes.tokens, a.sequence, a.heads + a.kv_heads, a.head_dim,
                            rank.sizes.queries + 2 * rank.sizes.keys};
  kernel::rotate<T>(shape, qkv, back);
}

template <typename T>
void attention_forward(Rank<T>& rank, const LayerView<T>& layer, bool again) {
  const Sizes& s = rank.sizes;
  if (!rank.flow.normed) norm_of_layer(rank, layer, true, again);
  const std::int64_t width = s.queries + 2 * s.keys;
  T* qkv = layer.at(Kept::qkv);
  forward_product(s.tokens, width, s.hidden, layer.at(Kept::attention_in), layer.weight(Role::qkv), qkv);
  if (const T* bias = layer.weight(Role::qkv_bias)) kernel::add_bias<T>(s.tokens, width, qkv, bias);
  rotate_heads(rank, qkv, false);
  kernel::attention<T>(s.attention, qkv, layer.at(Kept::attention_out), layer.template at<Sum<T>>(Kept::log_sums),
                       rank.kernel_room);
  forward_product(s.tokens, s.hidden, s.queries, layer.at(Kept::attention_out), layer.weight(Role::attention_output),
                  rank.space(rank.places.delta));
  after_delta(rank, layer.weight(Role::attention_output_bias));
}

template <typename T>
void activate_again(Rank<T>& rank, const LayerView<T>& layer) {
  const Sizes& s = rank.sizes;
  if (s.gated) {
    kernel::swiglu<T>(s.tokens, s.ffn, layer.at(Kept::inner), layer.at(Kept::activated));
  } else {
    kernel::gelu<T>(s.tokens * s.ffn, layer.at(Kept::inner), layer.at(Kept::activated));
  }
}

template <typename T>
void mlp_forward(Rank<T>& rank, const LayerView<T>& layer, bool again) {
  const Sizes& s = rank.sizes;
  if (!rank.flow.normed) norm_of_layer(rank, layer, false, again);
  T* inner = layer.at(Kept::inner);
  forward_product(s.tokens, s.ffn * (s.gated ? 2 : 1), s.hidden, layer.at(Kept::mlp_in), layer.weight(Role::mlp_input),
                  inner);
  const T* bias = layer.weight(Role::mlp_input_bias);
  if (s.gated) {
    kernel::bias_swiglu<T>(s.tokens, s.ffn, inner, bias, layer.at(Kept::activated));
  } else {
    kernel::bias_gelu<T>(s.tokens, s.ffn, inner, bias, layer.at(Kept::activated));
  }
  rank.flow.normed = false;
  if (again) return;  // the backward pass reads no further
  forward_product(s.tokens, s.hidden, s.ffn, layer.at(Kept::activated), layer.weight(Role::mlp_output),
                  rank.space(rank.places.delta));
  after_delta(rank, layer.weight(Role::mlp_output_bias));
}

// Selective recomputation: what one pass over memory makes again.
template <typename T>
void remake(Rank<T>& rank, const LayerView<T>& layer) {
  const bool has_mean = !rank.sizes.norm.rms;
  const auto norm = [&](Kept input, Kept mean, Kept scale, Role weight, Role bias, Kept output) {
    if (layer.places[output].stored) return;
    kernel::norm_again<T>(rank.sizes.norm, layer.at(input), has_mean ? layer.template at<Sum<T>>(mean) : nullptr,
                          layer.template at<Sum<T>>(scale), layer.weight(weight), layer.weight(bias), layer.at(output));
  };
  norm(Kept::input, Kept::input_mean, Kept::input_scale, Role::attention_norm, Role::attention_norm_bias,
       Kept::attention_in);
  norm(Kept::middle, Kept::middle_mean, Kept::middle_scale, Role::mlp_norm, Role::mlp_norm_bias, Kept::mlp_in);
  if (!layer.places[Kept::activated].stored) activate_again(rank, layer);
}

template <typename T>
void embedding_forward(Rank<T>& rank, const Place& place) {
  const Piece& piece = chunk_of(rank, place).front();
  const T* weights = weights_of(rank, piece);
  const bool adds = piece.at(Role::positions) >= 0 && rank.tp_rank == 0;  // once, and then all ranks' parts are summed
  T* stream = rank.space(rank.places.stream);
  kernel::look_up<T>(rank.sizes.tokens, rank.sizes.hidden, of_micro_batch(rank, rank.tokens, place),
                     rank.sizes.vocabulary, weights + piece.at(Role::tokens),
                     adds ? weights + piece.at(Role::positions) : nullptr, rank.sizes.attention.sequence, stream);
  rank.flow = {};
  rank.flow.stream = own_rows(rank, stream);
}

// ---- head ----

template <typename T>
struct HeadView {
  const Piece& piece;
  T* input;
  Sum<T>* mean;
  Sum<T>* scale;
  T* normed;
  Sum<T>* statistics;
  T* logits;
};

template <typename T>
HeadView<T> head_view(Rank<T>& rank, const Place& place) {
  std::byte* base = rank.kept.at(place.key()).head;
  const model::KeptHead& at = rank.head_places;
  // NOLINTBEGIN(cppcoreguidelines-pro-type-reinterpret-cast): raw memory
  return {chunk_of(rank, place).back(),
          reinterpret_cast<T*>(base + at.input),
          rank.sizes.norm.rms ? nullptr : reinterpret_cast<Sum<T>*>(base + at.mean),
          reinterpret_cast<Sum<T>*>(base + at.scale),
          reinterpret_cast<T*>(base + at.normed),
          reinterpret_cast<Sum<T>*>(base + at.statistics),
          reinterpret_cast<T*>(base + at.logits)};
  // NOLINTEND(cppcoreguidelines-pro-type-reinterpret-cast)
}

// The piece that holds the matrix of the logits, and where.
template <typename T>
struct Table {
  const Piece& piece;
  std::int64_t offset;
};

template <typename T>
Table<T> table_of(Rank<T>& rank, const Place& place) {
  const Piece& head = chunk_of(rank, place).back();
  if (head.at(Role::head_table) >= 0) return {head, head.at(Role::head_table)};
  const Piece& embedding = rank.pieces.chunks.front().front();
  return {embedding, embedding.at(Role::tokens)};
}

template <typename T>
void norm_of_head(Rank<T>& rank, const HeadView<T>& head) {
  Flow<T>& flow = rank.flow;
  const T* weights = weights_of(rank, head.piece);
  const std::int64_t bias = head.piece.at(Role::head_norm_bias);
  kernel::add_norm<T>(rank.sizes.norm, flow.stream, flow.delta, flow.bias, weights + head.piece.at(Role::head_norm),
                      bias < 0 ? nullptr : weights + bias, head.input, own_rows(rank, head.normed), head.mean,
                      head.scale);
  flow.stream = head.input;
  flow.normed = true;
}

template <typename T>
double loss_scale(const Rank<T>& rank) {
  return 1.0 / (rank.job.training.global_batch * rank.job.training.sequence);
}

template <typename T>
void head_forward(Rank<T>& rank, const Place& place) {
  const Sizes& s = rank.sizes;
  const HeadView<T> head = head_view(rank, place);
  if (!rank.flow.normed) norm_of_head(rank, head);
  const Table<T> table = table_of(rank, place);
  forward_product(s.tokens, s.vocabulary.count, s.hidden, head.normed, weights_of(rank, table.piece) + table.offset,
                  head.logits);
  rank.flow.scored = true;
  const std::int32_t* labels = of_micro_batch(rank, rank.labels, place);
  if (rank.job.layout.tp > 1) {
    Sum<T>* own = head.statistics + 3 * s.tokens * rank.tp_rank;
    kernel::row_maxima<T>(s.tokens, s.vocabulary.count, head.logits, own);
    kernel::row_sums<T>(s.tokens, s.vocabulary, head.logits, labels, own, own + s.tokens, own + 2 * s.tokens);
    return;
  }
  kernel::loss_and_backward<T>(s.tokens, s.vocabulary.count, head.logits, labels, head.statistics, loss_scale(rank));
  for (std::int64_t i = 0; i < s.tokens; ++i) rank.loss_sum += static_cast<double>(head.statistics[i]);
}

template <typename T>
void head_backward(Rank<T>& rank, const Place& place) {
  const Sizes& s = rank.sizes;
  const HeadView<T> head = head_view(rank, place);
  const Table<T> table = table_of(rank, place);
  if (rank.job.layout.tp > 1) {
    kernel::loss_backward<T>(s.tokens, s.vocabulary, head.logits, of_micro_batch(rank, rank.labels, place),
                             head.statistics, head.statistics + s.tokens, loss_scale(rank));
  }
  backward_product(s.tokens, s.vocabulary.count, s.hidden, head.logits, weights_of(rank, table.piece) + table.offset,
                   rank.space(rank.places.inward));
  // With shards, the gradient of a tied table lies behind that of the head's own piece.
  const bool apart = rank.shards_gradients && &table.piece != &head.piece;
  Sum<T>* dtable = apart ? gradients_of(rank, head.piece) + head.piece.elements() + table.offset
                         : gradients_of(rank, table.piece) + table.offset;
  weight_product(s.tokens, s.vocabulary.count, s.hidden, head.logits, head.normed, dtable,
                 accumulates(rank, head.piece));
  rank.flow = {};
  rank.flow.norm = {true, head.input, head.mean, head.scale, &head.piece, Role::head_norm, Role::head_norm_bias};
}

// ---- backward ----

// The gradient of what a segment added to the stream, on all rows; with the gradient of the bias that was added too.
template <typename T>
const T* outward(Rank<T>& rank, const LayerView<T>& layer, Role bias) {
  const Sizes& s = rank.sizes;
  const T* own = rank.space(rank.places.gradient);
  if (Sum<T>* dbias = gradient(rank, layer.piece, bias)) kernel::add_column_sums<T>(s.rows, s.hidden, own, dbias);
  const bool gathered = rank.flow.gathered;
  rank.flow.gathered = false;
  return gathered ? rank.space(rank.places.gathered) : own;
}

template <typename T>
void mlp_backward(Rank<T>& rank, const LayerView<T>& layer) {
  const Sizes& s = rank.sizes;
  const std::int64_t width = s.ffn * (s.gated ? 2 : 1);
  const bool adds = accumulates(rank, layer.piece);
  const T* dy = outward(rank, layer, Role::mlp_output_bias);
  T* dactivated = rank.space(rank.places.outer);
  T* dinner = rank.space(rank.places.inner);
  backward_product(s.tokens, s.hidden, s.ffn, dy, layer.weight(Role::mlp_output), dactivated);
  weight_product(s.tokens, s.hidden, s.ffn, dy, layer.at(Kept::activated),
                 gradient(rank, layer.piece, Role::mlp_output), adds);
  Sum<T>* dbias = gradient(rank, layer.piece, Role::mlp_input_bias);
  if (s.gated) {
    kernel::swiglu_backward<T>(s.tokens, s.ffn, layer.at(Kept::inner), dactivated, dinner, dbias);
  } else {
    kernel::gelu_backward<T>(s.tokens, s.ffn, layer.at(Kept::inner), dactivated, dinner, dbias);
  }
  backward_product(s.tokens, width, s.hidden, dinner, layer.weight(Role::mlp_input), rank.space(rank.places.inward));
  weight_product(s.tokens, width, s.hidden, dinner, layer.at(Kept::mlp_in),
                 gradient(rank, layer.piece, Role::mlp_input), adds);
  rank.flow.norm = {true,
                    layer.at(Kept::middle),
                    rank.sizes.norm.rms ? nullptr : layer.template at<Sum<T>>(Kept::middle_mean),
                    layer.template at<Sum<T>>(Kept::middle_scale),
                    &layer.piece,
                    Role::mlp_norm,
                    Role::mlp_norm_bias};
}

template <typename T>
void attention_backward(Rank<T>& rank, const LayerView<T>& layer) {
  const Sizes& s = rank.sizes;
  const std::int64_t width = s.queries + 2 * s.keys;
  const bool adds = accumulates(rank, layer.piece);
  const T* dy = outward(rank, layer, Role::attention_output_bias);
  T* dout = rank.space(rank.places.outer);
  T* dqkv = rank.space(rank.places.inner);
  backward_product(s.tokens, s.hidden, s.queries, dy, layer.weight(Role::attention_output), dout);
  weight_product(s.tokens, s.hidden, s.queries, dy, layer.at(Kept::attention_out),
                 gradient(rank, layer.piece, Role::attention_output), adds);
  kernel::attention_backward<T>(s.attention, layer.at(Kept::qkv), layer.at(Kept::attention_out),
                                layer.template at<Sum<T>>(Kept::log_sums), dout, dqkv, rank.kernel_room);
  rotate_heads(rank, dqkv, true);
  if (Sum<T>* dbias = gradient(rank, layer.piece, Role::qkv_bias))
    kernel::add_column_sums<T>(s.tokens, width, dqkv, dbias);
  backward_product(s.tokens, width, s.hidden, dqkv, layer.weight(Role::qkv), rank.space(rank.places.inward));
  weight_product(s.tokens, width, s.hidden, dqkv, layer.at(Kept::attention_in), gradient(rank, layer.piece, Role::qkv),
                 adds);
  ++rank.passes[&layer.piece];
  rank.flow.norm = {true,
                    layer.at(Kept::input),
                    rank.sizes.norm.rms ? nullptr : layer.template at<Sum<T>>(Kept::input_mean),
                    layer.template at<Sum<T>>(Kept::input_scale),
                    &layer.piece,
                    Role::attention_norm,
                    Role::attention_norm_bias};
}

template <typename T>
void embedding_backward(Rank<T>& rank, const Place& place) {
  const Piece& piece = chunk_of(rank, place).front();
  Sum<T>* gradients = gradients_of(rank, piece);
  const T* dx = rank.space(rank.flow.gathered ? rank.places.gathered : rank.places.gradient);
  // With sequence parallelism what all ranks hold is summed over them in the end, so only one may add.
  const bool adds = piece.at(Role::positions) >= 0 && (!rank.sequence_parallel() || rank.tp_rank == 0);
  Sum<T>* dtable = gradients + piece.at(Role::tokens);
  const bool begun =
      rank.shards_gradients || rank.passes[&piece] > 0 || (rank.job.model.tied_embeddings && rank.job.layout.pp == 1);
  if (!begun) std::fill_n(dtable, rank.sizes.vocabulary.count * rank.sizes.hidden, Sum<T>{0});
  kernel::look_up_backward<T>(rank.sizes.tokens, rank.sizes.hidden, of_micro_batch(rank, rank.tokens, place),
                              rank.sizes.vocabulary, dx, dtable, adds ? gradients + piece.at(Role::positions) : nullptr,
                              rank.sizes.attention.sequence);
  ++rank.passes[&piece];
}

template <typename T>
void compute_layer(Rank<T>& rank, const PlacedOp& op, const Place& place) {
  const LayerView<T> layer = layer_view(rank, op, place);
  const bool attention = op.op->segment == Segment::attention;
  const Phase phase = op.op->phase;
  if (phase == Phase::recompute && rank.job.layout.recompute == spec::Recompute::selective) {
    remake(rank, layer);
  } else if (phase == Phase::forward || phase == Phase::recompute) {
    const bool again = phase == Phase::recompute;
    attention ? attention_forward(rank, layer, again) : mlp_forward(rank, layer, again);
  } else {
    attention ? attention_backward(rank, layer) : mlp_backward(rank, layer);
    if (rank.job.layout.tp == 1) undo_norm(rank);
  }
}

}  // namespace

template <typename T>
T* weights_of(Rank<T>& rank, const Piece& piece) {
  if (rank.shards_parameters) return rank.gathered.at(&piece);
  return rank.parameters + piece.offset;
}

template <typename T>
Sum<T>* gradients_of(Rank<T>& rank, const Piece& piece) {
  if (rank.shards_gradients) return rank.unscattered.at(&piece);
  return rank.gradients + piece.offset;
}

template <typename T>
void enter_norm(Rank<T>& rank, const PlacedOp& op, const Place& place) {
  if (op.op->segment == Segment::head) return norm_of_head(rank, head_view(rank, place));
  const LayerView<T> layer = layer_view(rank, op, place);
  norm_of_layer(rank, layer, op.op->segment == Segment::attention, op.op->phase == Phase::recompute);
}

template <typename T>
T* normed_rows(Rank<T>& rank, const PlacedOp& op, const Place& place) {
  if (op.op->segment == Segment::head) return head_view(rank, place).normed;
  const bool attention = op.op->segment == Segment::attention;
  return layer_view(rank, op, place).at(attention ? Kept::attention_in : Kept::mlp_in);
}

template <typename T>
Sum<T>* statistics_of(Rank<T>& rank, const Place& place) {
  return head_view(rank, place).statistics;
}

template <typename T>
void undo_norm(Rank<T>& rank) {
  PendingNorm<T>& norm = rank.flow.norm;
  T* dx = rank.space(rank.places.gradient);
  const T* dout = own_rows(rank, rank.space(rank.places.inward));
  const Piece& piece = *norm.piece;
  const T* weight = weights_of(rank, piece) + piece.at(norm.weight);
  kernel::norm_backward<T>(rank.sizes.norm, norm.input, norm.mean, norm.scale, weight, dout,
                           rank.flow.has_gradient ? dx : nullptr, dx, gradient(rank, piece, norm.weight),
                           gradient(rank, piece, norm.bias), nullptr);
  norm.there = false;
  rank.flow.has_gradient = true;
  if (norm.weight == Role::head_norm) ++rank.passes[&piece];
}

// Each rank's maximum and sum of a row, relative to its own maximum: together they give those of the whole row.
template <typename T>
void combine_statistics(Rank<T>& rank, const Place& place) {
  const HeadView<T> head = head_view(rank, place);
  const std::int64_t n = rank.sizes.tokens;
  for (std::int64_t row = 0; row < n; ++row) {
    Sum<T> maximum = head.statistics[row];
    for (int r = 1; r < rank.job.layout.tp; ++r) maximum = std::max(maximum, head.statistics[3 * n * r + row]);
    Sum<T> sum = 0;
    Sum<T> target = 0;
    for (int r = 0; r < rank.job.layout.tp; ++r) {
      const Sum<T>* one = head.statistics + 3 * n * r + row;
      sum += one[n] * std::exp(one[0] - maximum);
      target += one[2 * n];
    }
    head.statistics[row] = maximum;
    head.statistics[n + row] = sum;
    rank.loss_sum += static_cast<double>(std::log(sum) + maximum - target);
  }
}

template <typename T>
void compute(Rank<T>& rank, const PlacedOp& op, const Place& place) {
  const bool forward = op.op->phase == Phase::forward;
  switch (op.op->segment) {
    case Segment::embedding:
      return forward ? embedding_forward(rank, place) : embedding_backward(rank, place);
    case Segment::head:
      if (forward) return head_forward(rank, place);
      head_backward(rank, place);
      if (rank.job.layout.tp == 1) undo_norm(rank);
      return;
    case Segment::optimizer:
      return update(rank);
    default:
      return compute_layer(rank, op, place);
  }
}

#define TWINPOD_INSTANTIATE(T)                                                \
  template T* weights_of(Rank<T>&, const Piece&);                             \
  template Sum<T>* gradients_of(Rank<T>&, const Piece&);                      \
  template void enter_norm(Rank<T>&, const program::PlacedOp&, const Place&); \
  template T* normed_rows(Rank<T>&, const program::PlacedOp&, const Place&);  \
  template Sum<T>* statistics_of(Rank<T>&, const Place&);                     \
  template void undo_norm(Rank<T>&);                                          \
  template void combine_statistics(Rank<T>&, const Place&);                   \
  template void compute(Rank<T>&, const program::PlacedOp&, const Place&)
TWINPOD_INSTANTIATE(float);
TWINPOD_INSTANTIATE(double);
TWINPOD_INSTANTIATE(Bf16);
#undef TWINPOD_INSTANTIATE

}  // namespace twinpod::train
