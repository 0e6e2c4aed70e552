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

// A part of a tensor and what belongs to it.
template <typename T>
struct Slice {
  std::int64_t count = 0;
  Sum<T>* master = nullptr;
  T* copy = nullptr;
  Sum<T>* gradient = nullptr;
  Sum<T>* mean = nullptr;
  Sum<T>* square = nullptr;
};

template <typename T>
Slice<T> slice_of(Rank<T>& rank, const Owned& own, std::int64_t first, std::int64_t count) {
  const std::int64_t place = own.place + first - own.first;
  Slice<T> slice{count, nullptr, parameter_at(rank, own, first), gradient_at(rank, own, first)};
  if constexpr (std::is_same_v<T, Sum<T>>) {
    slice.master = slice.copy;
  } else {
    slice.master = rank.master + place;
  }
  if (rank.mean != nullptr) slice.mean = rank.mean + place;
  if (rank.square != nullptr) slice.square = rank.square + place;
  return slice;
}

template <typename T>
void update_tensor(Rank<T>& rank, const Slice<T>& s, bool decays, double scale) {
  const bool fuses = rank.fuses(spec::Fusion::optimizer);
  if (rank.settings.sgd) {
    kernel::Sgd one = rank.settings.momentum;
    one.gradient_scale *= scale;
    if (!decays) one.decay = 0;
    if (fuses) return kernel::sgd<T>(one, s.count, s.master, s.copy, s.gradient, s.mean);
    return kernel::sgd_in_passes<T>(one, s.count, s.master, s.copy, s.gradient, s.mean);
  }
  kernel::AdamW one = rank.settings.adamw;
  one.gradient_scale *= scale;
  if (!decays) one.decay = 0;
  if (fuses) return kernel::adamw<T>(one, s.count, s.master, s.copy, s.gradient, s.mean, s.square);
  kernel::adamw_in_passes<T>(one, s.count, s.master, s.copy, s.gradient, s.mean, s.square, rank.scratch);
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
  const double clip = rank.settings.clip;
  if (!rank.settings.updates) return;
  if (!std::isfinite(norm)) return;  // the caller sees it and stops; parameters stay as they were
  if (rank.before_update) rank.before_update();
  const double scale = clip > 0 && norm > clip ? clip / norm : 1;
  for (const Owned& own : rank.owned) {
    for_each_tensor(*own.piece, own.first, own.count, rank.job.layout.tp,
                    [&](const model::Tensor& tensor, std::int64_t first, std::int64_t count) {
                      update_tensor(rank, slice_of(rank, own, first, count), tensor.decays, scale);
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
