// `twinpod train --servers`: from its plan to what it prints.
#pragma once

#include <string>

#include "cli/train_request.hpp"

namespace twinpod::cli {

// REQUIRES: request.served, and a plan for all ranks of all workers.
Result<std::string> train_with_servers(const TrainRequest& request, const TrainPlan& plan);

}  // namespace twinpod::cli
