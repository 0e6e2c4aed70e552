#include "core/files.hpp"

#include <fmt/format.h>

#include <fstream>

namespace twinpod {

Result<void> write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) return input_error(fmt::format("cannot write {}", path));
  return {};
}

}  // namespace twinpod
