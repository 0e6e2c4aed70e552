#include "train/agree.hpp"

#include <gtest/gtest.h>

#include <array>

namespace twinpod::train {
namespace {

// What three ranks come to when `wrong` of them have an error of their own.
std::string agreed(const std::vector<int>& wrong) {
  const comm::Options options{.timeout_s = 20, .recording_path = ""};
  const Result<std::string> answer = comm::run_threads(3, options, [&](comm::Communicator& world) {
    const int rank = comm::rank_of(world);
    Result<void> own;
    if (std::find(wrong.begin(), wrong.end(), rank) != wrong.end())
      own = input_error("rank " + std::to_string(rank), "another");
    const Result<std::optional<Error>> all = agree(world, own);
    if (!all) return Result<std::string>(tl::unexpected(all.error()));
    const std::string text = *all ? (*all)->message + ", " + (*all)->hint : "fine";
    // Every rank must say the same.
    Result<void> other;
    if (text != (wrong.empty() ? "fine" : "rank " + std::to_string(wrong.front()) + ", another"))
      other = input_error("rank " + std::to_string(rank) + " has " + text);
    const Result<std::optional<Error>> same = agree(world, other);
    return Result<std::string>(same && *same ? (*same)->message : text);
  });
  return answer ? *answer : answer.error().message;
}

TEST(Agree, NoErrorIsNone) { EXPECT_EQ(agreed({}), "fine"); }

TEST(Agree, AnErrorOfOneRankIsThatOfAll) {
  EXPECT_EQ(agreed({0}), "rank 0, another");
  EXPECT_EQ(agreed({2}), "rank 2, another");
}

TEST(Agree, TheLowestRankIsHeard) { EXPECT_EQ(agreed({1, 2}), "rank 1, another"); }

TEST(Agree, OfEachVoteTheLargestComesBack) {
  const Result<std::string> answer =
      comm::run_threads(3, {.timeout_s = 20, .recording_path = ""}, [&](comm::Communicator& world) {
        const int rank = comm::rank_of(world);
        std::array<std::int32_t, 3> votes = {rank, 7 - rank, 0};
        const Result<std::optional<Error>> all = agree(world, {}, votes);
        const bool right = all && !*all && votes == std::array<std::int32_t, 3>{2, 7, 0};
        if (!right) return Result<std::string>(input_error("rank " + std::to_string(rank) + " is wrong"));
        return Result<std::string>("right");
      });
  EXPECT_EQ(answer.value_or(""), "right");
}

TEST(Agree, KeepsKindAndPlaceAndCutsLongTexts) {
  const Result<std::string> answer =
      comm::run_threads(2, {.timeout_s = 20, .recording_path = ""}, [&](comm::Communicator& world) {
        Error error{ErrorKind::infeasible, std::string(10000, 'x'), "", "job.yaml", 3, 4};
        const Result<std::optional<Error>> all = agree(world, tl::unexpected(error));
        const bool right = all && *all && (*all)->kind == ErrorKind::infeasible &&
                           (*all)->message.starts_with("job.yaml:3:4: xxx") && (*all)->message.size() < 10000;
        return Result<std::string>(right ? "right" : "wrong");
      });
  EXPECT_EQ(answer.value_or(""), "right");
}

}  // namespace
}  // namespace twinpod::train
