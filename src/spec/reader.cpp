#include "spec/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "core/nearest.hpp"
#include "core/quote.hpp"

namespace twinpod::spec {
namespace {

constexpr std::size_t kLongestQuote = 60;  // bytes of the user's text that a message repeats
constexpr std::size_t kMostNamesListed = 12;

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(name, known);
  return nearest.empty() ? "" : "did you mean `" + nearest + "`?";
}

struct Elsewhere {
  std::string_view names;  // with a blank on either side
  std::string_view path;
};

// Shape and batch, by the names that they have in other programs, and in the wrong mapping: edit distance finds
// neither.
constexpr std::array kElsewhere = {
    Elsewhere{" layers n_layer n_layers num_layers num_hidden_layers depth ", "model.layers"},
    Elsewhere{" hidden hidden_size n_embd d_model dim width embedding_size ", "model.hidden"},
    Elsewhere{" ffn ffn_hidden_size intermediate_size n_inner d_ff ", "model.ffn"},
    Elsewhere{" vocab vocab_size vocabulary ", "model.vocab"},
    Elsewhere{" heads n_head n_heads num_heads num_attention_heads ", "model.attention.heads"},
    Elsewhere{" kv_heads n_kv_heads num_key_value_heads num_kv_heads num_query_groups ", "model.attention.kv_heads"},
    Elsewhere{" head_dim ", "model.attention.head_dim"},
    Elsewhere{" micro_batch micro_batch_size ", "layout.micro_batch"},
    Elsewhere{" tp tensor_parallel ", "layout.tp"},
    Elsewhere{" pp pipeline_parallel ", "layout.pp"},
    Elsewhere{" dp data_parallel ", "layout.dp"},
    Elsewhere{" zero ", "layout.zero"},
    Elsewhere{" global_batch batch batch_size global_batch_size ", "training.global_batch"},
    Elsewhere{" sequence seq seq_len seq_length sequence_length block_size context_length ", "training.sequence"},
    Elsewhere{" steps max_steps iterations train_iters ", "training.steps"},
    Elsewhere{" learning_rate lr ", "training.learning_rate"},
    Elsewhere{" precision dtype ", "training.precision"},
    Elsewhere{" seed ", "training.seed"},
};

// The path below `what`, and from the job on where that is another mapping: `attention.heads`, `layout.micro_batch`.
std::string meant_elsewhere(std::string_view what, std::string_view name) {
  const bool of_job = what == "the job" || what == "model" || what == "training" || what == "layout";
  if (!of_job) return "";
  for (const Elsewhere& one : kElsewhere) {
    if (one.names.find(fmt::format(" {} ", name)) == std::string_view::npos) continue;
    const bool below = one.path.starts_with(what) && one.path[what.size()] == '.';
    return fmt::format("did you mean `{}`?", below ? one.path.substr(what.size() + 1) : one.path);
  }
  return "";
}

// Hand-made nodes have no place; the first line is the best that can be said of them.
int at_least_one(int place) { return std::max(1, place); }

}  // namespace

void Context::refuse(const Node& at, std::string message, std::string hint) {
  refuse(at, Error{ErrorKind::input, std::move(message), std::move(hint), "", 0, 0});
}

void Context::refuse_key(const Node& at, std::string message, std::string hint) {
  if (at.key_line == 0) return refuse(at, std::move(message), std::move(hint));
  refuse(at, Error{ErrorKind::input, std::move(message), std::move(hint), file_of(at), at.key_line, at.key_column});
}

void Context::refuse(const Node& at, Error error) {
  if (failed()) return;
  if (error.file.empty()) {
    error.file = file_of(at);
    error.line = at_least_one(at.line);
    error.column = at_least_one(at.column);
  }
  first_error = std::move(error);
}

bool is_text(const Node& node, std::string_view key, Context& context) {
  if (node.scalar.size() > kLongestText) {
    context.refuse(node,
                   fmt::format("{} is {}; expected a text of at most {} bytes", key, description(node), kLongestText));
    return false;
  }
  if (is_one_line(node.scalar)) return true;
  context.refuse(node, fmt::format("{} is {}; expected one line without control characters", key, description(node)));
  return false;
}

