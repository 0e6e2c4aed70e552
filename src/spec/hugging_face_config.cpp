#include "spec/hugging_face_config.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace twinpod::spec {

const Node* HuggingFaceConfig::find(Keys keys) const {
  for (const std::string_view key : keys) {
    const Node* found = node_.find(key);
    if (found != nullptr && found->kind != Node::Kind::null) return found;
  }
  return nullptr;
}

int HuggingFaceConfig::needed(Keys keys, int high) const {
  const Node* found = find(keys);
  if (found != nullptr) return number(*found, *keys.begin(), 1, high);
  context_.refuse(node_, fmt::format("config has no `{}`, which a model of this type needs", *keys.begin()));
  return 1;
}

int HuggingFaceConfig::count(Keys keys, int fallback, int low, int high) const {
  const Node* found = find(keys);
  return found == nullptr ? fallback : number(*found, *keys.begin(), low, high);
}

bool HuggingFaceConfig::flag(Keys keys, bool fallback) const {
  const Node* found = find(keys);
  if (found == nullptr) return fallback;
  if (!found->quoted && (found->scalar == "true" || found->scalar == "false")) return found->scalar == "true";
  context_.refuse(*found, fmt::format("{} is {}; expected true or false", *keys.begin(), description(*found)));
  return fallback;
}

double HuggingFaceConfig::fraction(Keys keys, double fallback) const {
  const Node* found = find(keys);
  if (found == nullptr) return fallback;
  const Result<double> value = parse_quantity(found->scalar, Quantity::fraction);
  if (value && *value >= 0 && *value <= 1) return *value;
  context_.refuse(*found, fmt::format("{} is {}; expected a number from 0 to 1", *keys.begin(), description(*found)));
  return fallback;
}

void HuggingFaceConfig::refuse(Keys keys, std::string message, std::string hint) const {
  const Node* found = find(keys);
  context_.refuse_key(found == nullptr ? node_ : *found, std::move(message), std::move(hint));
}

HuggingFaceConfig HuggingFaceConfig::part(std::string_view key) const {
  static const Node nothing;
  const Node* found = node_.find(key);
  return {found == nullptr ? nothing : *found, context_};
}

int HuggingFaceConfig::number(const Node& node, std::string_view key, int low, int high) const {
  const std::optional<int> value = whole_number(node);
  if (value && *value >= low && *value <= high) return *value;
  context_.refuse(node,
                  fmt::format("{} is {}; expected a whole number from {} to {}", key, description(node), low, high));
  return std::max(1, low);
}

}  // namespace twinpod::spec
