// Reading and writing a whole file, with an error that names it.
#pragma once

#include <string>

#include "core/error.hpp"

namespace twinpod {

Result<std::string> read_file(const std::string& path);
bool can_be_written(const std::string& path);  // makes nothing, and changes nothing
Result<void> write_file(const std::string& path, const std::string& text);

}  // namespace twinpod
