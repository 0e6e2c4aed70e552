#include "core/wrap.hpp"

#include "core/table.hpp"

namespace twinpod {
namespace {

// Where the line that starts here ends: at its last space that leaves it narrow enough, else at its first.
std::size_t end_of_line(std::string_view text, std::size_t columns) {
  std::size_t end = std::string_view::npos;
  for (std::size_t space = text.find(' '); space != std::string_view::npos; space = text.find(' ', space + 1)) {
    const bool fits = static_cast<std::size_t>(display_width(text.substr(0, space))) <= columns;
    if (fits || end == std::string_view::npos) end = space;
    if (!fits) break;
  }
  return end;
}

}  // namespace

std::string wrapped(std::string_view text, const Wrapping& wrapping) {
  std::string lines;
  std::size_t taken = wrapping.first;
  while (true) {
    const std::size_t columns = wrapping.width > taken ? wrapping.width - taken : 0;
    if (static_cast<std::size_t>(display_width(text)) <= columns) break;
    const std::size_t last = wrapping.line_end.size();
    const std::size_t end = end_of_line(text, columns > last ? columns - last : 0);
    if (end == std::string_view::npos) break;
    lines += text.substr(0, end);
    lines += wrapping.line_end;
    lines += "\n" + std::string(wrapping.indent, ' ');
    text.remove_prefix(end);
    while (text.starts_with(' ')) text.remove_prefix(1);
    taken = wrapping.indent;
  }
  return lines += text;
}

}  // namespace twinpod
