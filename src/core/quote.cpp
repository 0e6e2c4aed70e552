#include "core/quote.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace twinpod {
namespace {

constexpr std::uint32_t kInvalid = 0xffffffff;  // a byte that begins no character

struct Character {
  std::uint32_t code = kInvalid;
  std::size_t bytes = 1;
};

unsigned byte_at(std::string_view text, std::size_t i) { return static_cast<unsigned char>(text[i]); }

// Strictly: neither overlong forms nor halves of a pair.
Character character_at(std::string_view text, std::size_t i) {
  const unsigned first = byte_at(text, i);
  if (first < 0x80) return {first, 1};
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || i + bytes > text.size()) return {};
  std::uint32_t code = first & (0xffU >> (bytes + 1));
  for (std::size_t k = 1; k < bytes; ++k) {
    const unsigned next = byte_at(text, i + k);
    if ((next & 0xc0U) != 0x80U) return {};
    code = (code << 6) | (next & 0x3fU);
  }
  const bool overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  if (overlong || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, bytes};
}

bool is_between(std::uint32_t code, std::uint32_t low, std::uint32_t high) { return code >= low && code <= high; }

// What a terminal would obey or an editor would take for a line break, and what makes a text look like another one.
bool is_hidden(std::uint32_t code) {
  return code < 0x20 || is_between(code, 0x7f, 0x9f) || code == 0x61c || code == 0x200e || code == 0x200f ||
         is_between(code, 0x2028, 0x202e) || is_between(code, 0x2066, 0x2069) || code == 0xfeff ||
         is_between(code, 0xfff9, 0xfffb) || code == 0xfffe || code == 0xffff;
}

std::string escape_of(std::uint32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\t') return "\\t";
  if (code == '\r') return "\\r";
  return fmt::format("\\u{:04x}", code);
}

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// Each character of `text`; those that no terminal may get as escapes, the others as `plain(code, bytes of it)` has it.
template <typename Plain>
std::string rewritten(std::string_view text, const Plain& plain) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const Character c = character_at(text, i);
    if (c.code == kInvalid) {
      result += kReplacement;
    } else if (is_hidden(c.code)) {
      result += escape_of(c.code);
    } else {
      plain(result, c.code, text.substr(i, c.bytes));
    }
    i += c.bytes;
  }
  return result;
}

void as_it_is(std::string& result, std::uint32_t, std::string_view bytes) { result += bytes; }

// The length of what only changes the colour, at an ESC; 0: something else.
std::size_t colour_at(std::string_view text, std::size_t i) {
  if (!text.substr(i).starts_with("\x1b[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", i + 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 - i : 0;
}

// The length of what printable() leaves at `i`, although it is hidden; 0: nothing.
std::size_t layout_at(std::string_view text, std::size_t i, Colours colours) {
  if (text[i] == '\n' || text[i] == '\t') return 1;
  if (text[i] == '\r') return text.substr(i + 1).starts_with('\n') ? 2 : 0;
  return colours == Colours::kept ? colour_at(text, i) : 0;
}

bool is_plain_for_shell(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,:/=+@%";
  return !text.empty() && text.front() != '=' && text.find_first_not_of(kPlain) == std::string_view::npos;
}

// The last one among so many bytes.
std::size_t end_of_a_character(std::string_view text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return text.size();
  std::size_t end = most_bytes;
  while (end > 0 && (byte_at(text, end) & 0xc0U) == 0x80U) --end;
  return end;
}

// $'...': bytes that are hidden or no text by their numbers.
std::string ansi_quoted(std::string_view text) {
  std::string quoted = "$'";
  for (std::size_t i = 0; i < text.size();) {
    const Character c = character_at(text, i);
    const std::string_view bytes = text.substr(i, c.bytes);
    i += c.bytes;
    if (c.code == kInvalid || is_hidden(c.code)) {
      for (const char byte : bytes) quoted += fmt::format("\\{:03o}", static_cast<unsigned char>(byte));
    } else {
      if (c.code == '\'' || c.code == '\\') quoted += '\\';
      quoted += bytes;
    }
  }
  return quoted + "'";
}

}  // namespace

std::string printable(std::string_view text, Colours colours) {
  std::string result;
  std::size_t from = 0;  // of what no rule but rewritten() is for
  for (std::size_t i = 0; i < text.size();) {
    const bool ordinary = byte_at(text, i) >= 0x20;
    const std::size_t kept = ordinary ? 0 : layout_at(text, i, colours);
    if (kept > 0) {
      result += rewritten(text.substr(from, i - from), as_it_is);
      result += text.substr(i, kept);
      from = i + kept;
    }
    i += std::max<std::size_t>(1, kept);
  }
  return result + rewritten(text.substr(from), as_it_is);
}

std::string one_line(std::string_view text) { return rewritten(text, as_it_is); }

std::string shortened(std::string_view text, std::size_t most_bytes) {
  const std::size_t end = end_of_a_character(text, most_bytes);
  const std::string line = one_line(text.substr(0, end));
  if (end == text.size() && line.size() <= most_bytes) return line;
  return line.substr(0, end_of_a_character(line, most_bytes)) + "...";
}

bool is_one_line(std::string_view text) { return one_line(text) == text; }

std::string shell_quoted(std::string_view text) {
  if (is_plain_for_shell(text)) return std::string(text);
  if (!is_one_line(text)) return ansi_quoted(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string double_quoted(std::string_view text) {
  return '"' +
         rewritten(text,
                   [](std::string& result, std::uint32_t code, std::string_view bytes) {
                     if (code == '"' || code == '\\') result += '\\';
                     result += bytes;
                   }) +
         '"';
}

std::string yaml_word(std::string_view text) {
  constexpr std::array<std::string_view, 9> kNotText = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"};
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
  const bool plain = !text.empty() && lower.front() >= 'a' && lower.front() <= 'z' &&
                     lower.find_first_not_of(kPlain) == std::string::npos &&
                     std::find(kNotText.begin(), kNotText.end(), lower) == kNotText.end();
  return plain ? std::string(text) : double_quoted(text);
}

std::string xml_escaped(std::string_view text) {
  return rewritten(text, [](std::string& result, std::uint32_t code, std::string_view bytes) {
    switch (code) {
      case '&':
        result += "&amp;";
        return;
      case '<':
        result += "&lt;";
        return;
      case '>':
        result += "&gt;";
        return;
      case '"':
        result += "&quot;";
        return;
      case '\'':
        result += "&#39;";
        return;
      default:
        result += bytes;
    }
  });
}

}  // namespace twinpod
