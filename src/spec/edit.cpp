#include "spec/edit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "spec/reader.hpp"

namespace twinpod::spec {
namespace {

using File = std::shared_ptr<const std::string>;

std::string label_of(const Setting& setting) {
  return setting.option.empty() ? "--set " + setting.text : setting.option;
}

void set_file(Node& node, const File& file) {
  node.file = file;
  for (Node& item : node.items) set_file(item, file);
}

// A whole option is one place: columns inside it would count from where the value starts.
void set_place(Node& node) {
  node.line = node.column = node.key_line = node.key_column = 1;
  for (Node& item : node.items) set_place(item);
}

Node& child(Node& mapping, std::string_view key) {
  if (Node* found = mapping.find(key)) return *found;
  mapping.keys.emplace_back(key);
  return mapping.items.emplace_back();
}

bool may_have_base(std::string_view key) {
  constexpr std::array<std::string_view, 5> kKeys{"model", "cluster", "stack", "node", "device"};
  return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
}

// Makes a mapping of what stands at `node`, so that a key can be set in it.
bool become_mapping(Node& node, std::string_view key, const File& file) {
  if (node.kind == Node::Kind::mapping) return true;
  if (node.kind == Node::Kind::sequence) return false;
  if (node.kind == Node::Kind::scalar && !may_have_base(key)) return false;
  Node mapping;
  mapping.kind = Node::Kind::mapping;
  mapping.line = mapping.column = mapping.key_line = mapping.key_column = 1;
  mapping.file = file;
  if (node.kind == Node::Kind::scalar) child(mapping, "base") = std::move(node);
  node = std::move(mapping);
  return true;
}

// Two keys that say the same in different ways: who sets one on the command line does not mean the file's other one.
std::string_view other_way(std::string_view key) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kPairs{
      {{"global_batch", "global_batch_tokens"}, {"tokens", "text"}}};
  for (const auto& [one, other] : kPairs) {
    if (key == one) return other;
    if (key == other) return one;
  }
  return "";
}

void drop_other_way(Node& mapping, std::string_view key) {
  const auto found = std::find(mapping.keys.begin(), mapping.keys.end(), other_way(key));
  if (found == mapping.keys.end()) return;
  const auto at = found - mapping.keys.begin();
  if (mapping.items[static_cast<std::size_t>(at)].file != nullptr) return;  // also from the command line
  mapping.keys.erase(found);
  mapping.items.erase(mapping.items.begin() + at);
}

tl::unexpected<Error> refusal(const std::string& label, std::string message, std::string hint) {
  return tl::unexpected<Error>(Error{ErrorKind::input, std::move(message), std::move(hint), label, 1, 1});
}

}  // namespace

Result<void> apply_setting(Node& root, const Setting& setting) {
  const std::string label = label_of(setting);
  const File file = std::make_shared<const std::string>(label);
  const std::size_t equals = setting.text.find('=');
  if (equals == std::string::npos) return refusal(label, "found no `=`", "write key.key=value, such as layout.tp=8");
  std::string_view path = std::string_view(setting.text).substr(0, equals);

  Result<Node> value = parse_yaml(std::string_view(setting.text).substr(equals + 1), label);
  if (!value) return refusal(label, value.error().message, value.error().hint);
  set_file(*value, file);
  set_place(*value);

  Node* node = &root;
  std::string_view key = "the job";
  while (true) {
    if (!become_mapping(*node, key, file)) {
      return refusal(label, fmt::format("{} is {}, so nothing below it can be set", key, description(*node)), "");
    }
    const std::size_t dot = path.find('.');
    key = path.substr(0, dot);
    if (key.empty()) return refusal(label, "found a key without a name", "write key.key=value, such as layout.tp=8");
    if (dot == std::string_view::npos) drop_other_way(*node, key);
    node = &child(*node, key);
    if (dot == std::string_view::npos) break;
    path.remove_prefix(dot + 1);
  }
  *node = std::move(*value);
  return {};
}

}  // namespace twinpod::spec
