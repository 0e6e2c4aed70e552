#include "spec/node.hpp"

#include <yaml.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "core/files.hpp"

namespace twinpod::spec {
namespace {

struct Place {
  int line = 1;
  int column = 1;
};

Place place_of(const yaml_mark_t& mark) { return {static_cast<int>(mark.line) + 1, static_cast<int>(mark.column) + 1}; }

// libyaml knows only the offset of bytes that are no text.
Place place_at(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return {static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
          static_cast<int>(before.size() - line_start) + 1};
}

tl::unexpected<Error> refusal(const std::string& file, Place place, std::string message, std::string hint = "") {
  return tl::unexpected<Error>(
      Error{ErrorKind::input, std::move(message), std::move(hint), file, place.line, place.column});
}

// The stream of libyaml's events; holds one at a time.
class Events {
 public:
  explicit Events(std::string_view text) : text_(text) {
    ready_ = yaml_parser_initialize(&parser_) != 0;
    if (!ready_) return;
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  ~Events() {
    drop();
    if (ready_) yaml_parser_delete(&parser_);
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  bool advance() {
    drop();
    held_ = ready_ && yaml_parser_parse(&parser_, &event_) != 0;
    return held_;
  }
  const yaml_event_t& event() const { return event_; }
  Place place() const { return place_of(event_.start_mark); }

  // Why advance() returned false.
  tl::unexpected<Error> syntax_error(const std::string& file) const {
    if (!ready_ || parser_.error == YAML_MEMORY_ERROR) return refusal(file, {}, "not enough memory to read this file");
    if (parser_.error == YAML_READER_ERROR) {
      return refusal(file, place_at(text_, parser_.problem_offset), "not readable as text: " + problem(),
                     "save as UTF-8");
    }
    const Place place = place_of(parser_.problem_mark);
    if (is_indented_by_tab(place.line)) return refusal(file, place, "a tab cannot indent", "use spaces");
    return refusal(file, place, "not valid YAML: " + problem());
  }

 private:
  void drop() {
    if (held_) yaml_event_delete(&event_);
    held_ = false;
  }

  bool is_indented_by_tab(int line) const {
    if (parser_.problem == nullptr ||
        std::string_view(parser_.problem).find("cannot start") == std::string_view::npos) {
      return false;
    }
    std::size_t start = 0;
    for (int i = 1; i < line; ++i) start = text_.find('\n', start) + 1;
    const std::string_view rest = text_.substr(start);
    return rest.substr(0, rest.find_first_not_of(" \t")).find('\t') != std::string_view::npos;
  }

  std::string problem() const {
    std::string text = parser_.problem == nullptr ? "unknown problem" : parser_.problem;
    if (parser_.context != nullptr) text += std::string(" ") + parser_.context;
    return text;
  }

  std::string_view text_;
  yaml_parser_t parser_{};
  yaml_event_t event_{};
  bool ready_ = false;
  bool held_ = false;
};

bool is_null(std::string_view plain) {
  constexpr std::array<std::string_view, 5> kNulls{"", "~", "null", "Null", "NULL"};
  return std::find(kNulls.begin(), kNulls.end(), plain) != kNulls.end();
}

// The first key that was there before, by index; keys.size(): none.
std::size_t repeated_key(const std::vector<std::string>& keys) {
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
  std::size_t first = keys.size();
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (keys[order[i - 1]] == keys[order[i]]) first = std::min(first, order[i]);
  }
  return first;
}

class TreeBuilder {
 public:
  TreeBuilder(std::string_view text, const std::string& file) : events_(text), file_(file) {}

  Result<Node> document() {
    Node root;
    root.line = root.column = 1;
    if (!next() || !next()) return failure();  // start of the stream, then of the document
    if (events_.event().type == YAML_STREAM_END_EVENT) return root;
    if (!next() || !build(root, 1)) return failure();
    if (!next() || !next()) return failure();  // end of the document, then of the stream
    if (events_.event().type == YAML_STREAM_END_EVENT) return root;
    return refusal(file_, events_.place(), "found a second document; expected one");
  }

 private:
  bool next() {
    if (events_.advance()) return true;
    error_ = events_.syntax_error(file_).value();
    return false;
  }

  bool refuse(std::string message, std::string hint = "") {
    error_ = refusal(file_, events_.place(), std::move(message), std::move(hint)).value();
    return false;
  }

  tl::unexpected<Error> failure() { return tl::unexpected<Error>(std::move(error_)); }

