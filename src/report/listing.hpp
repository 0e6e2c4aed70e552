// Tables and sheets that print as text or as JSON from the same cells, so that the two never say different things.
//
//     Listing listing{"devices", {{"name", "name"}, {"memory_bytes", "memory", true}}, {}};
//     listing.rows.push_back({text_cell("h100-sxm"), {"80.0 GB", 80e9}});
//     text_of(listing);  json_of(listing);          {"devices": [{"name": "h100-sxm", "memory_bytes": 8e10}]}
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace twinpod::report {

struct Cell {
  std::string text;
  nlohmann::ordered_json value;
};

Cell text_cell(const std::string& text);
Cell count_cell(int value);                                       // empty and null when it is 0
Cell quantity_cell(double value, std::string (*format)(double));  // empty and null when it is 0

struct Field {
  std::string key;  // in the JSON output
  std::string header;
  bool right = false;  // aligned to the right, as numbers are
};

// Many entries, one a line.
struct Listing {
  std::string name;
  std::vector<Field> fields;
  std::vector<std::vector<Cell>> rows;
};

std::string text_of(const Listing& listing);
std::string json_of(const Listing& listing);

// One entry, a figure a line, each with its origin.
struct Figure {
  std::string key;
  std::string label;
  Cell cell;
  std::string origin;
};

struct Sheet {
  std::string title;
  std::vector<Figure> figures;
  std::string source;

  // Leaves out what is not known.
  void add(std::string key, std::string label, Cell cell, std::string_view origin);
};

std::string text_of(const Sheet& sheet);
std::string json_of(const Sheet& sheet);

}  // namespace twinpod::report
