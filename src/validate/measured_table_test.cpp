#include "validate/measured_table.hpp"

#include <gtest/gtest.h>

#include "spec/test_catalog.hpp"

namespace twinpod::validate {
namespace {

struct TableFile {
  explicit TableFile(const std::string& text) { files.write("t.csv", text); }
  Result<MeasuredTable> read() const {
    return read_measured_table(files.catalog().folder() + "/t.csv", {"system", "bytes"}, {"groups"});
  }
  spec::TestCatalog files;
};

TEST(MeasuredTable, ColumnsMayStandInAnyOrder) {
  const MeasuredTable table = TableFile("bytes,note,system\n8,x,a\n").read().value();
  EXPECT_EQ(table.rows[0].cells[0].text, "a");
  EXPECT_EQ(table.rows[0].cells[1].text, "8");
}

TEST(MeasuredTable, AnOptionalColumnMayBeMissing) {
  EXPECT_EQ(TableFile("system,bytes\na,8\n").read()->rows[0].cells[2].text, "");
}

TEST(MeasuredTable, LinesThatBeginWithAHashAreSkippedAndCounted) {
  EXPECT_EQ(TableFile("# source\nsystem,bytes\n\na,8\r\n").read()->rows[0].line, 4);
}

TEST(MeasuredTable, AMissingColumnIsRefusedWithTheNearest) {
  const Error error = TableFile("system,byte\na,8\n").read().error();
  EXPECT_NE(error.message.find("`bytes`"), std::string::npos) << error.message;
  EXPECT_NE(error.hint.find("byte"), std::string::npos) << error.hint;
}

TEST(MeasuredTable, ARowThatIsTooShortIsRefusedWithItsLine) {
  const Error error = TableFile("system,bytes\na,8\nb\n").read().error();
  EXPECT_EQ(error.line, 3);
}

TEST(MeasuredTable, ATableWithoutRowsIsRefused) { EXPECT_FALSE(TableFile("system,bytes\n").read()); }

TEST(MeasuredTable, AFileThatIsNotThereIsRefused) { EXPECT_FALSE(read_measured_table("/no/such.csv", {"a"}, {})); }

TEST(MeasuredTable, AWrongNumberIsRefusedWithLineAndColumn) {
  const MeasuredTable table = TableFile("system,bytes\na,8k\n").read().value();
  const Error error = number_of(table, table.rows[0], table.rows[0].cells[1], "bytes", 1, 10).error();
  EXPECT_EQ(error.line, 2);
  EXPECT_EQ(error.column, 3);
  EXPECT_EQ(error.message, "bytes is `8k`; expected a number from 1 to 10");
}

TEST(MeasuredTable, MedianAndNinetiethPercentileAreInterpolated) {
  const ErrorSummary summary = summary_of({0.4, 0.1, 0.2, 0.3});
  EXPECT_DOUBLE_EQ(summary.median, 0.25);
  EXPECT_NEAR(summary.p90, 0.37, 1e-12);
}

}  // namespace
}  // namespace twinpod::validate
