#include "data/tokenizer.hpp"

#include <fmt/format.h>

#include "core/nearest.hpp"

namespace twinpod::data {

Result<Tokenizer> tokenizer_called(std::string_view name) {
  if (name == "bytes") return Tokenizer::bytes;
  const std::string nearest = nearest_name(name, {"bytes"});
  return input_error(fmt::format("there is no tokenizer `{}`, expected `bytes`", name),
                     nearest.empty() ? "" : fmt::format("did you mean `{}`?", nearest));
}

std::string_view name_of(Tokenizer tokenizer) { return tokenizer == Tokenizer::bytes ? "bytes" : ""; }

void append_bytes(std::string_view text, std::vector<std::int32_t>& tokens) {
  tokens.reserve(tokens.size() + text.size());
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
}

std::string text_of(std::span<const std::int64_t> tokens) {
  std::string text;
  for (const std::int64_t token : tokens) {
    if (token == kEndOfDocument) break;
    if (token >= 0 && token < kEndOfDocument) {
      text += static_cast<char>(token);
    } else {
      text += fmt::format("<{}>", token);
    }
  }
  return text;
}

}  // namespace twinpod::data
