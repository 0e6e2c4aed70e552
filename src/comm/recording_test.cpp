#include "comm/recording.hpp"

#include <gtest/gtest.h>

namespace twinpod::comm {
namespace {

using collective::Verb;

Operation called(std::uint32_t sequence, Verb verb, std::uint64_t bytes, bool over) {
  Operation operation{.sequence = sequence, .verb = verb, .bytes = bytes, .start_ns = 1000 * sequence};
  if (over) operation.end_ns = operation.start_ns + 10;
  return operation;
}

// Four ranks that have all ended operation 1 and wait in operation 2.
Recording four_ranks() {
  Recording recording{.timeout_s = 1, .now_ns = 1'000'000, .ranks = {}, .groups = {{0, {0, 1, 2, 3}}}};
  for (int rank = 0; rank < 4; ++rank) {
    recording.ranks.push_back({.rank = rank, .num_operations = 2});
    recording.ranks.back().operations = {called(1, Verb::all_reduce, 64, true),
                                         called(2, Verb::all_reduce, 128, false)};
  }
  return recording;
}

TEST(Diagnose, NamesTheRankThatWasKilled) {
  Recording recording = four_ranks();
  recording.ranks[1].status = RankStatus::died;
  recording.ranks[1].signal = 9;
  EXPECT_EQ(diagnose(recording).culprit, 1);
  EXPECT_EQ(diagnose(recording).message,
            "rank 1 was killed by SIGKILL in all_reduce of 128 bytes (f32, sum), operation 2 of world");
}

TEST(Diagnose, NamesTheRankThatIsStopped) {
  Recording recording = four_ranks();
  recording.ranks[3].status = RankStatus::stopped;
  recording.ranks[3].signal = 19;
  recording.ranks[3].operations.pop_back();
  EXPECT_EQ(diagnose(recording).message,
            "rank 3 is stopped (SIGSTOP) after all_reduce of 64 bytes (f32, sum), operation 1 of world");
}

TEST(Diagnose, NamesTheRankThatCalledSomethingElse) {
  Recording recording = four_ranks();
  recording.ranks[0].operations[1].verb = Verb::broadcast;
  EXPECT_EQ(diagnose(recording).culprit, 0);
  EXPECT_EQ(diagnose(recording).message,
            "rank 0 called broadcast of 128 bytes with root 0 as operation 2 of world; the others called all_reduce of "
            "128 bytes (f32, sum)");
}

TEST(Diagnose, NamesTheRankThatNeverCame) {
  Recording recording = four_ranks();
  recording.ranks[2].operations.pop_back();
  EXPECT_EQ(
      diagnose(recording).message,
      "rank 2 has not come to all_reduce of 128 bytes (f32, sum), operation 2 of world; it is after all_reduce of 64 "
      "bytes (f32, sum), operation 1 of world");
  recording.ranks[2].status = RankStatus::finished;
  EXPECT_EQ(
      diagnose(recording).message,
      "rank 2 ended after all_reduce of 64 bytes (f32, sum), operation 1 of world; others wait in all_reduce of 128 "
      "bytes (f32, sum), operation 2 of world");
}

TEST(Diagnose, FollowsWhoWaitsForWhomToTheOneThatDoesNotWait) {
  Recording recording = four_ranks();
  Operation receive{.verb = Verb::send, .receives = true, .peer = 3, .tag = 7, .bytes = 8, .start_ns = 5000};
  recording.ranks[2].operations[1] = receive;  // keeps 0 and 1 waiting, and waits for 3
  recording.ranks[3].operations.pop_back();
  EXPECT_EQ(diagnose(recording).culprit, 3);
  EXPECT_NE(
      diagnose(recording).message.find("has not sent what is waited for in a receive from rank 3, 8 bytes, tag 7"),
      std::string::npos);
}

TEST(Diagnose, TellsRanksThatWaitForEachOther) {
  Recording recording{.timeout_s = 1, .now_ns = 1, .ranks = {}, .groups = {{0, {0, 1}}}};
  for (int rank = 0; rank < 2; ++rank) {
    recording.ranks.push_back({.rank = rank});
    recording.ranks.back().operations = {
        {.verb = Verb::send, .receives = true, .peer = 1 - rank, .start_ns = rank + 1}};
  }
  EXPECT_NE(diagnose(recording).message.find("wait for each other"), std::string::npos);
}

TEST(Recording, SurvivesBeingWrittenAndRead) {
  Recording recording = four_ranks();
  recording.ranks[1].status = RankStatus::died;
  recording.ranks[1].signal = 11;
  const Result<Recording> read = parse_recording(recording_json(recording), "a.json");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(recording_json(*read), recording_json(recording));
  EXPECT_EQ(explained(*read), explained(recording));
}

TEST(Recording, WhatIsNoRecordingIsRefusedByName) {
  for (const char* const text : {"", "{}", "[1, 2", R"({"timeout_s": "x"})"}) {
    const Result<Recording> read = parse_recording(text, "a.json");
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().file, "a.json");
    EXPECT_EQ(read.error().kind, ErrorKind::input);
  }
}

}  // namespace
}  // namespace twinpod::comm
