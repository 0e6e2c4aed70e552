#include "core/table.hpp"

#include <algorithm>
#include <utility>

#include "core/quote.hpp"

namespace twinpod {
namespace {

std::string spaces(int count) { return std::string(static_cast<std::size_t>(std::max(0, count)), ' '); }

std::string padded(const std::string& text, int width, Align align) {
  const std::string padding = spaces(width - display_width(text));
  return align == Align::left ? text + padding : padding + text;
}

void trim_right(std::string& text) { text.erase(text.find_last_not_of(' ') + 1); }

}  // namespace

int display_width(std::string_view text) {
  const auto starts_code_point = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; };
  return static_cast<int>(std::count_if(text.begin(), text.end(), starts_code_point));
}

Table::Table(std::vector<Column> columns, TableStyle style) : columns_(std::move(columns)), style_(style) {
  std::vector<std::string> headers;
  for (const Column& column : columns_) headers.push_back(column.header);
  const bool all_empty = std::all_of(headers.begin(), headers.end(), [](const auto& text) { return text.empty(); });
  if (all_empty) return;
  row(std::move(headers));
  if (style_.header_rule) rule();
}

void Table::row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::string& cell : cells) cell = one_line(cell);
  lines_.push_back(Line{false, std::move(cells)});
}

void Table::rule() { lines_.push_back(Line{true, {}}); }

std::string Table::text() const {
  const std::vector<int> all_widths = widths();
  std::string text;
  for (const Line& line : lines_) append(text, line, all_widths);
  return text;
}

std::vector<int> Table::widths() const {
  std::vector<int> widths(columns_.size());
  for (const Line& line : lines_) {
    for (std::size_t i = 0; i < line.cells.size(); ++i) widths[i] = std::max(widths[i], display_width(line.cells[i]));
  }
  return widths;
}

void Table::append(std::string& text, const Line& line, const std::vector<int>& widths) const {
  std::string printed = spaces(style_.indent);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (i > 0) printed += spaces(style_.gap);
    const std::string dashes(static_cast<std::size_t>(widths[i]), '-');
    printed += line.is_rule ? dashes : padded(line.cells[i], widths[i], columns_[i].align);
  }
  trim_right(printed);
  text += printed + "\n";
}

}  // namespace twinpod
