// Attention and MLP of a layer, forward and backward.
#include "train/segments.hpp"

namespace twinpod::train {
namespace {

using model::Kept;

// What a segment leaves in the workspace is added to the stream by the next norm.
template <typename T>
void after_delta(Rank<T>& rank, const LayerView<T>& layer, Role bias, Drop what) {
  rank.flow.delta = own_rows(rank, rank.space(rank.places.delta));
  rank.flow.bias = layer.weight(bias);
  rank.flow.dropout = of_own_rows(rank, dropout_of(rank, what, layer.number, layer.micro_batch));
  if (rank.shards_parameters && rank.flow.bias != nullptr) {
    // The piece may be gone when the next one adds it.
    std::copy_n(rank.flow.bias, rank.sizes.hidden, rank.bias);
    rank.flow.bias = rank.bias;
  }
  rank.flow.normed = false;
}

template <typename T>
void rotate_heads(Rank<T>& rank, T* qkv, bool back) {
  if (rank.job.model.positions != spec::Positions::rotary) return;
  const kernel::RotaryShape shape = rotary_shape(rank);
  if (rank.fuses(spec::Fusion::rotary)) return kernel::rotate<T>(shape, qkv, back);
  kernel::rotate_by_table<T>(shape, qkv, back, rank.angles, rank.turned);
}

template <typename T>
void attend(Rank<T>& rank, const LayerView<T>& layer) {
  const kernel::AttentionShape& shape = rank.sizes.attention;
  const kernel::Dropout dropout = dropout_of(rank, Drop::scores, layer.number, layer.micro_batch);
  if (rank.fuses(spec::Fusion::attention)) {
    return kernel::attention<T>(shape, layer.at(Kept::qkv), layer.at(Kept::attention_out),
                                layer.template at<Sum<T>>(Kept::log_sums), rank.kernel_room, dropout);
  }
  kernel::attention_by_scores<T>(shape, layer.at(Kept::qkv), layer.at(Kept::shares), layer.at(Kept::attention_out),
                                 rank.space(rank.places.scores), dropout);
}

template <typename T>
void attend_backward(Rank<T>& rank, const LayerView<T>& layer, const T* dout, T* dqkv) {
  const kernel::AttentionShape& shape = rank.sizes.attention;
  const kernel::Dropout dropout = dropout_of(rank, Drop::scores, layer.number, layer.micro_batch);
  if (rank.fuses(spec::Fusion::attention)) {
    return kernel::attention_backward<T>(shape, layer.at(Kept::qkv), layer.at(Kept::attention_out),
                                         layer.template at<Sum<T>>(Kept::log_sums), dout, dqkv, rank.kernel_room,
                                         dropout);
  }
  kernel::attention_by_scores_backward<T>(shape, layer.at(Kept::qkv), layer.at(Kept::shares), dout, dqkv,
                                          rank.space(rank.places.scores), dropout);
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
void activate(Rank<T>& rank, const LayerView<T>& layer) {
  const Sizes& s = rank.sizes;
  T* inner = layer.at(Kept::inner);
  const T* bias = layer.weight(Role::mlp_input_bias);
  if (!rank.fuses(spec::Fusion::bias_gelu)) {
    if (bias != nullptr) kernel::add_bias<T>(s.tokens, s.ffn * (s.gated ? 2 : 1), inner, bias);
    return activate_again(rank, layer);
  }
  if (s.gated) {
    kernel::bias_swiglu<T>(s.tokens, s.ffn, inner, bias, layer.at(Kept::activated));
  } else {
    kernel::bias_gelu<T>(s.tokens, s.ffn, inner, bias, layer.at(Kept::activated));
  }
}

template <typename T>
void activate_backward(Rank<T>& rank, const LayerView<T>& layer, const T* dactivated, T* dinner) {
  const Sizes& s = rank.sizes;
  const bool fuses = rank.fuses(spec::Fusion::bias_gelu);
  Sum<T>* dbias = gradient(rank, layer.piece, Role::mlp_input_bias);
  Sum<T>* beside = fuses ? dbias : nullptr;
  if (s.gated) {
    kernel::swiglu_backward<T>(s.tokens, s.ffn, layer.at(Kept::inner), dactivated, dinner, beside);
  } else {
    kernel::gelu_backward<T>(s.tokens, s.ffn, layer.at(Kept::inner), dactivated, dinner, beside);
  }
  if (!fuses && dbias != nullptr) kernel::add_column_sums<T>(s.tokens, s.ffn * (s.gated ? 2 : 1), dinner, dbias);
}

// The gradient of what a segment added to the stream, on all rows; with the gradient of the bias that was added too.
// What dropout leaves of it needs room, for the stream's own gradient goes on: `delta` is free in a backward pass.
template <typename T>
const T* outward(Rank<T>& rank, const LayerView<T>& layer, Role bias, Drop what) {
  const Sizes& s = rank.sizes;
  const T* own = rank.space(rank.places.gradient);
  const T* all = rank.flow.gathered ? rank.space(rank.places.gathered) : own;
  rank.flow.gathered = false;
  const kernel::Dropout dropout = dropout_of(rank, what, layer.number, layer.micro_batch);
  if (dropout.on()) {
    T* left = rank.space(rank.places.delta);
    kernel::drop<T>(dropout, s.tokens, s.hidden, all, left);
    all = left;
    own = own_rows(rank, left);
  }
  if (Sum<T>* dbias = gradient(rank, layer.piece, bias)) kernel::add_column_sums<T>(s.rows, s.hidden, own, dbias);
  return all;
}

// Its backward pass waits for the sum of its output's gradient.
template <typename T>
void leave_norm(Rank<T>& rank, const LayerView<T>& layer, bool attention) {
  const Kept mean = attention ? Kept::input_mean : Kept::middle_mean;
  rank.flow.norm = {layer.at(attention ? Kept::input : Kept::middle),
                    rank.sizes.norm.rms ? nullptr : layer.template at<Sum<T>>(mean),
                    layer.template at<Sum<T>>(attention ? Kept::input_scale : Kept::middle_scale),
                    &layer.piece,
                    attention ? Role::attention_norm : Role::mlp_norm,
                    attention ? Role::attention_norm_bias : Role::mlp_norm_bias};
}

// One of the two products of attention or of the MLP.
struct HalfProduct {
  Role weight = Role::qkv;
  Kept input = Kept::attention_in;
  std::int64_t width = 0;  // on the side that is not the residual stream's
};

// Attention or MLP: a product, something between, a product.
struct Half {
  HalfProduct out;  // the last product of the forward pass
  HalfProduct in;
  Role bias = Role::mlp_output_bias;  // behind `out`
  Drop drop = Drop::mlp;
};

// Through both products and, by between(gradient of what goes out, gradient of what came in), what is between them.
template <typename T, typename F>
void half_backward(Rank<T>& rank, const LayerView<T>& layer, const Half& half, const F& between) {
  const Sizes& s = rank.sizes;
  const auto& [out, in, bias, drop] = half;
  const bool adds = accumulates(rank, layer.piece);
  const T* dy = outward(rank, layer, bias, drop);
  T* dout = rank.space(rank.places.outer);
  T* din = rank.space(rank.places.inner);
  backward_product(s.tokens, s.hidden, out.width, dy, layer.weight(out.weight), dout);
  weight_product(rank, s.hidden, out.width, dy, layer.at(out.input), gradient(rank, layer.piece, out.weight), adds);
  between(static_cast<const T*>(dout), din);
  backward_product(s.tokens, in.width, s.hidden, din, layer.weight(in.weight), rank.space(rank.places.inward));
  weight_product(rank, in.width, s.hidden, din, layer.at(in.input), gradient(rank, layer.piece, in.weight), adds);
}

}  // namespace

template <typename T>
void norm_of_layer(Rank<T>& rank, const LayerView<T>& layer, bool attention, bool again) {
  const Kept input = attention ? Kept::input : Kept::middle;
  // What goes on to the next layer must outlive this one's buffers.
  const bool passes_on = !attention && !again && !layer.places[Kept::middle].stored;
  T* sum = passes_on ? rank.space(rank.places.stream) : layer.at(input);
  const bool first = again && attention;  // what is recomputed begins with what was stored
  const bool has_mean = !rank.sizes.norm.rms;
  add_and_norm<T>(
      rank, {.x = first ? sum : rank.flow.stream,
             .weight = layer.weight(attention ? Role::attention_norm : Role::mlp_norm),
             .bias = layer.weight(attention ? Role::attention_norm_bias : Role::mlp_norm_bias),
             .sum = first ? nullptr : sum,
             .out = own_rows(rank, layer.at(attention ? Kept::attention_in : Kept::mlp_in)),
             .mean = has_mean ? layer.template at<Sum<T>>(attention ? Kept::input_mean : Kept::middle_mean) : nullptr,
             .scale = layer.template at<Sum<T>>(attention ? Kept::input_scale : Kept::middle_scale)});
  rank.flow.stream = sum;
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
  attend(rank, layer);
  forward_product(s.tokens, s.hidden, s.queries, layer.at(Kept::attention_out), layer.weight(Role::attention_output),
                  rank.space(rank.places.delta));
  after_delta(rank, layer, Role::attention_output_bias, Drop::attention);
}

template <typename T>
void mlp_forward(Rank<T>& rank, const LayerView<T>& layer, bool again) {
  const Sizes& s = rank.sizes;
  if (!rank.flow.normed) norm_of_layer(rank, layer, false, again);
  forward_product(s.tokens, s.ffn * (s.gated ? 2 : 1), s.hidden, layer.at(Kept::mlp_in), layer.weight(Role::mlp_input),
                  layer.at(Kept::inner));
  activate(rank, layer);
  rank.flow.normed = false;
  if (again) return;  // the backward pass reads no further
  forward_product(s.tokens, s.hidden, s.ffn, layer.at(Kept::activated), layer.weight(Role::mlp_output),
                  rank.space(rank.places.delta));
  after_delta(rank, layer, Role::mlp_output_bias, Drop::mlp);
}

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
  if (!rank.fuses(spec::Fusion::attention) && !layer.places[Kept::shares].stored)
    kernel::attention_shares<T>(rank.sizes.attention, layer.at(Kept::qkv), layer.at(Kept::shares));
}

template <typename T>
void mlp_backward(Rank<T>& rank, const LayerView<T>& layer) {
  const Sizes& s = rank.sizes;
  const Half half{.out = {Role::mlp_output, Kept::activated, s.ffn},
                  .in = {Role::mlp_input, Kept::mlp_in, s.ffn * (s.gated ? 2 : 1)},
                  .bias = Role::mlp_output_bias,
                  .drop = Drop::mlp};
  half_backward(rank, layer, half,
                [&](const T* dactivated, T* dinner) { activate_backward(rank, layer, dactivated, dinner); });
  leave_norm(rank, layer, false);
}

template <typename T>
void attention_backward(Rank<T>& rank, const LayerView<T>& layer) {
  const Sizes& s = rank.sizes;
  const std::int64_t width = s.queries + 2 * s.keys;
  const Half half{.out = {Role::attention_output, Kept::attention_out, s.queries},
                  .in = {Role::qkv, Kept::attention_in, width},
                  .bias = Role::attention_output_bias,
                  .drop = Drop::attention};
  half_backward(rank, layer, half, [&](const T* dout, T* dqkv) {
    attend_backward(rank, layer, dout, dqkv);
    rotate_heads(rank, dqkv, true);
    if (Sum<T>* dbias = gradient(rank, layer.piece, Role::qkv_bias))
      kernel::add_column_sums<T>(s.tokens, width, dqkv, dbias);
  });
  ++rank.passes[&layer.piece];
  leave_norm(rank, layer, true);
}

#define TWINPOD_INSTANTIATE(T)                                            \
  template void norm_of_layer(Rank<T>&, const LayerView<T>&, bool, bool); \
  template void attention_forward(Rank<T>&, const LayerView<T>&, bool);   \
  template void attention_backward(Rank<T>&, const LayerView<T>&);        \
  template void mlp_forward(Rank<T>&, const LayerView<T>&, bool);         \
  template void mlp_backward(Rank<T>&, const LayerView<T>&);              \
  template void remake(Rank<T>&, const LayerView<T>&)
TWINPOD_INSTANTIATE(float);
TWINPOD_INSTANTIATE(double);
TWINPOD_INSTANTIATE(Bf16);
#undef TWINPOD_INSTANTIATE

}  // namespace twinpod::train
