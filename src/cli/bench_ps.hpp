// twinpod bench ps: how fast a parameter server is here, beside messages between two ranks.
#pragma once

#include <string>

#include "cli/args.hpp"
#include "core/error.hpp"

namespace twinpod::cli {

Result<std::string> bench_ps(const Arguments& arguments);

}  // namespace twinpod::cli
