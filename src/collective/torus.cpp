// All-gather on a torus: a ring along each axis in turn, each with all that was gathered before.
//   all_gather Σ (d_a - 1) α + (n-1)/n B β, d_a the extent of axis a
// Split over the axes: D parts of the buffer start along D different axes and go both ways round, so that all links of
// a rank are in use all the time: about Σ d_a / 2 α + (n-1)/n B β / (2 D).
// Jain and Sabharwal (2010); Jouppi et al., "TPU v4: An Optically Reconfigurable Supercomputer" (2023).
#include <algorithm>
#include <cstddef>

#include "collective/algorithms.hpp"

namespace twinpod::collective {
namespace {

struct Axis {
  int stride = 1;
  int extent = 1;
};

// Axes that have more than one rank.
std::vector<Axis> axes_of(const Shape& shape) {
  std::vector<Axis> axes;
  int stride = 1;
  for (const int extent : shape.torus) {
    if (extent > 1) axes.push_back({stride, extent});
    stride *= extent;
  }
  return axes;
}

// The last axis first, so that the reduce-scatter, backwards, begins along the first; part p begins p axes further.
std::vector<Axis> order_of(const std::vector<Axis>& axes, int part) {
  std::vector<Axis> order(axes.rbegin(), axes.rend());
  std::rotate(order.begin(), order.begin() + part, order.end());
  return order;
}

int num_parts(const Shape& shape) {
  return shape.split_axes ? std::max(1, static_cast<int>(axes_of(shape).size())) : 1;
}

// Rings along one axis through all ranks; has[r], what rank r holds, grows.
Rounds along(const Axis& axis, bool both_ways, int direction, std::vector<std::vector<int>>& has) {
  const std::vector<std::vector<int>> had = has;
  std::vector<Rounds> rings;
  for (int rank = 0; rank < static_cast<int>(has.size()); ++rank) {
    if (rank / axis.stride % axis.extent != 0) continue;
    Group ring;
    std::vector<int> all;
    for (int i = 0; i < axis.extent; ++i) {
      ring.ranks.push_back(rank + i * axis.stride);
      ring.pieces.push_back(had[ring.ranks.back()]);
      all.insert(all.end(), ring.pieces.back().begin(), ring.pieces.back().end());
    }
    std::sort(all.begin(), all.end());
    for (const int member : ring.ranks) has[member] = all;
    rings.push_back(both_ways ? bidirectional_ring_all_gather(ring, direction) : ring_all_gather(ring, direction));
  }
  return side_by_side(rings);
}

}  // namespace

// Two chunks for each part that goes both ways.
int torus_factor(const Shape& shape) { return shape.split_axes ? 2 * num_parts(shape) : 1; }

Rounds torus_all_gather(int ranks, const Shape& shape, int direction) {
  const std::vector<Axis> axes = axes_of(shape);
  const int factor = torus_factor(shape);
  const int parts = num_parts(shape);
  std::vector<Rounds> all;
  for (int part = 0; part < parts; ++part) {
    std::vector<std::vector<int>> has(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      for (int c = part * factor / parts; c < (part + 1) * factor / parts; ++c) has[rank].push_back(rank * factor + c);
    }
    Rounds rounds;
    for (const Axis& axis : order_of(axes, part)) {
      rounds = one_after_another(std::move(rounds), along(axis, shape.split_axes, direction, has));
    }
    all.push_back(std::move(rounds));
  }
  return side_by_side(all);
}

std::vector<Phase> torus_all_gather_phases(int ranks, double bytes, const Shape& shape, int direction) {
  const std::vector<Axis> axes = axes_of(shape);
  const int parts = num_parts(shape);
  std::vector<std::vector<Phase>> all;
  for (int part = 0; part < parts; ++part) {
    std::vector<Phase> phases;
    double piece = bytes / parts / ranks;
    for (const Axis& axis : order_of(axes, part)) {
      phases = one_after_another(std::move(phases),
                                 shape.split_axes ? bidirectional_ring_phases(ranks, axis.stride, axis.extent, piece)
                                                  : ring_phases(ranks, axis.stride, axis.extent, piece, direction));
      piece *= axis.extent;
    }
    all.push_back(std::move(phases));
  }
  return side_by_side(all);
}

double torus_all_gather_rounds(const Shape& shape) {
  double rounds = 0;
  for (const Axis& axis : axes_of(shape)) rounds += shape.split_axes ? axis.extent / 2 : axis.extent - 1;
  return rounds;
}

}  // namespace twinpod::collective
