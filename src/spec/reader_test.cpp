#include "spec/reader.hpp"

#include <gtest/gtest.h>

#include "spec/names.hpp"

namespace twinpod::spec {
namespace {

// Reads one document with `read` and gives the error, or an empty one.
template <typename Read>
Error error_of(std::string_view text, Read read) {
  const Result<Node> root = parse_yaml(text, "t.yaml");
  EXPECT_TRUE(root.has_value()) << text;
  Context context("t.yaml");
  Reader reader(*root, context, "layout");
  read(reader);
  reader.finish();
  return context.first_error.value_or(Error{});
}

Error count_error(std::string_view text) {
  return error_of(text, [](Reader& reader) {
    int value = 0;
    reader.count("tp", value, 1, 1024);
  });
}

Error memory_error(std::string_view text) {
  return error_of(text, [](Reader& reader) {
    double value = 0;
    reader.quantity("memory", value, Quantity::bytes, 1, 1e18);
  });
}

TEST(Reader, ReadsEachKindOfValue) {
  int tp = 0;
  double memory = 0;
  bool flag = false;
  std::string name;
  std::vector<std::string> list;
  Recompute recompute = Recompute::none;
  const Error error =
      error_of("{tp: 8, memory: 80 GB, flag: true, name: x, list: [a, b], recompute: full}", [&](Reader& reader) {
        reader.count("tp", tp, 1, 1024);
        reader.quantity("memory", memory, Quantity::bytes, 1, 1e18);
        reader.flag("flag", flag);
        reader.text("name", name);
        reader.texts("list", list);
        reader.choice("recompute", recompute, kRecomputeNames);
      });
  EXPECT_EQ(error.message, "");
  EXPECT_EQ(tp, 8);
  EXPECT_EQ(memory, 80e9);
  EXPECT_TRUE(flag);
  EXPECT_EQ(name, "x");
  EXPECT_EQ(list, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(recompute, Recompute::full);
}

TEST(Reader, AbsentKeysLeaveTheirValues) {
  int tp = 7;
  EXPECT_EQ(error_of("{}", [&](Reader& reader) { reader.count("tp", tp, 1, 8); }).message, "");
  EXPECT_EQ(tp, 7);
}

TEST(Reader, WholeNumbersAreDecimalDigitsAndNothingElse) {
  EXPECT_EQ(count_error("tp: 1024").message, "");
  for (const char* value : {"1_024", "1k", "8.0", "1e3", "0x10", "010", "+8", "'8'", "eight", "~", "[8]", "{a: 8}",
                            "-0", "99999999999999999999", "8 ", ".nan"}) {
    const std::string text = std::string("tp: ") + value;
    const bool is_plain_eight = std::string(value) == "8 ";  // blanks around a plain scalar are not part of it
    EXPECT_EQ(count_error(text).message.empty(), is_plain_eight) << value;
  }
}

TEST(Reader, WholeNumbersStayWithinTheirBounds) {
  EXPECT_EQ(count_error("tp: 1").message, "");
  for (const char* text : {"tp: 0", "tp: 1025", "tp: -1"}) EXPECT_NE(count_error(text).message, "") << text;
}

TEST(Reader, ErrorSaysWhereWhatWasFoundAndWhatWasExpected) {
  const Error error = count_error("# first\ntp: 0\n");
  EXPECT_EQ(to_string(error), "t.yaml:2:5: tp is `0`; expected a whole number from 1 to 1024");
}

TEST(Reader, QuantitiesMayBeQuotedAndMustBePossible) {
  EXPECT_EQ(memory_error("memory: '80 GB'").message, "");
  for (const char* text : {"memory: -80 GB", "memory: 0", "memory: .nan", "memory: nan", "memory: inf",
                           "memory: 1e30 GB", "memory: 1e999", "memory: lots", "memory:"}) {
    EXPECT_NE(memory_error(text).message, "") << text;
  }
}

TEST(Reader, UnknownUnitNamesTheNearest) {
  const Error error = memory_error("memory: 80 GBB");
  EXPECT_EQ(error.line, 1);
  EXPECT_EQ(error.column, 9);
  EXPECT_NE(error.hint.find("GB"), std::string::npos);
}

TEST(Reader, FlagIsTrueOrFalse) {
  for (const char* text : {"f: yes", "f: 1", "f: 'true'", "f: TRUE", "f:"}) {
    bool value = false;
    EXPECT_NE(error_of(text, [&](Reader& reader) { reader.flag("f", value); }).message, "") << text;
  }
}

TEST(Reader, WrongChoiceListsTheNamesAndTheNearest) {
  Recompute value = Recompute::none;
  const Error error =
      error_of("recompute: fulll", [&](Reader& reader) { reader.choice("recompute", value, kRecomputeNames); });
  EXPECT_EQ(error.message, "recompute is `fulll`; expected one of none, selective, full");
  EXPECT_EQ(error.hint, "did you mean `full`?");
}

Error counts_error(std::string_view text) {
  return error_of(text, [](Reader& reader) {
    std::vector<int> values;
    reader.counts("zero", values, 0, 3);
  });
}

Error choices_error(std::string_view text) {
  return error_of(text, [](Reader& reader) {
    std::vector<Schedule> values;
    reader.choices("schedules", values, kScheduleNames);
  });
}

TEST(Reader, ListsReplaceTheirDefaults) {
  std::vector<int> zero = {0, 1, 2, 3};
  std::vector<Schedule> schedules = {Schedule::gpipe};
  const Error error = error_of("{zero: [1, 0], schedules: [zb-v, 1f1b]}", [&](Reader& reader) {
    reader.counts("zero", zero, 0, 3);
    reader.choices("schedules", schedules, kScheduleNames);
  });
  EXPECT_EQ(error.message, "");
  EXPECT_EQ(zero, (std::vector<int>{1, 0}));
  EXPECT_EQ(schedules, (std::vector<Schedule>{Schedule::zb_v, Schedule::one_f_one_b}));
}

TEST(Reader, AbsentListsKeepTheirValues) {
  std::vector<int> zero = {2};
  EXPECT_EQ(error_of("{}", [&](Reader& reader) { reader.counts("zero", zero, 0, 3); }).message, "");
  EXPECT_EQ(zero, (std::vector<int>{2}));
}

TEST(Reader, ListOfWholeNumbersRefusesAnythingElseAtItsPlace) {
  EXPECT_EQ(to_string(counts_error("zero: [0, 4]")), "t.yaml:1:11: zero holds `4`; expected whole numbers from 0 to 3");
  for (const char* text : {"zero: 1", "zero: []", "zero: ['1']", "zero: [[1]]", "zero: [1, 1]", "zero:"}) {
    EXPECT_NE(counts_error(text).message, "") << text;
  }
}

TEST(Reader, UnknownNameInAListNamesTheNearest) {
  const Error error = choices_error("schedules: [1f1b, dualpip]");
  EXPECT_EQ(error.message,
            "schedules holds `dualpip`; expected some of gpipe, 1f1b, interleaved, zb-1p, zb-2p, zb-v, dualpipe, "
            "dualpipe-v, custom");
  EXPECT_EQ(error.hint, "did you mean `dualpipe`?");
  EXPECT_EQ(error.column, 19);
}

TEST(Reader, ListOfNamesIsAListOfDifferentTexts) {
  for (const char* text : {"schedules: 1f1b", "schedules: []", "schedules: [{a: b}]", "schedules: [1f1b, 1f1b]"}) {
    EXPECT_NE(choices_error(text).message, "") << text;
  }
  EXPECT_EQ(choices_error("schedules: []").message,
            "schedules is an empty list; expected a list of some of gpipe, 1f1b, interleaved, zb-1p, zb-2p, zb-v, "
            "dualpipe, dualpipe-v, custom");
}

TEST(Reader, UnknownKeyIsRefusedAtTheKeyWithTheNearestName) {
  const Error error = error_of("tp: 8\nmicro_bach: 1\n", [](Reader& reader) {
    reader.take("tp");
    reader.take("micro_batch");
  });
  EXPECT_EQ(to_string(error), "t.yaml:2:1: layout has no key `micro_bach`\n  did you mean `micro_batch`?");
}

TEST(Reader, UnknownKeyThatIsNearNothingListsWhatIsKnown) {
  const Error error = error_of("zzzzzz: 8\n", [](Reader& reader) { reader.take("tp"); });
  EXPECT_EQ(error.hint, "known: tp");
}

TEST(Reader, KeyThatStandsElsewhereIsNamedByItsPath) {
  const auto hint_of = [](const std::string& what, const std::string& key) {
    const Node root = *parse_yaml(key + ": 8", "t.yaml");
    Context context("t.yaml");
    Reader reader(root, context, what);
    for (const char* known : {"max_sequence", "mtp_layers", "hidden"}) reader.take(known);
    reader.finish();
    return context.error().hint;
  };
  EXPECT_EQ(hint_of("model", "heads"), "did you mean `attention.heads`?");
  EXPECT_EQ(hint_of("model", "num_layers"), "did you mean `layers`?");
  EXPECT_EQ(hint_of("model", "sequence"), "did you mean `training.sequence`?");
  EXPECT_EQ(hint_of("training", "micro_batch"), "did you mean `layout.micro_batch`?");
  EXPECT_EQ(hint_of("the job", "steps"), "did you mean `training.steps`?");
  EXPECT_EQ(hint_of("model", "hiden"), "did you mean `hidden`?");
  EXPECT_EQ(hint_of("device", "heads"), "known: max_sequence, mtp_layers, hidden");
}

TEST(Reader, FirstErrorIsKept) {
  const Error error = error_of("a: x\nb: y\n", [](Reader& reader) {
    int value = 0;
    reader.count("a", value, 1, 2);
    reader.count("b", value, 1, 2);
  });
  EXPECT_EQ(error.line, 1);
}

TEST(Reader, MissingKeyIsRefusedAtItsMapping) {
  const Error error = error_of("\n\nx: 1\n", [](Reader& reader) {
    reader.take("x");
    reader.require("tp");
  });
  EXPECT_EQ(error.line, 3);
  EXPECT_EQ(error.message, "layout has no `tp`, which it needs");
}

TEST(Reader, WhatIsNoMappingIsRefused) {
  EXPECT_EQ(error_of("[1, 2]", [](Reader&) {}).message, "layout is a list; expected a mapping");
  EXPECT_EQ(error_of("", [](Reader&) {}).message, "") << "nothing is a mapping without keys";
}

TEST(Reader, LongAndUnprintableTextIsCutInMessages) {
  const Error error = count_error("tp: \"\\x01" + std::string(500, 'x') + "\"");
  EXPECT_LT(error.message.size(), 200U);
  EXPECT_EQ(error.message.find('\x01'), std::string::npos);
}

TEST(Reader, CutNeverSplitsACharacter) {
  std::string name = "x";
  for (int i = 0; i < 100; ++i) name += "\xc3\xa9";
  const Error error = count_error("tp: " + name);
  EXPECT_NE(error.message.find("\xc3\xa9..."), std::string::npos);
}

TEST(Reader, ErrorOfSomethingNamedKeepsItsOwnPlace) {
  Context context("job.yaml");
  Node node;
  node.line = 4;
  node.column = 2;
  context.refuse(node, Error{ErrorKind::input, "bad", "", "device.yaml", 7, 1});
  EXPECT_EQ(context.error().file, "device.yaml");
  EXPECT_EQ(context.error().line, 7);
}

Error text_error(std::string_view text) {
  return error_of(text, [](Reader& reader) {
    std::string value;
    reader.text("name", value);
  });
}

TEST(Reader, ANameIsOneLine) {
  const Error error = text_error("tp: 1\nname: \"meta\\ntouch x;:\"\n");
  EXPECT_EQ(error.message, "name is the text `meta\\ntouch x;:`; expected one line without control characters");
  EXPECT_EQ(error.line, 2);
}

TEST(Reader, ANameHasNothingThatATerminalWouldObey) {
  for (const char* name : {"\\x1b[2J", "\\r", "\\t", "\\0", "\\x9b", "\\u202e", "\\u2028", "\\N", "\\ufeff"})
    EXPECT_NE(text_error(std::string("name: \"a") + name + "b\"").message, "") << name;
}

TEST(Reader, ANameMayBeInAnyScript) { EXPECT_EQ(text_error("name: Ünïcode 你好 👍 'x' $(y) `z`").message, ""); }

TEST(Reader, ANameEnds) {
  EXPECT_NE(text_error("name: " + std::string(100'000, 'x')).message.find("at most 4096 bytes"), std::string::npos);
}

TEST(Reader, EachOfSeveralTextsIsOneLine) {
  const Error error = error_of("list: [a, \"b\\nc\"]", [](Reader& reader) {
    std::vector<std::string> list;
    reader.texts("list", list);
  });
  EXPECT_NE(error.message.find("one line"), std::string::npos);
}

TEST(Reader, ProseMayHaveLinesAndNothingElse) {
  const auto prose_error = [](std::string_view text) {
    return error_of(text, [](Reader& reader) {
      std::string value;
      reader.prose("notes", value);
    });
  };
  EXPECT_EQ(prose_error("notes: |\n  one\n  two\n").message, "");
  EXPECT_NE(prose_error("notes: \"\\e[2J\"").message, "");
}

}  // namespace
}  // namespace twinpod::spec
