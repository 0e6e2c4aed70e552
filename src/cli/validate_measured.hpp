// twinpod validate --collectives and --gemm: closed forms beside what others measured.
#pragma once

#include <string>

#include "cli/args.hpp"
#include "core/error.hpp"

namespace twinpod::cli {

// REQUIRES: --collectives or --gemm is given. Reads --cross-validate, --refit, --worst, --json and one word, the table.
Result<std::string> validate_measured(const Arguments& arguments);

}  // namespace twinpod::cli
