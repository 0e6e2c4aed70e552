// twinpod bench store: how fast checkpoints are saved and loaded in a folder, beside fio.
#pragma once

#include <string>

#include "cli/args.hpp"
#include "core/error.hpp"

namespace twinpod::cli {

Result<std::string> bench_store(const Arguments& arguments);

}  // namespace twinpod::cli
