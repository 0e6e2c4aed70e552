// The keys of a Hugging Face config.json by name: several names for one thing, and null as good as absent.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "spec/reader.hpp"

namespace twinpod::spec {

class HuggingFaceConfig {
 public:
  using Keys = std::initializer_list<std::string_view>;

  HuggingFaceConfig(const Node& node, Context& context) : node_(node), context_(context) {}

  const Node* find(Keys keys) const;                                                  // nullptr: absent or null
  bool is_written(std::string_view key) const { return node_.find(key) != nullptr; }  // null too

  // Refuses when the key is absent; the first of the keys stands in the message.
  int needed(Keys keys, int high) const;

  // The others take the fallback then.
  int count(Keys keys, int fallback, int low, int high) const;
  bool flag(Keys keys, bool fallback) const;
  double fraction(Keys keys, double fallback) const;

  void refuse(Keys keys, std::string message, std::string hint = "") const;
  HuggingFaceConfig part(std::string_view key) const;  // a mapping inside; without keys when it is absent

 private:
  int number(const Node& node, std::string_view key, int low, int high) const;

  const Node& node_;
  Context& context_;
};

}  // namespace twinpod::spec
