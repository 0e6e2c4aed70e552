// What each rank of `twinpod train` does, from its plan to the answer of rank 0.
//
//     comm::run_processes(2, options, [&](comm::Communicator& world) { return train_rank(request, &plan, world); });
//
// An error that all ranks have, like wrong data, is no failure of theirs: they end in peace, and rank 0's answer tells
// it. answered() makes an error of it again.
#pragma once

#include <iosfwd>
#include <string>

#include "cli/train_request.hpp"

namespace twinpod::cli {

// Without a plan, because the number of ranks was not known before, it makes its own.
Result<std::string> train_rank(const TrainRequest& request, const TrainPlan* plan, comm::Communicator& world);

// Before anything is computed: a run that cannot write what it is asked to write does not start.
Result<void> open_outputs(const TrainRequest& request, std::ofstream& metrics);

// The job on the cluster that it names, or else on what its ranks measure just now. On rank 0 it is complete.
Result<spec::Job> job_to_predict(const TrainRequest& request, const spec::Job& job, comm::Communicator& world);

Result<std::string> answered(Result<std::string> answer);

}  // namespace twinpod::cli
