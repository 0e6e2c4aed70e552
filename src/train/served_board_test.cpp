// What workers leave behind.
#include "train/served_board.hpp"

#include <gtest/gtest.h>

namespace twinpod::train {
namespace {

TEST(ServedBoard, StepsComeInOrderAndAStepThatIsBeingWrittenIsWaitedFor) {
  const Result<std::unique_ptr<Board>> board = make_board({.steps = 4, .marks = 1, .values = 1});
  ASSERT_TRUE(board) << board.error().message;
  post(**board, {.worker = 0, .step = 1});
  const std::int64_t half = (*board)->num_posted->fetch_add(1);  // a worker that has its place, and not written yet
  post(**board, {.worker = 1, .step = 2});
  EXPECT_EQ(steps_from(**board, 0, false).size(), 1U);
  (*board)->posted[half].step = {.worker = 2, .step = 3};
  (*board)->posted[half].ready = 1;
  const std::vector<ServedStep> steps = steps_from(**board, 0, false);
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[1].worker, 2);
  EXPECT_EQ(steps_from(**board, 2, false).front().step, 2);
}

TEST(ServedBoard, AWorkerThatDiedWhileItWroteLeavesAStepOfNobody) {
  const Result<std::unique_ptr<Board>> board = make_board({.steps = 4, .marks = 1, .values = 1});
  (*board)->num_posted->fetch_add(1);
  post(**board, {.worker = 1, .step = 2});
  const std::vector<ServedStep> steps = steps_from(**board, 0, true);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].worker, -1);
  EXPECT_EQ(steps[1].worker, 1);
}

TEST(ServedBoard, MoreStepsThanThereIsRoomForAreLeftOut) {
  const Result<std::unique_ptr<Board>> board = make_board({.steps = 2, .marks = 1, .values = 1});
  for (int i = 0; i < 5; ++i) post(**board, {.worker = i});
  EXPECT_EQ(steps_from(**board, 0, true).size(), 2U);
}

TEST(ServedBoard, ValuesAreSetAsideOnce) {
  const Result<std::unique_ptr<Board>> board = make_board({.steps = 1, .marks = 2, .values = 3});
  std::vector<float> read(3);
  EXPECT_FALSE(read_values(**board, 1, read));
  EXPECT_TRUE(take_mark(**board, 1));
  EXPECT_FALSE(take_mark(**board, 1));
  EXPECT_FALSE(take_mark(**board, 2));
  const std::vector<ps::Arrival> values = {
      {.shard = 0, .values = ps::payload_of(std::vector<float>{1, 2})},
      {.shard = 1, .values = ps::payload_of(std::vector<float>{3})},
  };
  set_aside(**board, 1, 7, values);
  ASSERT_TRUE(read_values(**board, 1, read));
  EXPECT_EQ(read, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ((*board)->marks[1].clock, 7);
}

}  // namespace
}  // namespace twinpod::train
