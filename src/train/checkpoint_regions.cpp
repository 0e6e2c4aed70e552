#include "train/checkpoint_regions.hpp"

#include <algorithm>

#include "layout/mesh.hpp"

namespace twinpod::train {
namespace {

using layout::Axis;

// Vectors have one dim.
store::Dims shape_of(const model::Tensor& tensor) {
  if (tensor.columns == 1) return {tensor.rows()};
  return {tensor.rows(), tensor.columns};
}

// Elements begin ... end - 1 of a block, as boxes of the whole tensor.
void add_block(const model::Tensor& tensor, const model::TensorBlock& block, std::int64_t begin, std::int64_t end,
               std::int64_t first, std::vector<PlacedRegion>& regions) {
  const bool vector = tensor.columns == 1;
  const store::Dims size = vector ? store::Dims{block.rows} : store::Dims{block.rows, block.columns};
  for (store::Region& region : store::regions_of_range(size, begin, end)) {
    region.offset[0] += block.first_row;
    if (!vector) region.offset[1] += block.first_column;
    const std::int64_t count = store::num_elements(region.size);
    regions.push_back({tensor.name, shape_of(tensor), std::move(region), first, count});
    first += count;
  }
}

bool is_copy_of_table(const Piece& piece, const std::string& tensor) {
  return piece.segment == program::Segment::head && tensor == "embedding.tokens";
}

// Ranks that may hold some of what this one updates: those of its stage, and with ZeRO of its place in it.
std::vector<int> possible_copies(const spec::Job& job, const layout::Mesh& mesh, int rank) {
  std::vector<int> ranks;
  for (int other = 0; other < mesh.ranks(); ++other) {
    if (layout::coordinate(mesh, other, Axis::pp) != layout::coordinate(mesh, rank, Axis::pp)) continue;
    const bool apart = layout::coordinate(mesh, other, Axis::dp) != layout::coordinate(mesh, rank, Axis::dp);
    if (job.layout.zero == 0 || !apart) ranks.push_back(other);
  }
  return ranks;
}

}  // namespace

std::vector<PlacedRegion> regions_of_part(const Piece& piece, std::int64_t first, std::int64_t count, int tp,
                                          int tp_rank) {
  std::vector<PlacedRegion> regions;
  for (std::size_t i = 0; i < piece.tensors.size(); ++i) {
    std::int64_t offset = piece.places.offsets[i];
    for (const model::TensorBlock& block : model::blocks_of(piece.tensors[i], tp, tp_rank)) {
      const std::int64_t elements = block.rows * block.columns;
      const std::int64_t begin = std::max(first, offset);
      const std::int64_t end = std::min(first + count, offset + elements);
      if (begin < end) add_block(piece.tensors[i], block, begin - offset, end - offset, begin, regions);
      offset += elements;
    }
  }
  return regions;
}

std::vector<Kept> kept_of(const spec::Job& job) {
  if (job.training.optimizer == spec::Optimizer::sgd) return {Kept::parameter};
  if (job.training.optimizer == spec::Optimizer::adam) return {Kept::parameter, Kept::mean, Kept::square};
  return {Kept::parameter, Kept::mean};
}

std::string kept_name(Kept kept, const std::string& tensor) {
  if (kept == Kept::parameter) return tensor;
  return (kept == Kept::mean ? "optimizer.mean." : "optimizer.square.") + tensor;
}

std::vector<OwnedRegion> owned_regions(const spec::Job& job, const std::vector<Owned>& owned, int tp_rank,
                                       const std::string& dtype) {
  std::vector<OwnedRegion> all;
  for (std::size_t i = 0; i < owned.size(); ++i) {
    const Owned& own = owned[i];
    for (PlacedRegion& placed : regions_of_part(*own.piece, own.first, own.count, job.layout.tp, tp_rank)) {
      if (is_copy_of_table(*own.piece, placed.tensor)) continue;
      for (const Kept kept : kept_of(job)) {
        all.push_back(
            {kept, i, placed.first, {kept_name(kept, placed.tensor), dtype, placed.shape, placed.region, {}}});
      }
    }
  }
  return all;
}

std::vector<OwnedRegion> regions_to_save(const spec::Job& job, const program::Program& program, const Pieces& pieces,
                                         int rank, const std::string& dtype) {
  std::vector<std::vector<store::HeldRegion>> of_ranks;
  std::vector<OwnedRegion> own;
  std::size_t own_place = 0;
  for (const int other : possible_copies(job, program.mesh, rank)) {
    const std::vector<Owned> owned = owned_by(job, pieces, layout::coordinate(program.mesh, other, Axis::dp));
    const int tp_rank = layout::coordinate(program.mesh, other, Axis::tp);
    std::vector<OwnedRegion> regions = owned_regions(job, owned, tp_rank, dtype);
    std::vector<store::HeldRegion>& held = of_ranks.emplace_back();
    for (const OwnedRegion& region : regions) held.push_back(region.held);
    if (other != rank) continue;
    own_place = of_ranks.size() - 1;
    own = std::move(regions);
  }
  std::vector<OwnedRegion> chosen;
  const std::vector<std::vector<std::size_t>> places = store::regions_to_write(of_ranks);
  for (const std::size_t place : places[own_place]) chosen.push_back(std::move(own[place]));
  return chosen;
}

}  // namespace twinpod::train
