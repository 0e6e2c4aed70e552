// A table in plain text, columns aligned, for what the commands print.
//
//     Table table({{"device"}, {"memory", Align::right}});
//     table.row({"h100-sxm", "80.0 GB"});
//     table.rule();
//     table.row({"total", "640 GB"});
//     std::fputs(table.text().c_str(), stdout);
//
//     device     memory
//     --------  -------
//     h100-sxm  80.0 GB
//     --------  -------
//     total      640 GB
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twinpod {

enum class Align { left, right };

struct Column {
  std::string header;
  Align align = Align::left;
};

struct TableStyle {
  int indent = 0;           // spaces before each line
  int gap = 2;              // spaces between columns
  bool header_rule = true;  // a rule below the headers
};

class Table {
 public:
  // When all headers are empty, neither they nor their rule are printed.
  explicit Table(std::vector<Column> columns, TableStyle style = {});

  // Cells that are missing are empty; each is shown as one_line() of it. REQUIRES: no more cells than columns.
  void row(std::vector<std::string> cells);
  void rule();

  // All lines, each ending in a line break and none in a space.
  std::string text() const;

 private:
  struct Line {
    bool is_rule = false;
    std::vector<std::string> cells;
  };

  std::vector<int> widths() const;
  void append(std::string& text, const Line& line, const std::vector<int>& widths) const;

  std::vector<Column> columns_;
  TableStyle style_;
  std::vector<Line> lines_;
};

// Columns that a UTF-8 text takes on a terminal, for the characters that we print: one for each code point.
int display_width(std::string_view text);

}  // namespace twinpod