  // Builds the node that the current event starts.
  bool build(Node& node, int depth) {
    const Place place = events_.place();
    node.line = place.line;
    node.column = place.column;
    if (++num_nodes_ > kMaxNodes) return refuse("more than " + std::to_string(kMaxNodes) + " values");
    if (depth > kMaxDepth) return refuse("nested deeper than " + std::to_string(kMaxDepth) + " levels");
    if (!is_plain_data()) return false;
    switch (events_.event().type) {
      case YAML_SCALAR_EVENT:
        return build_scalar(node);
      case YAML_SEQUENCE_START_EVENT:
        return build_sequence(node, depth);
      case YAML_MAPPING_START_EVENT:
        return build_mapping(node, depth);
      default:
        return refuse("found no value");
    }
  }

  bool is_plain_data() {
    const yaml_event_t& event = events_.event();
    const unsigned char* anchor = nullptr;
    const unsigned char* tag = nullptr;
    if (event.type == YAML_ALIAS_EVENT) anchor = event.data.alias.anchor;
    if (event.type == YAML_SCALAR_EVENT) anchor = event.data.scalar.anchor, tag = event.data.scalar.tag;
    if (event.type == YAML_SEQUENCE_START_EVENT) {
      anchor = event.data.sequence_start.anchor, tag = event.data.sequence_start.tag;
    }
    if (event.type == YAML_MAPPING_START_EVENT) {
      anchor = event.data.mapping_start.anchor, tag = event.data.mapping_start.tag;
    }
    if (anchor != nullptr) return refuse("found an anchor or alias; expected a value", "write the value out");
    if (tag != nullptr) return refuse("found a tag; expected a value", "leave the tag out");
    return true;
  }

  bool build_scalar(Node& node) {
    const auto& data = events_.event().data.scalar;
    node.scalar.assign(reinterpret_cast<const char*>(data.value), data.length);
    node.quoted = data.style != YAML_PLAIN_SCALAR_STYLE;
    node.kind = !node.quoted && is_null(node.scalar) ? Node::Kind::null : Node::Kind::scalar;
    return true;
  }

  bool build_sequence(Node& node, int depth) {
    node.kind = Node::Kind::sequence;
    while (next()) {
      if (events_.event().type == YAML_SEQUENCE_END_EVENT) return true;
      if (!build(node.items.emplace_back(), depth + 1)) return false;
    }
    return false;
  }

  bool build_mapping(Node& node, int depth) {
    node.kind = Node::Kind::mapping;
    while (next()) {
      if (events_.event().type == YAML_MAPPING_END_EVENT) return has_distinct_keys(node);
      if (!build_entry(node, depth)) return false;
    }
    return false;
  }

  bool build_entry(Node& node, int depth) {
    if (!is_plain_data()) return false;
    if (events_.event().type != YAML_SCALAR_EVENT) return refuse("found a list or mapping as a key; expected a name");
    const auto& data = events_.event().data.scalar;
    node.keys.emplace_back(reinterpret_cast<const char*>(data.value), data.length);
    const Place place = events_.place();
    Node& value = node.items.emplace_back();
    value.key_line = place.line;
    value.key_column = place.column;
    return next() && build(value, depth + 1);
  }

  bool has_distinct_keys(const Node& node) {
    const std::size_t repeated = repeated_key(node.keys);
    if (repeated == node.keys.size()) return true;
    const Node& value = node.items[repeated];
    error_ =
        refusal(file_, {value.key_line, value.key_column}, "the key `" + node.keys[repeated] + "` stands here twice",
                "the first one is in line " + std::to_string(node.find(node.keys[repeated])->key_line))
            .value();
    return false;
  }

  Events events_;
  const std::string& file_;
  std::size_t num_nodes_ = 0;
  Error error_;
};

}  // namespace

const Node* Node::find(std::string_view key) const {
  if (kind != Kind::mapping) return nullptr;
  const auto found = std::find(keys.begin(), keys.end(), key);
  return found == keys.end() ? nullptr : &items[static_cast<std::size_t>(found - keys.begin())];
}

Node* Node::find(std::string_view key) { return const_cast<Node*>(std::as_const(*this).find(key)); }

Result<Node> parse_yaml(std::string_view text, const std::string& file) {
  if (text.size() > kMaxFileBytes) {
    return refusal(file, {}, "larger than " + std::to_string(kMaxFileBytes >> 20) + " MiB");
  }
  return TreeBuilder(text, file).document();
}

Result<Node> parse_yaml_file(const std::string& path) {
  const Result<std::string> text = read_file(path, kMaxFileBytes);
  if (!text) return tl::unexpected(text.error());
  return parse_yaml(*text, path);
}

}  // namespace twinpod::spec
