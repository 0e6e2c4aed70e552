// The one validity check of a job: does the layout divide the devices, the model and the batch?
//
//     const Result<void> valid = layout::check(job);
//     if (!valid) return fail(valid.error());
//
//     layout: dp 4 × tp 8 × pp 3 = 96 ranks, but the cluster has 128
//       try pp 4 or dp 5 with 8 idle
//
// Every refusal is ErrorKind::infeasible and carries its numbers and the nearest that works. What this lets through,
// the closed form, the generator and the simulator may take for granted. Memory is another matter: plan/fits.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "core/error.hpp"
#include "spec/job.hpp"

namespace twinpod::layout {

Result<void> check(const spec::Job& job);

// Layers that the emptiest stage holds. `uneven_ends`: embedding and head count as a layer each.
int fewest_layers_of_a_stage(int layers, int pp, bool uneven_ends);

// Divisors in rising order.
std::vector<std::int64_t> divisors(std::int64_t number);

// The divisor nearest to a wish, the smaller of two that are equally near. REQUIRES: number >= 1.
std::int64_t nearest_divisor(std::int64_t number, std::int64_t wish);

}  // namespace twinpod::layout
