#include "core/guarded.hpp"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <thread>

#include "core/parallel.hpp"
#include "core/team.hpp"

namespace twinpod {
namespace {

Result<int> out_of_memory() { throw std::bad_alloc(); }

TEST(Guarded, AnAnswerPasses) {
  EXPECT_EQ(*guarded([] { return Result<int>(3); }), 3);
}

TEST(Guarded, NoMoreMemoryIsAnErrorOfWhatCannotBeDone) {
  const Result<int> answer = guarded(out_of_memory);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::infeasible);
  EXPECT_EQ(answer.error().message, "there is no more memory");
}

TEST(Guarded, ARefusalKeepsItsError) {
  const Result<int> answer =
      guarded([]() -> Result<int> { throw Refused(input_error("found a, expected b", "try b").value()); });
  ASSERT_FALSE(answer);
  EXPECT_EQ(to_string(answer.error()), "found a, expected b\n  try b");
}

TEST(Guarded, WhatAThreadOfALoopThrowsReachesWhoCalledIt) {
  for (const int threads : {1, 4}) {
    const auto loop = [&] {
      parallel_for(
          100, [](std::size_t i) { i == 57 ? throw std::bad_alloc() : void(); }, threads);
    };
    EXPECT_THROW(loop(), std::bad_alloc) << threads;
  }
}

TEST(Guarded, WhatAHelperOfATeamThrowsReachesWhoCalledIt) {
  Team team(2);
  const auto loop = [&] { team.run(100, [](std::size_t i) { i == 57 ? throw std::bad_alloc() : void(); }); };
  EXPECT_THROW(loop(), std::bad_alloc);
  int runs = 0;
  team.run(1, [&](std::size_t) { ++runs; });
  EXPECT_EQ(runs, 1) << "the next loop knows nothing of it";
}

TEST(GuardedDeathTest, AThreadWithNobodyAboveItEndsTheProcessWithAMessage) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto die = [] {
    end_with_a_message_when_terminated();
    std::thread([] { throw std::bad_alloc(); }).join();
  };
  EXPECT_EXIT(die(), testing::ExitedWithCode(1), "twinpod: there is no more memory");
}

}  // namespace
}  // namespace twinpod
