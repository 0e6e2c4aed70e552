#include "core/wrap.hpp"

#include <gtest/gtest.h>

namespace twinpod {
namespace {

TEST(Wrap, ATextThatFitsStaysAsItIs) { EXPECT_EQ(wrapped("one  two", {.width = 8}), "one  two"); }

TEST(Wrap, LinesEndBetweenWords) { EXPECT_EQ(wrapped("one two three", {.width = 9, .indent = 2}), "one two\n  three"); }

TEST(Wrap, TheFirstLineLeavesWhatIsTaken) { EXPECT_EQ(wrapped("one two", {.width = 9, .first = 4}), "one\ntwo"); }

TEST(Wrap, AWordThatIsTooWideStaysWhole) {
  EXPECT_EQ(wrapped("a extraordinary b", {.width = 4}), "a\nextraordinary\nb");
}

TEST(Wrap, TheEndOfALineTakesColumns) {
  EXPECT_EQ(wrapped("one two three", {.width = 8, .line_end = " \\"}), "one \\\ntwo \\\nthree");
}

TEST(Wrap, ColumnsAreCountedNotBytes) { EXPECT_EQ(wrapped("×× ××", {.width = 5}), "×× ××"); }

}  // namespace
}  // namespace twinpod
