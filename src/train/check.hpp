// Can the trainer run this job? What it cannot is said before anything starts.
#pragma once

#include "core/error.hpp"
#include "spec/job.hpp"

namespace twinpod::train {

// Refuses models and layouts that have no kernels here, naming the nearest that has.
Result<void> check(const spec::Job& job);

// The job as it is run. Dropout is as training.dropout says, whatever the model's key: that is for software which
// stores masks. A pipeline would gather and scatter for every micro-batch with ZeRO 2 and 3, so it keeps parameters and
// gradients whole and shards the optimizer's state only.
spec::Job as_executed(spec::Job job);

}  // namespace twinpod::train
