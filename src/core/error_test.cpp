#include "core/error.hpp"

#include <gtest/gtest.h>

namespace twinpod {
namespace {

TEST(Error, PlaceComesBeforeTheMessageAndTheHintAfterIt) {
  const Error error{ErrorKind::input, "unknown device h10", "did you mean h100-sxm?", "job.yaml", 3, 5};
  EXPECT_EQ(to_string(error), "job.yaml:3:5: unknown device h10\n  did you mean h100-sxm?");
}

TEST(Error, WhatIsNotKnownOfThePlaceIsLeftOut) {
  EXPECT_EQ(to_string(Error{ErrorKind::input, "bad", "", "job.yaml", 3, 0}), "job.yaml:3: bad");
  EXPECT_EQ(to_string(Error{ErrorKind::input, "bad", "", "job.yaml", 0, 7}), "job.yaml: bad");
  EXPECT_EQ(to_string(Error{ErrorKind::input, "bad", "", "", 3, 5}), "bad");
}

TEST(Error, MakersSetTheKind) {
  const Result<int> wrong = input_error("bad", "good");
  const Result<int> impossible = infeasible("too big");
  EXPECT_EQ(wrong.error().kind, ErrorKind::input);
  EXPECT_EQ(wrong.error().hint, "good");
  EXPECT_EQ(impossible.error().kind, ErrorKind::infeasible);
}

TEST(Error, NothingInItIsForTheTerminal) {
  EXPECT_EQ(to_string(Error{ErrorKind::input, "no `a\x1b[2J\nb`",
                            "try \x07"
                            "c",
                            "d\re.yaml", 1, 0}),
            "d\\re.yaml:1: no `a\\u001b[2J\\nb`\n  try \\u0007c");
}

}  // namespace
}  // namespace twinpod
