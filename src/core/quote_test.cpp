#include "core/quote.hpp"

#include <gtest/gtest.h>

namespace twinpod {
namespace {

TEST(Quote, PlainTextStaysAsItIs) {
  EXPECT_EQ(printable("tp 8 × pp 4, 3 µs 你好 👍\n\tx"), "tp 8 × pp 4, 3 µs 你好 👍\n\tx");
}

TEST(Quote, WhatATerminalWouldObeyIsShown) {
  EXPECT_EQ(printable("a\x1b[2J\rb\x07\x7f"), "a\\u001b[2J\\rb\\u0007\\u007f");
}

TEST(Quote, ControlCharactersBehindAsciiAreShown) {
  EXPECT_EQ(printable("a\xc2\x9b"
                      "2Jb\xc2\x85"),
            "a\\u009b2Jb\\u0085");
}

TEST(Quote, TurnedWritingIsShown) { EXPECT_EQ(printable("a\u202egpj.exe\u2066"), "a\\u202egpj.exe\\u2066"); }

TEST(Quote, LineSeparatorsAreShown) { EXPECT_EQ(one_line("a\u2028b\u2029c\nd\te"), "a\\u2028b\\u2029c\\nd\\te"); }

TEST(Quote, BytesThatAreNoTextAreReplaced) {
  EXPECT_EQ(printable("a\xff"
                      "b\xc0\xaf"
                      "c\xed\xa0\x80"
                      "d\xe2\x82"),
            "a\uFFFD"
            "b\uFFFD\uFFFD"
            "c\uFFFD\uFFFD\uFFFD"
            "d\uFFFD\uFFFD");
}

TEST(Quote, ZeroBytesAreShown) { EXPECT_EQ(one_line(std::string_view("a\0b", 3)), "a\\u0000b"); }

TEST(Quote, LineEndsOfTheNetStay) { EXPECT_EQ(printable("a,b\r\nc\r\n"), "a,b\r\nc\r\n"); }

TEST(Quote, ColoursStayWhereTheyAreWanted) {
  EXPECT_EQ(printable("\x1b[30;48;5;12mF0\x1b[0m", Colours::kept), "\x1b[30;48;5;12mF0\x1b[0m");
  EXPECT_EQ(printable("\x1b[0mF0"), "\\u001b[0mF0");
}

TEST(Quote, NothingButColoursIsKeptWithThem) {
  EXPECT_EQ(printable("\x1b[2J\x1b[5;1H\x1b]0;x\x07\x1b[1", Colours::kept),
            "\\u001b[2J\\u001b[5;1H\\u001b]0;x\\u0007\\u001b[1");
}

TEST(Quote, ALineIsALine) {
  EXPECT_TRUE(is_one_line("Llama 3 70B"));
  EXPECT_FALSE(is_one_line("meta\ntouch x;:"));
}

TEST(Quote, LongTextIsCutBetweenCharacters) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdefg", 6), "abcdef...");
  EXPECT_EQ(shortened("abcdeµg", 6), "abcde...");
}

TEST(Quote, EscapesCountForTheLength) { EXPECT_EQ(shortened("\x1b\x1b", 6), "\\u001b..."); }

TEST(Quote, ShellWordsWithoutMeaningStayAsTheyAre) {
  EXPECT_EQ(shell_quoted("runs/a-1_b.yaml"), "runs/a-1_b.yaml");
  EXPECT_EQ(shell_quoted(""), "''");
}

TEST(Quote, ShellWordsAreQuoted) {
  EXPECT_EQ(shell_quoted("$(touch x)"), "'$(touch x)'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted("~/a"), "'~/a'");
  EXPECT_EQ(shell_quoted("=ls"), "'=ls'");
}

TEST(Quote, ShellWordsKeepTheirBytesWhereNoneIsShown) {
  EXPECT_EQ(shell_quoted("a\n'\\\x1b\xff"), "$'a\\012\\'\\\\\\033\\377'");
}

TEST(Quote, DoubleQuotesEscapeWhatEndsThem) {
  EXPECT_EQ(double_quoted("a\"b\\c\nd\x1b\u2028"), "\"a\\\"b\\\\c\\nd\\u001b\\u2028\"");
}

TEST(Quote, PrintingChangesNothingInDoubleQuotes) {
  const std::string quoted = double_quoted("a\"\\\n\t\r\x1b\u202e\xff");
  EXPECT_EQ(printable(quoted), quoted);
}

TEST(Quote, WordsOfYaml) {
  EXPECT_EQ(yaml_word("h100-sxm"), "h100-sxm");
  EXPECT_EQ(yaml_word("No"), "\"No\"");
  EXPECT_EQ(yaml_word("1e5"), "\"1e5\"");
  EXPECT_EQ(yaml_word("a: b"), "\"a: b\"");
  EXPECT_EQ(yaml_word(""), "\"\"");
}

TEST(Quote, XmlHasNothingOfItsOwnLeft) {
  EXPECT_EQ(xml_escaped("]]><a b='\"&\x01"), "]]&gt;&lt;a b=&#39;&quot;&amp;\\u0001");
}

}  // namespace
}  // namespace twinpod
