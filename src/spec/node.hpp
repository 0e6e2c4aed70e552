// A parsed YAML (or JSON, which is a subset) document as a tree whose every node knows its line and column.
//
//     Result<Node> root = parse_yaml(text, "job.yaml");
//     const Node* tp = root->find("layout")->find("tp");   // tp->line, tp->column
//
// Parsing is bounded (depth, number of nodes, bytes), and anchors, aliases, tags, repeated keys and a second document
// are refused, so hostile input neither hangs nor exhausts memory.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace twinpod::spec {

struct Node {
  enum class Kind { null, scalar, sequence, mapping };
  Kind kind = Kind::null;
  std::string scalar;
  bool quoted = false;            // a quoted scalar is text, never a number
  std::vector<std::string> keys;  // mapping: in the order of the file; items[i] belongs to keys[i]
  std::vector<Node> items;        // sequence or mapping values
  int line = 0;
  int column = 0;
  int key_line = 0;  // value of a mapping: where its key stands
  int key_column = 0;
  std::shared_ptr<const std::string> file;  // where it was written, if not in the file being read: "--set layout.tp=8"

  const Node* find(std::string_view key) const;  // nullptr: no such key, or not a mapping
  Node* find(std::string_view key);
};

inline constexpr int kMaxDepth = 64;
inline constexpr std::size_t kMaxNodes = 2'000'000;
inline constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;

Result<Node> parse_yaml(std::string_view text, const std::string& file);
Result<Node> parse_yaml_file(const std::string& path);

// In one line, as parse_yaml() reads it: {model: gpt2, layout: {tp: 2}}. Lines and columns are other ones then.
std::string to_yaml(const Node& node);

}  // namespace twinpod::spec
