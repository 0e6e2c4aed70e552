// twinpod simulate --workload: a workload made elsewhere, as Chakra execution traces, on a cluster.
#pragma once

#include <string>

#include "cli/args.hpp"
#include "core/error.hpp"

namespace twinpod::cli {

// REQUIRES: the flag --workload is given.
Result<std::string> simulate_workload(const Arguments& arguments);

}  // namespace twinpod::cli
