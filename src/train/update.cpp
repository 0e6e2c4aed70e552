// The optimizer's step on what this rank owns.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "program/volume.hpp"
#include "train/rank.hpp"

namespace twinpod::train {
namespace {

// Calls f(tensor, first, count) for the tensors that a part of a piece touches; first is in the piece.
template <typename F>
void for_each_tensor(const Piece& piece, std::int64_t first, std::int64_t count, int tp, F&& f) {
  for (std::size_t i = 0; i < piece.tensors.size(); ++i) {
    const std::int64_t begin = std::max(first, piece.places.offsets[i]);
    const std::int64_t end =
        std::min(first + count, piece.places.offsets[i] + model::local_elements(piece.tensors[i], tp));
    if (begin < end) f(piece.tensors[i], begin, end - begin);
  }
}

template <typename T>
Sum<T>* gradient_at(Rank<T>& rank, const Owned& own, std::int64_t first) {
  if (rank.shards_gradients) return rank.gradients + own.place + (first - own.first);
  return rank.gradients + own.piece->offset + first;
}

template <typename T>
T* parameter_at(Rank<T>& rank, const Owned& own, std::int64_t first) {
  if (rank.shards_parameters) return rank.parameters + own.place + (first - own.first);
  return rank.parameters + own.piece->offset + first;
}

// Of the copies of a parameter, one counts: of those that all tensor-parallel ranks hold the first rank's, of a tied
// table the embedding's.
bool counts(const Piece& piece, const model::Tensor& tensor, int tp_rank) {
  if (tensor.split == model::Split::none && tp_rank != 0) return false;
  return piece.segment != program::Segment::head || tensor.name != "embedding.tokens";
}

}  // namespace

template <typename T>
double squares(Rank<T>& rank) {
  double sum = 0;
  const auto add = [&](const Owned& own) {
    for_each_tensor(*own.piece, own.first, own.count, rank.job.layout.tp,
                    [&](const model::Tensor& tensor, std::int64_t first, std::int64_t count) {
                      if (!counts(*own.piece, tensor, rank.tp_rank)) return;
                      sum += kernel::sum_of_squares<Sum<T>>(count, gradient_at(rank, own, first));
                    });
  };
  for (const Owned& own : rank.owned) {
    if (rank.job.layout.zero > 0) {
      add(own);
      continue;
    }
    // Copies share the work.
    Owned part = own;
    part.count = own.count / rank.pieces.shards;
    part.first = own.first + rank.dp_rank * part.count;
    add(part);
  }
  return sum;
}

template <typename T>
void update(Rank<T>& rank) {
  if (rank.group(layout::Group::world) == nullptr) {
    rank.reduced[0] = squares(rank);
    rank.reduced[1] = rank.loss_sum;
  }
  const double norm = std::sqrt(rank.reduced[0]);
  rank.result.gradient_norm = norm;
  const StepSettings& settings = rank.settings;
  double scale = settings.clip > 0 && norm > settings.clip ? settings.clip / norm : 1;
  if (!std::isfinite(norm)) scale = 0;  // the caller sees it and stops; parameters stay as they were
  for (const Owned& own : rank.owned) {
    for_each_tensor(*own.piece, own.first, own.count, rank.job.layout.tp,
                    [&](const model::Tensor& tensor, std::int64_t first, std::int64_t count) {
                      if (scale == 0) return;
                      const std::int64_t place = own.place + first - own.first;
                      T* copy = parameter_at(rank, own, first);
                      Sum<T>* master = nullptr;
                      if constexpr (std::is_same_v<T, Sum<T>>) {
                        master = copy;
                      } else {
                        master = rank.master + place;
                      }
                      const Sum<T>* gradient = gradient_at(rank, own, first);
                      if (settings.sgd) {
                        kernel::Sgd one = settings.momentum;
                        one.gradient_scale *= scale;
                        if (!tensor.decays) one.decay = 0;
                        kernel::sgd<T>(one, count, master, copy, gradient, rank.mean + place);
                        return;
                      }
                      kernel::AdamW one = settings.adamw;
                      one.gradient_scale *= scale;
                      if (!tensor.decays) one.decay = 0;
                      kernel::adamw<T>(one, count, master, copy, gradient, rank.mean + place, rank.square + place);
                    });
  }
}

template double squares(Rank<float>&);
template double squares(Rank<double>&);
template double squares(Rank<Bf16>&);
template void update(Rank<float>&);
template void update(Rank<double>&);
template void update(Rank<Bf16>&);

}  // namespace twinpod::train
