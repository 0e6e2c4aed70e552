// Text broken between words, for what must not be wider than a terminal.
//
//     wrapped("one two three", {.width = 9, .indent = 2}) == "one two\n  three"
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace twinpod {

// What a terminal has unless somebody made it wider.
inline constexpr std::size_t kTerminalColumns = 80;

struct Wrapping {
  std::size_t width = kTerminalColumns;  // of every line, its indent included
  std::size_t first = 0;                 // columns of the first line that are taken already
  std::size_t indent = 0;                // spaces before every line but the first
  std::string_view line_end = {};        // behind every line but the last: " \\" for a shell
};

// Spaces of the text at which no line ends stay as they are. A word that is wider than a line stays whole.
std::string wrapped(std::string_view text, const Wrapping& wrapping);

}  // namespace twinpod
