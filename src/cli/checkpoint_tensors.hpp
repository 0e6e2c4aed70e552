// twinpod checkpoint show, diff, export and import: what is in checkpoints. `words` are what stands behind the verb.
#pragma once

#include <string>
#include <vector>

#include "cli/args.hpp"
#include "core/error.hpp"

namespace twinpod::cli {

Result<std::string> show_checkpoint(const Arguments& arguments, const std::vector<std::string>& words);
Result<std::string> diff_checkpoints(const Arguments& arguments, const std::vector<std::string>& words);
Result<std::string> export_checkpoint(const Arguments& arguments, const std::vector<std::string>& words);
Result<std::string> import_checkpoint(const Arguments& arguments, const std::vector<std::string>& words);

}  // namespace twinpod::cli
