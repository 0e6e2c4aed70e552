// Writing a whole file, with an error that names it.
#pragma once

#include <string>

#include "core/error.hpp"

namespace twinpod {

Result<void> write_file(const std::string& path, const std::string& text);

}  // namespace twinpod
