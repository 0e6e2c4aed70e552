// Reading and writing a whole file, with an error that names it.
#pragma once

#include <string>

#include "core/error.hpp"

namespace twinpod {

Result<std::string> read_file(const std::string& path);
Result<void> write_file(const std::string& path, const std::string& text);

}  // namespace twinpod
