// How many devices a job uses when nobody said how many: as many as whole copies of the model fill, with a batch that
// they can share. The others stay idle, and the answer says so.
//
//     tp 8 × pp 8 on a cluster of 1,120 devices: 17 copies on 1,088 devices, 32 idle
#pragma once

#include "spec/job.hpp"

namespace twinpod::layout {

// The job as it is when it names its devices, when all of the cluster can be used, or when more than a quarter of it
// would stay idle: then check() says what does not divide, and what would.
spec::Job with_whole_copies(const spec::Job& job);

}  // namespace twinpod::layout
