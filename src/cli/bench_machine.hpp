// twinpod bench machine: this machine as a cluster file.
#pragma once

#include <string>

#include "cli/args.hpp"
#include "core/error.hpp"

namespace twinpod::cli {

Result<std::string> bench_machine(const Arguments& arguments);

}  // namespace twinpod::cli
