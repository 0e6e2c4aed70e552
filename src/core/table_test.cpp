#include "core/table.hpp"

#include <gtest/gtest.h>

namespace twinpod {
namespace {

TEST(Table, ExampleOfTheHeaderComesOut) {
  Table table({{"device"}, {"memory", Align::right}});
  table.row({"h100-sxm", "80.0 GB"});
  table.rule();
  table.row({"total", "640 GB"});
  EXPECT_EQ(table.text(),
            "device     memory\n"
            "--------  -------\n"
            "h100-sxm  80.0 GB\n"
            "--------  -------\n"
            "total      640 GB\n");
}

TEST(Table, SymbolsTakeOneColumnEach) {
  EXPECT_EQ(display_width("5 µs × 3 – 2 · ≤"), 16);
  Table table({{"", Align::right}, {""}}, TableStyle{0, 1, false});
  table.row({"5 µs", "a"});
  table.row({"15 ns", "b"});
  EXPECT_EQ(table.text(), " 5 µs a\n15 ns b\n");
}

TEST(Table, WithoutHeadersThereIsNoHeaderLine) {
  Table table({{""}, {""}});
  table.row({"memory", "80 GB"});
  EXPECT_EQ(table.text(), "memory  80 GB\n");
}

TEST(Table, LinesEndWithoutSpaces) {
  Table table({{"name"}, {"note"}}, TableStyle{2, 2, false});
  table.row({"a", "a longer note"});
  table.row({"b"});
  EXPECT_EQ(table.text(), "  name  note\n  a     a longer note\n  b\n");
}

TEST(Table, EmptyTableIsItsHeader) {
  EXPECT_EQ(Table({{"name"}}).text(), "name\n----\n");
  EXPECT_EQ(Table({}).text(), "");
}

TEST(Table, ACellIsOneLine) {
  Table table({{""}, {""}});
  table.row({"a\nforged  row", "\x1b[31mb"});
  EXPECT_EQ(table.text(), "a\\nforged  row  \\u001b[31mb\n");
}

}  // namespace
}  // namespace twinpod
