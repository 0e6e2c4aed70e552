// Tables of measurements as people publish them: comma-separated text with a line of column names.
//
//     Result<MeasuredTable> table = read_measured_table("collectives.csv", {"system", "bytes", "time_us"},
//     {"busbw_GBps"}); table->rows[0].cells[1].text      // the second of the wanted columns, wherever it stands in the
//     file
//
// Lines that are empty or begin with # are skipped. Columns may stand in any order; those that nobody asks for are
// ignored, those that are missing are refused, optional ones may be. Each cell knows its place, for errors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace twinpod::validate {

struct MeasuredCell {
  std::string text;  // without spaces around it; empty: an optional column that the file lacks
  int column = 0;    // 1-based, of its first character
};

struct MeasuredRow {
  int line = 0;
  std::vector<MeasuredCell> cells;  // required columns, then optional ones, in the order asked for
};

struct MeasuredTable {
  std::string file;
  std::vector<MeasuredRow> rows;
};

Result<MeasuredTable> read_measured_table(const std::string& path, const std::vector<std::string>& required,
                                          const std::vector<std::string>& optional);

// Refuses a cell: `file:line:column: NAME is `x`; expected ...`.
tl::unexpected<Error> refuse_cell(const MeasuredTable& table, const MeasuredRow& row, const MeasuredCell& cell,
                                  std::string message, std::string hint = "");

// A number from `low` to `high`.
Result<double> number_of(const MeasuredTable& table, const MeasuredRow& row, const MeasuredCell& cell,
                         std::string_view name, double low, double high);
Result<int> whole_number_of(const MeasuredTable& table, const MeasuredRow& row, const MeasuredCell& cell,
                            std::string_view name, int low, int high);

// Statistics that both kinds of measurement are judged by.
struct ErrorSummary {
  int rows = 0;
  double median = 0;  // of |predicted / measured - 1|
  double p90 = 0;
};
ErrorSummary summary_of(std::vector<double> errors);

}  // namespace twinpod::validate
