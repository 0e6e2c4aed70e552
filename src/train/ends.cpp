// Both ends of the model: embedding, and head with loss.
#include <cmath>

#include "train/segments.hpp"

namespace twinpod::train {
namespace {

template <typename T>
struct HeadView {
  const Piece& piece;
  T* input;
  Sum<T>* mean;
  Sum<T>* scale;
  T* normed;
  Sum<T>* statistics;
  T* logits;
  T* probabilities;  // where the loss is not fused, as the next
  T* gradients;
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
          reinterpret_cast<T*>(base + at.logits),
          reinterpret_cast<T*>(base + at.probabilities),
          reinterpret_cast<T*>(base + at.gradients)};
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
double loss_scale(const Rank<T>& rank) {
  return 1.0 / (rank.job.training.global_batch * rank.job.training.sequence);
}

// Logits become their gradients in place, with a vocabulary that is not divided in the forward pass already; or by a
// copy of probabilities and another one of gradients.
template <typename T>
const T* logit_gradients(Rank<T>& rank, const HeadView<T>& head, const Place& place) {
  const Sizes& s = rank.sizes;
  const std::int32_t* labels = of_micro_batch(rank, rank.labels, place);
  if (!rank.fuses(spec::Fusion::cross_entropy)) {
    kernel::probabilities_of<T>(s.tokens, s.vocabulary.count, head.logits, head.statistics, head.statistics + s.tokens,
                                head.probabilities);
    kernel::gradients_of_probabilities<T>(s.tokens, s.vocabulary, head.probabilities, labels, loss_scale(rank),
                                          head.gradients);
    return head.gradients;
  }
  if (rank.job.layout.tp > 1) {
    kernel::loss_backward<T>(s.tokens, s.vocabulary, head.logits, labels, head.statistics, head.statistics + s.tokens,
                             loss_scale(rank));
  }
  return head.logits;
}

}  // namespace

template <typename T>
void embedding_forward(Rank<T>& rank, const Place& place) {
  const Piece& piece = chunk_of(rank, place).front();
  const T* weights = weights_of(rank, piece);
  // Dropout of each rank's part is dropout of the sum.
  const bool adds = piece.at(Role::positions) >= 0 && rank.tp_rank == 0;  // once, and then all ranks' parts are summed
  T* stream = rank.space(rank.places.stream);
  kernel::look_up<T>(rank.sizes.tokens, rank.sizes.hidden, of_micro_batch(rank, rank.tokens, place),
                     rank.sizes.vocabulary, weights + piece.at(Role::tokens),
                     adds ? weights + piece.at(Role::positions) : nullptr, rank.sizes.attention.sequence, stream,
                     dropout_of(rank, Drop::embedding, -1, place.micro_batch));
  rank.flow = {};
  rank.flow.stream = own_rows(rank, stream);
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
                              rank.sizes.attention.sequence, dropout_of(rank, Drop::embedding, -1, place.micro_batch));
  ++rank.passes[&piece];
}

template <typename T>
void norm_of_head(Rank<T>& rank, const Place& place) {
  const HeadView<T> head = head_view(rank, place);
  const T* weights = weights_of(rank, head.piece);
  const std::int64_t bias = head.piece.at(Role::head_norm_bias);
  add_and_norm<T>(rank, {.x = rank.flow.stream,
                         .weight = weights + head.piece.at(Role::head_norm),
                         .bias = bias < 0 ? nullptr : weights + bias,
                         .sum = head.input,
                         .out = own_rows(rank, head.normed),
                         .mean = head.mean,
                         .scale = head.scale});
  rank.flow.stream = head.input;
}

template <typename T>
T* normed_rows_of_head(Rank<T>& rank, const Place& place) {
  return head_view(rank, place).normed;
}

template <typename T>
Sum<T>* statistics_of(Rank<T>& rank, const Place& place) {
  return head_view(rank, place).statistics;
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
void head_forward(Rank<T>& rank, const Place& place) {
  const Sizes& s = rank.sizes;
  const HeadView<T> head = head_view(rank, place);
  if (!rank.flow.normed) norm_of_head(rank, place);
  const Table<T> table = table_of(rank, place);
  forward_product(s.tokens, s.vocabulary.count, s.hidden, head.normed, weights_of(rank, table.piece) + table.offset,
                  head.logits);
  rank.flow.scored = true;
  const std::int32_t* labels = of_micro_batch(rank, rank.labels, place);
  const bool fuses = rank.fuses(spec::Fusion::cross_entropy);
  if (rank.job.layout.tp > 1 || !fuses) {
    Sum<T>* own = head.statistics + 3 * s.tokens * rank.tp_rank;
    kernel::row_maxima<T>(s.tokens, s.vocabulary.count, head.logits, own);
    kernel::row_sums<T>(s.tokens, s.vocabulary, head.logits, labels, own, own + s.tokens, own + 2 * s.tokens);
    if (rank.job.layout.tp == 1) combine_statistics(rank, place);
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
  const T* dlogits = logit_gradients(rank, head, place);
  backward_product(s.tokens, s.vocabulary.count, s.hidden, dlogits, weights_of(rank, table.piece) + table.offset,
                   rank.space(rank.places.inward));
  // With shards, the gradient of a tied table lies behind that of the head's own piece.
  const bool apart = rank.shards_gradients && &table.piece != &head.piece;
  Sum<T>* dtable = apart ? gradients_of(rank, head.piece) + head.piece.elements() + table.offset
                         : gradients_of(rank, table.piece) + table.offset;
  weight_product(rank, s.vocabulary.count, s.hidden, dlogits, head.normed, dtable, accumulates(rank, head.piece), true);
  rank.flow = {};
  rank.flow.norm = {head.input, head.mean, head.scale, &head.piece, Role::head_norm, Role::head_norm_bias};
}

#define TWINPOD_INSTANTIATE(T)                              \
  template void embedding_forward(Rank<T>&, const Place&);  \
  template void embedding_backward(Rank<T>&, const Place&); \
  template void norm_of_head(Rank<T>&, const Place&);       \
  template T* normed_rows_of_head(Rank<T>&, const Place&);  \
  template Sum<T>* statistics_of(Rank<T>&, const Place&);   \
  template void combine_statistics(Rank<T>&, const Place&); \
  template void head_forward(Rank<T>&, const Place&);       \
  template void head_backward(Rank<T>&, const Place&)
TWINPOD_INSTANTIATE(float);
TWINPOD_INSTANTIATE(double);
TWINPOD_INSTANTIATE(Bf16);
#undef TWINPOD_INSTANTIATE

}  // namespace twinpod::train
