// The algorithms that gather, by name: each gives all_gather, reduce_scatter and all_reduce.
#pragma once

#include <vector>

#include "collective/algorithms.hpp"

namespace twinpod::collective {

bool gathers(Algorithm algorithm);

// Chunks that a rank brings to an all-gather.
int factor_of(Algorithm algorithm, int ranks, const Shape& shape);

Rounds all_gather(Algorithm algorithm, int ranks, const Shape& shape, int direction);
Rounds reduce_scatter(Algorithm algorithm, int ranks, const Shape& shape);

std::vector<Phase> all_gather_phases(Algorithm algorithm, int ranks, double bytes, const Shape& shape, int direction);
std::vector<Phase> reduce_scatter_phases(Algorithm algorithm, int ranks, double bytes, const Shape& shape);

}  // namespace twinpod::collective
