// Which regions of which tensors a rank holds, and where they lie in its flat buffers.
//
//     for (const PlacedRegion& one : regions_of_part(piece, first, count, tp, tp_rank)) ...
//     one.tensor == "layers.0.mlp.input.weight"; one.region; one.first        // elements of the piece from here on
//
// A checkpoint knows tensors as the model has them, without a layout: parameters by their names (fp32 where the trainer
// computes in bf16), beside them the optimizer's `optimizer.mean.NAME` and `optimizer.square.NAME`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "program/program.hpp"
#include "store/save.hpp"
#include "train/pieces.hpp"

namespace twinpod::train {

// Elements that lie side by side in a piece, and are a box of the tensor in row-major order.
struct PlacedRegion {
  std::string tensor;
  store::Dims shape;
  store::Region region;
  std::int64_t first = 0;  // in the piece
  std::int64_t count = 0;
};

// Of elements first ... first + count - 1 of a piece. What fills it up belongs to no tensor.
std::vector<PlacedRegion> regions_of_part(const Piece& piece, std::int64_t first, std::int64_t count, int tp,
                                          int tp_rank);

// What is kept of each parameter.
enum class Kept { parameter, mean, square };
std::vector<Kept> kept_of(const spec::Job& job);
std::string kept_name(Kept kept, const std::string& tensor);

// A region that a rank updates, and where its elements begin.
struct OwnedRegion {
  Kept kept = Kept::parameter;
  std::size_t owned = 0;   // index into the rank's list
  std::int64_t first = 0;  // in that one's piece
  store::HeldRegion held;  // without bytes
};

// Of any rank. A tied table counts where the embedding has it. `dtype` is that of parameters and state.
std::vector<OwnedRegion> owned_regions(const spec::Job& job, const std::vector<Owned>& owned, int tp_rank,
                                       const std::string& dtype);

// Of what this rank updates, that which it writes into checkpoints: what several ranks hold alike, one of them does.
std::vector<OwnedRegion> regions_to_save(const spec::Job& job, const program::Program& program, const Pieces& pieces,
                                         int rank, const std::string& dtype);

}  // namespace twinpod::train
