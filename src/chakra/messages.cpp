#include "chakra/messages.hpp"

#include <fmt/format.h>

#include <cstdint>

namespace twinpod::chakra {
namespace {

constexpr int kMaxVarintBytes = 5;  // of a length of 32 bits

// -1: no varint here.
std::int64_t take_varint(std::string_view text, std::size_t& at) {
  std::uint64_t value = 0;
  for (int i = 0; i < kMaxVarintBytes && at < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[at++]);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) return static_cast<std::int64_t>(value);
  }
  return -1;
}

}  // namespace

tl::unexpected<Error> file_error(const std::string& file, std::string message, std::string hint) {
  return tl::unexpected<Error>(Error{ErrorKind::input, std::move(message), std::move(hint), file, 0, 0});
}

Result<std::vector<std::string_view>> split_messages(std::string_view text, const std::string& file) {
  if (text.starts_with("\x1f\x8b")) return file_error(file, "is compressed", "gunzip it first");
  std::vector<std::string_view> messages;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t begin = at;
    const std::int64_t length = take_varint(text, at);
    if (length < 0 || static_cast<std::uint64_t>(length) > text.size() - at) {
      return file_error(file,
                        fmt::format("message {} at byte {}: its length goes beyond the end of the file ({} bytes)",
                                    messages.size(), begin, text.size()),
                        "a Chakra execution trace is a row of protobuf messages with their lengths as varints");
    }
    messages.push_back(text.substr(at, static_cast<std::size_t>(length)));
    at += static_cast<std::size_t>(length);
  }
  return messages;
}

void append_message(std::string& text, std::string_view message) {
  for (std::size_t rest = message.size();; rest >>= 7) {
    if (rest < 0x80) {
      text += static_cast<char>(rest);
      break;
    }
    text += static_cast<char>((rest & 0x7f) | 0x80);
  }
  text += message;
}

}  // namespace twinpod::chakra
