#include "report/listing.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/table.hpp"
#include "report/json_parts.hpp"

namespace twinpod::report {

Cell text_cell(const std::string& text) { return {text, text.empty() ? Json(nullptr) : Json(text)}; }

Cell count_cell(int value) { return value == 0 ? Cell{} : Cell{fmt::format("{}", value), value}; }

Cell quantity_cell(double value, std::string (*format)(double)) {
  return value == 0 ? Cell{} : Cell{format(value), value};
}

std::string text_of(const Listing& listing) {
  std::vector<Column> columns;
  for (const Field& field : listing.fields) columns.push_back({field.header, field.right ? Align::right : Align::left});
  Table table(columns);
  for (const std::vector<Cell>& row : listing.rows) {
    std::vector<std::string> cells;
    for (const Cell& cell : row) cells.push_back(cell.text);
    table.row(std::move(cells));
  }
  return table.text();
}

std::string json_of(const Listing& listing) {
  Json entries = Json::array();
  for (const std::vector<Cell>& row : listing.rows) {
    Json entry = Json::object();
    for (std::size_t i = 0; i < row.size(); ++i) entry[listing.fields[i].key] = row[i].value;
    entries.push_back(std::move(entry));
  }
  return printed({{listing.name, std::move(entries)}});
}

void Sheet::add(std::string key, std::string label, Cell cell, std::string_view origin) {
  if (cell.text.empty()) return;
  figures.push_back({std::move(key), std::move(label), std::move(cell), std::string(origin)});
}

std::string text_of(const Sheet& sheet) {
  Table table({{"figure"}, {"value", Align::right}, {"origin"}}, {.indent = 2});
  for (const Figure& figure : sheet.figures) table.row({figure.label, figure.cell.text, figure.origin});
  std::string text = sheet.title + "\n\n" + table.text();
  if (!sheet.source.empty()) text += "\nsource: " + sheet.source + "\n";
  return text;
}

std::string json_of(const Sheet& sheet) {
  Json figures = Json::object();
  Json origins = Json::object();
  for (const Figure& figure : sheet.figures) {
    figures[figure.key] = figure.cell.value;
    if (!figure.origin.empty()) origins[figure.key] = figure.origin;
  }
  Json json = {{"title", sheet.title}};
  json.update(figures);
  json["origins"] = std::move(origins);
  json["source"] = sheet.source.empty() ? Json(nullptr) : Json(sheet.source);
  return printed(json);
}

}  // namespace twinpod::report
