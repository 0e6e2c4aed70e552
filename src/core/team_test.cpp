#include "core/team.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <set>

namespace twinpod {
namespace {

TEST(Team, EachIndexIsVisitedOnceInEveryLoop) {
  for (const int helpers : {0, 1, 3}) {
    Team team(helpers);
    for (int loop = 0; loop < 2000; ++loop) {
      const auto count = static_cast<std::size_t>(loop % 7);
      std::vector<int> visits(count);
      team.run(count, [&](std::size_t i) { ++visits[i]; });
      for (const int visit : visits) ASSERT_EQ(visit, 1) << helpers << " helpers, loop " << loop;
    }
  }
}

TEST(Team, WhatTheBodiesWroteIsSeenBehindTheLoop) {
  Team team(2);
  std::vector<double> values(1000);
  for (int loop = 1; loop <= 200; ++loop) {
    team.run(values.size(), [&](std::size_t i) { values[i] += static_cast<double>(i); });
    ASSERT_EQ(values[999], 999.0 * loop);
  }
}

TEST(Team, AHelperHelps) {
  Team team(1);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (threads.size() < 2 && std::chrono::steady_clock::now() < end) {
    team.run(16, [&](std::size_t) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    });
  }
  EXPECT_EQ(threads.size(), 2);
}

TEST(Team, AHelperThatSleepsWakesUp) {
  Team team(1);
  for (int loop = 0; loop < 5; ++loop) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // longer than it stays awake
    int visits = 0;
    team.run(1, [&](std::size_t) { ++visits; });
    EXPECT_EQ(visits, 1);
  }
}

TEST(Team, PartsCoverEverythingOnce) {
  Team team(1);
  for (const std::size_t count : {0U, 1U, 79U, 80U, 81U, 1000U}) {
    std::vector<int> visits(count);
    in_parts(&team, count, 10, [&](std::size_t first, std::size_t length) {
      for (std::size_t i = first; i < first + length; ++i) ++visits[i];
    });
    for (const int visit : visits) ASSERT_EQ(visit, 1) << count;
  }
}

}  // namespace
}  // namespace twinpod
