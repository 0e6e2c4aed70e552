// A document as text.
#include <algorithm>
#include <cctype>

#include "core/quote.hpp"
#include "spec/node.hpp"

namespace twinpod::spec {
namespace {

// Nothing in it means anything to YAML, also between brackets.
bool is_plain(const std::string& text) {
  const auto harmless = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_./+-% ").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (text.empty() || text.front() == ' ' || text.back() == ' ' || text.front() == '%') return false;
  if (text.front() == '-' && (text.size() == 1 || text[1] == ' ' || text[1] == '-')) return false;
  return std::all_of(text.begin(), text.end(), harmless);
}

std::string list_of(const Node& node) {
  std::string text;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    if (i > 0) text += ", ";
    if (node.kind == Node::Kind::mapping) {
      const std::string& key = node.keys[i];
      text += (is_plain(key) ? key : double_quoted(key)) + ": ";
    }
    text += to_yaml(node.items[i]);
  }
  return text;
}

}  // namespace

std::string to_yaml(const Node& node) {
  if (node.kind == Node::Kind::null) return "null";
  if (node.kind == Node::Kind::mapping) return "{" + list_of(node) + "}";
  if (node.kind == Node::Kind::sequence) return "[" + list_of(node) + "]";
  return !node.quoted && is_plain(node.scalar) ? node.scalar : double_quoted(node.scalar);
}

}  // namespace twinpod::spec
