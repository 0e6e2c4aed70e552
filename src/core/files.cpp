#include "core/files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
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

bool can_be_written(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool there = fs::exists(path, ignored);
  if (there && fs::is_directory(path, ignored)) return false;
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  if (!there && !fs::is_directory(folder, ignored)) return false;
  return access(there ? path.c_str() : folder.c_str(), W_OK) == 0;
}

Result<void> write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) return input_error(fmt::format("cannot write {}", path));
  return {};
}

}  // namespace twinpod
