// What --fault takes, and what it says to the rest.
#include "cli/train_faults.hpp"

#include <gtest/gtest.h>

namespace twinpod::cli {
namespace {

const ps::Choice kChoice{.servers = 3, .workers = 2};

TEST(TrainFaults, AListOfKillsAndARandomNumber) {
  const Result<Faults> faults = parse_faults("kill:server:2@20,kill:worker:0@40,random:5", kChoice);
  ASSERT_TRUE(faults) << faults.error().message;
  ASSERT_EQ(faults->list.size(), 2U);
  EXPECT_EQ(faults->list[0].role, ps::Role::server);
  EXPECT_EQ(faults->list[0].place, 2);
  EXPECT_EQ(faults->list[0].step, 20);
  EXPECT_EQ(faults->list[1].role, ps::Role::worker);
  EXPECT_EQ(faults->random, 5);
  EXPECT_EQ(faults->count(), 7);
}

TEST(TrainFaults, RefusesWhatItCannotDo) {
  for (const char* text : {"kill", "kill:server:1", "kill:server:x@3", "kill:server:1@", "stop:server:1@3", "random:0",
                           "random:x", "kill:server:1@-2"}) {
    const Result<Faults> faults = parse_faults(text, kChoice);
    ASSERT_FALSE(faults) << text;
    EXPECT_NE(faults.error().message.find(text), std::string::npos) << faults.error().message;
  }
  EXPECT_EQ(parse_faults("kill:worker:2@3", kChoice).error().hint, "0 to 1");
  EXPECT_EQ(parse_faults("random:500", kChoice).error().hint, "220 at most");
}

TEST(TrainFaults, NothingToKillIsNoWatch) {
  EXPECT_FALSE(killer({}, 100));
  EXPECT_TRUE(killer({.random = 1}, 100));
}

}  // namespace
}  // namespace twinpod::cli