std::string description(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return "nothing";
    case Node::Kind::sequence:
      return "a list";
    case Node::Kind::mapping:
      return "a mapping";
    case Node::Kind::scalar:
      return fmt::format("{}`{}`", node.quoted ? "the text " : "", shortened(node.scalar, kLongestQuote));
  }
  return "";
}

std::string suggestion(std::string_view name, const std::vector<std::string>& known) {
  const std::string nearest = did_you_mean(name, known);
  if (!nearest.empty()) return nearest;
  return known.empty() || known.size() > kMostNamesListed ? "" : "known: " + joined(known);
}

std::optional<int> whole_number(const Node& node) {
  const std::string& text = node.scalar;
  const bool is_number = node.kind == Node::Kind::scalar && !node.quoted;
  if (!is_number || (text.size() > 1 && text.starts_with('0')) || text.starts_with("-0")) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Reader::Reader(const Node& node, Context& context, std::string what)
    : node_(node), context_(context), what_(std::move(what)) {
  if (node.kind == Node::Kind::mapping || node.kind == Node::Kind::null) return;
  context_.refuse(node, fmt::format("{} is {}; expected a mapping", what_, description(node)));
}

const Node* Reader::take(std::string_view key) {
  known_.emplace_back(key);
  return context_.failed() ? nullptr : node_.find(key);
}

const Node* Reader::mapping(std::string_view key) {
  const Node* node = take(key);
  if (node == nullptr || node->kind == Node::Kind::mapping || node->kind == Node::Kind::null) return node;
  context_.refuse(*node, fmt::format("{} is {}; expected a mapping", key, description(*node)));
  return nullptr;
}

void Reader::require(std::string_view key) {
  if (context_.failed() || has(key)) return;
  context_.refuse(node_, fmt::format("{} has no `{}`, which it needs", what_, key));
}

const Node& Reader::place(std::string_view key) const {
  const Node* node = node_.find(key);
  return node == nullptr ? node_ : *node;
}

const Node* Reader::scalar(std::string_view key, std::string_view expected) {
  const Node* node = take(key);
  if (node == nullptr || node->kind == Node::Kind::scalar) return node;
  context_.refuse(*node, fmt::format("{} is {}; expected {}", key, description(*node), expected));
  return nullptr;
}

void Reader::text(std::string_view key, std::string& value) {
  const Node* node = scalar(key, "text");
  if (node != nullptr && is_text(*node, key, context_)) value = node->scalar;
}

void Reader::prose(std::string_view key, std::string& value) {
  const Node* node = scalar(key, "text");
  if (node == nullptr) return;
  if (printable(node->scalar) == node->scalar) {
    value = node->scalar;
  } else {
    context_.refuse(*node, fmt::format("{} is {}; expected text without control characters", key, description(*node)));
  }
}

void Reader::texts(std::string_view key, std::vector<std::string>& values) {
  const Node* node = take(key);
  if (node == nullptr) return;
  if (node->kind != Node::Kind::sequence) {
    context_.refuse(*node, fmt::format("{} is {}; expected a list of texts", key, description(*node)));
    return;
  }
  values.clear();
  for (const Node& item : node->items) {
    if (item.kind != Node::Kind::scalar) {
      context_.refuse(item, fmt::format("{} holds {}; expected texts only", key, description(item)));
      return;
    }
    if (!is_text(item, key, context_)) return;
    values.push_back(item.scalar);
  }
}

void Reader::flag(std::string_view key, bool& value) {
  const Node* node = scalar(key, "true or false");
  if (node == nullptr) return;
  if (!node->quoted && (node->scalar == "true" || node->scalar == "false")) {
    value = node->scalar == "true";
    return;
  }
  context_.refuse(*node, fmt::format("{} is {}; expected true or false", key, description(*node)));
}

void Reader::count(std::string_view key, int& value, int low, int high) {
  const std::string expected = fmt::format("a whole number from {} to {}", low, high);
  const Node* node = scalar(key, expected);
  if (node == nullptr) return;
  const std::optional<int> number = whole_number(*node);
  if (number && *number >= low && *number <= high) {
    value = *number;
    return;
  }
  context_.refuse(*node, fmt::format("{} is {}; expected {}", key, description(*node), expected));
}

void Reader::quantity(std::string_view key, double& value, Quantity quantity, double low, double high) {
  const std::string expected = fmt::format("{} from {:g} to {:g}", base_unit(quantity), low, high);
  const Node* node = scalar(key, expected);
  if (node == nullptr) return;
  const Result<double> number = parse_quantity(node->scalar, quantity);
  if (!number) {
    context_.refuse(*node, fmt::format("{}: {}", key, number.error().message), number.error().hint);
  } else if (*number < low || *number > high) {
    context_.refuse(*node, fmt::format("{} is {}; expected {}", key, description(*node), expected));
  } else {
    value = *number;
  }
}

int Reader::choice_index(std::string_view key, const std::vector<std::string>& names) {
  const Node* node = scalar(key, "one of " + joined(names));
  if (node == nullptr) return -1;
  const auto found = std::find(names.begin(), names.end(), node->scalar);
  if (found != names.end()) return static_cast<int>(found - names.begin());
  context_.refuse(*node, fmt::format("{} is {}; expected one of {}", key, description(*node), joined(names)),
                  did_you_mean(node->scalar, names));
  return -1;
}

const Node* Reader::list(std::string_view key, std::string_view expected) {
  const Node* node = take(key);
  if (node == nullptr) return nullptr;
  if (node->kind == Node::Kind::sequence && !node->items.empty()) return node;
  const std::string found = node->kind == Node::Kind::sequence ? "an empty list" : description(*node);
  context_.refuse(*node, fmt::format("{} is {}; expected a list of {}", key, found, expected));
  return nullptr;
}

void Reader::counts(std::string_view key, std::vector<int>& values, int low, int high) {
  const std::string expected = fmt::format("whole numbers from {} to {}", low, high);
  const Node* node = list(key, expected);
  if (node == nullptr) return;
  std::vector<int> numbers;
  for (const Node& item : node->items) {
    const std::optional<int> number = whole_number(item);
    if (!number || *number < low || *number > high)
      return context_.refuse(item, fmt::format("{} holds {}; expected {}", key, description(item), expected));
    if (std::find(numbers.begin(), numbers.end(), *number) != numbers.end())
      return context_.refuse(item, fmt::format("{} holds {} twice", key, description(item)));
    numbers.push_back(*number);
  }
  values = std::move(numbers);
}

std::vector<int> Reader::choice_indices(std::string_view key, const std::vector<std::string>& names) {
  const Node* node = list(key, "some of " + joined(names));
  if (node == nullptr) return {};
  std::vector<int> indices;
  for (const Node& item : node->items) {
    const bool is_text = item.kind == Node::Kind::scalar;
    const auto found = is_text ? std::find(names.begin(), names.end(), item.scalar) : names.end();
    const auto index = static_cast<int>(found - names.begin());
    if (found == names.end()) {
      context_.refuse(item, fmt::format("{} holds {}; expected some of {}", key, description(item), joined(names)),
                      is_text ? did_you_mean(item.scalar, names) : "");
      return {};
    }
    if (std::find(indices.begin(), indices.end(), index) != indices.end()) {
      context_.refuse(item, fmt::format("{} holds {} twice", key, description(item)));
      return {};
    }
    indices.push_back(index);
  }
  return indices;
}

void Reader::finish() {
  if (context_.failed() || node_.kind != Node::Kind::mapping) return;
  for (std::size_t i = 0; i < node_.keys.size(); ++i) {
    const std::string& key = node_.keys[i];
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const std::string elsewhere = meant_elsewhere(what_, key);
    context_.refuse_key(node_.items[i], fmt::format("{} has no key `{}`", what_, shortened(key, kLongestQuote)),
                        elsewhere.empty() ? suggestion(key, known_) : elsewhere);
    return;
  }
}

}  // namespace twinpod::spec
