#include "validate/measured_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "core/files.hpp"
#include "spec/reader.hpp"

namespace twinpod::validate {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::vector<MeasuredCell> cells_of(std::string_view line) {
  std::vector<MeasuredCell> cells;
  for (std::size_t begin = 0;;) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    const std::string_view raw = line.substr(begin, end - begin);
    const std::size_t lead = raw.find_first_not_of(" \t\r");
    cells.push_back({std::string(trimmed(raw)), static_cast<int>(begin + (lead == std::string::npos ? 0 : lead)) + 1});
    if (end == line.size()) return cells;
    begin = end + 1;
  }
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

Error error_at(const std::string& file, int line, int column, std::string message, std::string hint = "") {
  return Error{ErrorKind::input, std::move(message), std::move(hint), file, line, column};
}

// For each wanted name, its index in the header; -1: an optional one that is not there.
Result<std::vector<int>> columns_of(const std::string& file, const MeasuredRow& header,
                                    const std::vector<std::string>& required,
                                    const std::vector<std::string>& optional) {
  std::vector<int> indices;
  std::vector<std::string> found;
  for (const MeasuredCell& cell : header.cells) found.push_back(cell.text);
  for (std::size_t i = 0; i < required.size() + optional.size(); ++i) {
    const bool must = i < required.size();
    const std::string& name = must ? required[i] : optional[i - required.size()];
    const auto place = std::find(found.begin(), found.end(), name);
    if (place == found.end() && must) {
      return tl::unexpected(error_at(file, header.line, 1,
                                     fmt::format("no column `{}`; expected {}", name, joined(required)),
                                     spec::suggestion(name, found)));
    }
    indices.push_back(place == found.end() ? -1 : static_cast<int>(place - found.begin()));
  }
  return indices;
}

Result<std::vector<MeasuredRow>> lines_of(const std::string& path) {
  const Result<std::string> all = read_file(path, kMostTextBytes, "a table of measurements");
  if (!all) return tl::unexpected(all.error());
  std::istringstream file(*all);
  std::vector<MeasuredRow> rows;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string_view text = trimmed(line);
    if (text.empty() || text.front() == '#') continue;
    rows.push_back({number, cells_of(line)});
  }
  return rows;
}

}  // namespace

Result<MeasuredTable> read_measured_table(const std::string& path, const std::vector<std::string>& required,
                                          const std::vector<std::string>& optional) {
  const Result<std::vector<MeasuredRow>> lines = lines_of(path);
  if (!lines) return tl::unexpected(lines.error());
  if (lines->size() < 2) {
    return tl::unexpected(error_at(
        path, 1, 1, fmt::format("the table has no rows; expected a line `{}` and rows below", joined(required))));
  }
  const MeasuredRow& header = lines->front();
  const Result<std::vector<int>> columns = columns_of(path, header, required, optional);
  if (!columns) return tl::unexpected(columns.error());
  MeasuredTable table{path, {}};
  for (std::size_t i = 1; i < lines->size(); ++i) {
    const MeasuredRow& line = (*lines)[i];
    if (line.cells.size() != header.cells.size()) {
      return tl::unexpected(error_at(path, line.line, line.cells.back().column,
                                     fmt::format("the row has {} cells; expected {}, as many as columns",
                                                 line.cells.size(), header.cells.size())));
    }
    MeasuredRow row{line.line, {}};
    for (const int column : *columns) {
      row.cells.push_back(column < 0 ? MeasuredCell{} : line.cells[static_cast<std::size_t>(column)]);
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

tl::unexpected<Error> refuse_cell(const MeasuredTable& table, const MeasuredRow& row, const MeasuredCell& cell,
                                  std::string message, std::string hint) {
  return tl::unexpected(error_at(table.file, row.line, std::max(1, cell.column), std::move(message), std::move(hint)));
}

Result<double> number_of(const MeasuredTable& table, const MeasuredRow& row, const MeasuredCell& cell,
                         std::string_view name, double low, double high) {
  double value = 0;
  const char* end = cell.text.data() + cell.text.size();
  const auto [stopped, failure] = std::from_chars(cell.text.data(), end, value);
  if (failure != std::errc() || stopped != end || !std::isfinite(value) || value < low || value > high) {
    return refuse_cell(table, row, cell,
                       fmt::format("{} is `{}`; expected a number from {:g} to {:g}", name, cell.text, low, high));
  }
  return value;
}

Result<int> whole_number_of(const MeasuredTable& table, const MeasuredRow& row, const MeasuredCell& cell,
                            std::string_view name, int low, int high) {
  int value = 0;
  const char* end = cell.text.data() + cell.text.size();
  const auto [stopped, failure] = std::from_chars(cell.text.data(), end, value);
  if (failure != std::errc() || stopped != end || value < low || value > high) {
    return refuse_cell(table, row, cell,
                       fmt::format("{} is `{}`; expected a whole number from {} to {}", name, cell.text, low, high));
  }
  return value;
}

ErrorSummary summary_of(std::vector<double> errors) {
  if (errors.empty()) return {};
  std::sort(errors.begin(), errors.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(errors.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, errors.size() - 1);
    return errors[below] + (place - static_cast<double>(below)) * (errors[above] - errors[below]);
  };
  return {static_cast<int>(errors.size()), at(0.5), at(0.9)};
}

}  // namespace twinpod::validate
