// Turns Nodes into structs, and what is wrong into errors with file, line and column.
//
// A Reader walks one mapping. Each call takes one key; finish() refuses the keys that nobody took and names the nearest
// known one. The first error is kept and everything after it is ignored, so callers need not check each call:
//
//     Context context("job.yaml");
//     Reader reader(node, context, "layout");
//     reader.count("tp", layout.tp, 1, 65536);
//     reader.choice("recompute", layout.recompute, kRecomputeNames);
//     reader.finish();
//     if (context.failed()) return tl::unexpected(context.error());
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/units.hpp"
#include "spec/node.hpp"

namespace twinpod::spec {

struct Context {
  explicit Context(std::string file_name) : file(std::move(file_name)) {}

  std::string file;
  std::optional<Error> first_error;

  const std::string& file_of(const Node& node) const { return node.file == nullptr ? file : *node.file; }
  bool failed() const { return first_error.has_value(); }
  const Error& error() const { return *first_error; }

  // Keeps the first refusal only. The place is the node's own, or with refuse_key that of its key.
  void refuse(const Node& at, std::string message, std::string hint = "");
  void refuse_key(const Node& at, std::string message, std::string hint = "");

  // Keeps the error of something that `at` names; an error that knows its own place keeps it.
  void refuse(const Node& at, Error error);
};

// Refuses a scalar that text() would not take; `key` says what it is.
bool is_text(const Node& node, std::string_view key, Context& context);

inline constexpr std::size_t kLongestText = 4096;  // as long as a path may be

// What stands at a node, for messages: "nothing", "a list", "`8x`".
std::string description(const Node& node);

// "did you mean `tp`?", or all the names when none is near and they are few; empty when there is nothing to say.
std::string suggestion(std::string_view name, const std::vector<std::string>& known);

template <typename E>
using Names = std::span<const std::pair<std::string_view, E>>;

class Reader {
 public:
  // `what` names the mapping in messages. A null node reads as a mapping without keys.
  Reader(const Node& node, Context& context, std::string what);

  // The node of a key, for callers that read it themselves; nullptr if it is absent. Marks the key as known.
  const Node* take(std::string_view key);
  const Node* mapping(std::string_view key);  // the same, and refuses what is not a mapping
  bool has(std::string_view key) const { return node_.find(key) != nullptr; }
  void require(std::string_view key);  // refuses when the key is absent

  // The key's node if it is there, else the mapping: where an error about the key belongs.
  const Node& place(std::string_view key) const;

  // Each leaves `value` as it is when the key is absent.
  // One line without control characters, of kLongestText bytes at most: names end up in tables, scripts and comments.
  void text(std::string_view key, std::string& value);
  void prose(std::string_view key, std::string& value);  // of any length; may have line breaks
  void texts(std::string_view key, std::vector<std::string>& values);
  void flag(std::string_view key, bool& value);
  void count(std::string_view key, int& value, int low, int high);
  void quantity(std::string_view key, double& value, Quantity quantity, double low, double high);
  template <typename E>
  void choice(std::string_view key, E& value, std::type_identity_t<Names<E>> names);

  // Lists replace what was there; an empty list and a value that stands twice are refused.
  void counts(std::string_view key, std::vector<int>& values, int low, int high);
  template <typename E>
  void choices(std::string_view key, std::vector<E>& values, std::type_identity_t<Names<E>> names);

  void finish();

 private:
  const Node* scalar(std::string_view key, std::string_view expected);
  const Node* list(std::string_view key, std::string_view expected);
  int choice_index(std::string_view key, const std::vector<std::string>& names);
  std::vector<int> choice_indices(std::string_view key, const std::vector<std::string>& names);

  const Node& node_;
  Context& context_;
  std::string what_;
  std::vector<std::string> known_;
};

// The number that a scalar spells with decimal digits and nothing else; empty for everything else.
std::optional<int> whole_number(const Node& node);

template <typename E>
std::vector<std::string> texts_of(Names<E> names) {
  std::vector<std::string> texts;
  texts.reserve(names.size());
  for (const auto& [text, unused] : names) texts.emplace_back(text);
  return texts;
}

template <typename E>
void Reader::choice(std::string_view key, E& value, std::type_identity_t<Names<E>> names) {
  const int index = choice_index(key, texts_of(names));
  if (index >= 0) value = names[static_cast<std::size_t>(index)].second;
}

template <typename E>
void Reader::choices(std::string_view key, std::vector<E>& values, std::type_identity_t<Names<E>> names) {
  const std::vector<int> indices = choice_indices(key, texts_of(names));
  if (indices.empty()) return;
  values.clear();
  for (const int index : indices) values.push_back(names[static_cast<std::size_t>(index)].second);
}

}  // namespace twinpod::spec
