// What an op computes: which segment, which layer, which pass; and the residual stream between segments.
#include "train/segments.hpp"

namespace twinpod::train {
namespace {

using model::Kept;
using program::Phase;
using program::PlacedOp;
using program::Segment;

template <typename T>
LayerView<T> layer_view(Rank<T>& rank, const PlacedOp& op, const Place& place) {
  const auto layer = static_cast<std::size_t>(op.op->layer);
  const Piece& piece = piece_of(chunk_of(rank, place), Segment::block, op.op->layer);
  const program::Shape& shape = rank.program.shapes[static_cast<std::size_t>(op.block->shapes[0])];
  const KeptBuffers& kept = rank.kept.at(place.key());
  return {piece,
          weights_of(rank, piece),
          rank.layer_places[shape.layers[layer].recomputed ? 1 : 0],
          kept.stored[layer],
          kept.working[layer],
          op.layer,
          place.micro_batch};
}

// What is still to be added becomes part of the stream in passes of its own.
template <typename T>
void add_in_passes(Rank<T>& rank, const T* x, T* sum) {
  const Flow<T>& flow = rank.flow;
  const std::int64_t count = rank.sizes.rows * rank.sizes.hidden;
  if (flow.bias != nullptr) kernel::add_bias<T>(rank.sizes.rows, rank.sizes.hidden, flow.delta, flow.bias);
  if (flow.dropout.on()) kernel::drop<T>(flow.dropout, rank.sizes.rows, rank.sizes.hidden, flow.delta, flow.delta);
  if (sum != x) std::copy_n(x, count, sum);
  if (flow.delta != nullptr) kernel::add<T>(count, sum, flow.delta);
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
void add_and_norm(Rank<T>& rank, const NormCall<T>& call) {
  Flow<T>& flow = rank.flow;
  const bool fuses = rank.fuses(spec::Fusion::residual_norm);
  const bool adds = call.sum != nullptr;
  if (adds && !fuses) add_in_passes(rank, call.x, call.sum);
  const bool in_one = adds && fuses;
  kernel::add_norm<T>(rank.sizes.norm, adds && !fuses ? call.sum : call.x, in_one ? flow.delta : nullptr,
                      in_one ? flow.bias : nullptr, call.weight, call.bias, in_one ? call.sum : nullptr, call.out,
                      call.mean, call.scale, in_one ? flow.dropout : kernel::Dropout{});
  flow.delta = nullptr;
  flow.bias = nullptr;
  flow.dropout = {};
  flow.normed = true;
}

template <typename T>
void write_stream(Rank<T>& rank, T* out) {
  const Flow<T>& flow = rank.flow;
  if (!rank.fuses(spec::Fusion::residual_norm)) return add_in_passes<T>(rank, flow.stream, out);
  kernel::add_residual<T>(rank.sizes.norm, flow.stream, flow.delta, flow.bias, out, flow.dropout);
}

template <typename T>
void enter_norm(Rank<T>& rank, const PlacedOp& op, const Place& place) {
  if (op.op->segment == Segment::head) return norm_of_head(rank, place);
  const LayerView<T> layer = layer_view(rank, op, place);
  norm_of_layer(rank, layer, op.op->segment == Segment::attention, op.op->phase == Phase::recompute);
}

template <typename T>
T* normed_rows(Rank<T>& rank, const PlacedOp& op, const Place& place) {
  if (op.op->segment == Segment::head) return normed_rows_of_head(rank, place);
  const bool attention = op.op->segment == Segment::attention;
  return layer_view(rank, op, place).at(attention ? Kept::attention_in : Kept::mlp_in);
}

template <typename T>
void undo_norm(Rank<T>& rank) {
  const PendingNorm<T>& norm = rank.flow.norm;
  T* dx = rank.space(rank.places.gradient);
  const T* dout = own_rows(rank, rank.space(rank.places.inward));
  const Piece& piece = *norm.piece;
  const T* weight = weights_of(rank, piece) + piece.at(norm.weight);
  // In passes of its own, what comes through the norm is added to the stream's gradient behind it.
  const bool apart = rank.flow.has_gradient && !rank.fuses(spec::Fusion::residual_norm);
  T* out = apart ? rank.space(rank.places.delta) : dx;
  kernel::norm_backward<T>(rank.sizes.norm, norm.input, norm.mean, norm.scale, weight, dout,
                           rank.flow.has_gradient && !apart ? dx : nullptr, out, gradient(rank, piece, norm.weight),
                           gradient(rank, piece, norm.bias), nullptr);
  if (apart) kernel::add<T>(rank.sizes.rows * rank.sizes.hidden, dx, out);
  rank.flow.has_gradient = true;
  if (norm.weight == Role::head_norm) ++rank.passes[&piece];
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
  template void add_and_norm(Rank<T>&, const NormCall<T>&);                   \
  template void write_stream(Rank<T>&, T*);                                   \
  template void enter_norm(Rank<T>&, const program::PlacedOp&, const Place&); \
  template T* normed_rows(Rank<T>&, const program::PlacedOp&, const Place&);  \
  template void undo_norm(Rank<T>&);                                          \
  template void compute(Rank<T>&, const program::PlacedOp&, const Place&)
TWINPOD_INSTANTIATE(float);
TWINPOD_INSTANTIATE(double);
TWINPOD_INSTANTIATE(Bf16);
#undef TWINPOD_INSTANTIATE

}  // namespace twinpod::train
