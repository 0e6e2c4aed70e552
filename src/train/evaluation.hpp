// The held-out part of the data, batch by batch.
//
//     for (int batch = 0; batch < evaluation_batches(job, samples); ++batch) {
//       if (Result<void> read = read_evaluation(rank, samples, batch); !read) ...
//       sum += *evaluate(rank);
//     }
#pragma once

#include "core/error.hpp"
#include "data/samples.hpp"
#include "train/rank.hpp"

namespace twinpod::train {

// At least one. REQUIRES: samples.num_evaluation > 0.
int evaluation_batches(const spec::Job& job, const data::Samples& samples);

// Its samples are dealt out like those of a step, around the end of the part if need be.
template <typename T>
Result<void> read_evaluation(Rank<T>& rank, const data::Samples& samples, int batch);

}  // namespace twinpod::train
