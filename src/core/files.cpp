#include "core/files.hpp"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

namespace twinpod {

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || (in.peek() != std::ifstream::traits_type::eof() && !(text << in.rdbuf())) || in.bad()) {
    return input_error(fmt::format("cannot read {}", path));
  }
  return text.str();
}

Result<void> write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) return input_error(fmt::format("cannot write {}", path));
  return {};
}

}  // namespace twinpod
