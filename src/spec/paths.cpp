// Names, paths and places: what a scalar refers to, and where in a document an error belongs.
#include <fmt/format.h>
#include <sys/stat.h>

#include "core/quote.hpp"
#include "spec/entries.hpp"

namespace twinpod::spec {
namespace {

constexpr int kMaxBases = 8;  // files that name a file as their base, one after the other

bool is_folder(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool exists(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0;
}

// With a slash at its end; empty for the current folder.
std::string folder_of(const Node& node, const Context& context) {
  if (node.file != nullptr) return "";  // written on the command line
  const std::size_t slash = context.file.rfind('/');
  return slash == std::string::npos ? "" : context.file.substr(0, slash + 1);
}

const Node* descend(const Node& node, std::string_view path) {
  const std::size_t dot = path.find('.');
  const Node* next = node.find(path.substr(0, dot));
  if (next == nullptr || dot == std::string_view::npos) return next;
  return descend(*next, path.substr(dot + 1));
}

}  // namespace

bool is_path(std::string_view text) {
  return text.find('/') != std::string_view::npos || text.ends_with(".yaml") || text.ends_with(".yml") ||
         text.ends_with(".json");
}

bool open_path(const Node& node, Context& context, int depth, std::string& path, Node& root) {
  if (depth > kMaxBases) {
    context.refuse(node, fmt::format("more than {} files name each other as their base", kMaxBases));
    return false;
  }
  path = node.scalar.starts_with('/') ? node.scalar : folder_of(node, context) + node.scalar;
  if (is_folder(path)) path += path.ends_with('/') ? "config.json" : "/config.json";
  if (!exists(path)) {
    context.refuse(node, fmt::format("there is no file {}", description(node)), "looked for " + one_line(path));
    return false;
  }
  Result<Node> parsed = parse_yaml_file(path);
  if (!parsed) {
    context.refuse(node, std::move(parsed.error()));
    return false;
  }
  root = std::move(*parsed);
  return true;
}

const Node& place_of(const Node& node, std::initializer_list<std::string_view> paths) {
  for (const std::string_view path : paths) {
    if (const Node* found = descend(node, path)) return *found;
  }
  return node;
}

}  // namespace twinpod::spec
