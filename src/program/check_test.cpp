#include "program/check.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "program/generate.hpp"
#include "program/test_job.hpp"

namespace twinpod::program {
namespace {

Program pipeline() { return *generate(gpt_job(8, 2, 4)); }

std::vector<Instance>& list(Program& program, int stage) {
  return program.kinds[static_cast<std::size_t>(stage)].instances;
}

void expect_refused(const Program& program, const std::string& part) {
  const Result<void> sound = check(program);
  ASSERT_FALSE(sound) << part;
  EXPECT_EQ(sound.error().kind, ErrorKind::input);
  EXPECT_NE(sound.error().message.find(part), std::string::npos) << sound.error().message;
}

// The block of a stage's first instance of a phase, as a copy of its own, so that it can be changed for it alone.
Block& own_block(Program& program, int stage, std::size_t instance) {
  Instance& one = list(program, stage)[instance];
  program.blocks.push_back(program.blocks[static_cast<std::size_t>(one.block)]);
  one.block = static_cast<int>(program.blocks.size()) - 1;
  return program.blocks.back();
}

Op& op_of(Block& block, OpKind kind) {
  return *std::find_if(block.ops.begin(), block.ops.end(), [&](const Op& op) { return op.kind == kind; });
}

TEST(Check, PassesWhatTheGeneratorMakes) { EXPECT_TRUE(check(pipeline())); }

// Its passes become those of the step as a whole, so that all others keep their places.
void leave_out(Program& program, int stage, Phase phase, int micro_batch) {
  for (Instance& one : list(program, stage)) {
    if (program.blocks[static_cast<std::size_t>(one.block)].phase == phase && one.micro_batch[0] == micro_batch)
      one.micro_batch[0] = one.chunk[0] = -1;
  }
}

TEST(Check, RefusesAMicroBatchThatIsMissing) {
  Program backward = pipeline();
  leave_out(backward, 3, Phase::backward, 5);
  expect_refused(backward, "stage 3 (rank 6): the backward pass of micro-batch 5, chunk 0 is missing");
  Program forward = pipeline();
  leave_out(forward, 2, Phase::forward, 5);
  expect_refused(forward, "stage 2 (rank 4): backward of micro-batch 5, chunk 0 comes before its forward pass");
  Program whole = pipeline();
  for (int stage = 0; stage < 4; ++stage) {
    leave_out(whole, stage, Phase::forward, 5);
    leave_out(whole, stage, Phase::backward, 5);
  }
  expect_refused(whole, "micro-batch 5 enters the model 0 times");
}

TEST(Check, RefusesAPassThatIsThereTwice) {
  Program program = pipeline();
  std::vector<Instance>& list_of_last = list(program, 3);
  list_of_last.push_back(list_of_last[0]);
  expect_refused(program, "stage 3 (rank 6): forward of micro-batch 0, chunk 0 is there twice");
}

TEST(Check, RefusesABackwardPassBeforeItsForwardPass) {
  Program program = pipeline();
  std::swap(list(program, 3)[0].block, list(program, 3)[1].block);
  EXPECT_FALSE(check(program));
}

TEST(Check, RefusesAReceiveWithoutItsSend) {
  Program program = pipeline();
  op_of(own_block(program, 0, 1), OpKind::send).kind = OpKind::read;
  expect_refused(program, "stage 0 (rank 0), instance 1 does not send it");
}

TEST(Check, RefusesASendThatNobodyReceives) {
  Program program = pipeline();
  Op& recv = op_of(own_block(program, 3, 0), OpKind::recv);
  recv.kind = OpKind::read;
  recv.entry = false;
  expect_refused(program, "nobody receives it");
}

TEST(Check, RefusesTransfersOfDifferentSizes) {
  Program program = pipeline();
  op_of(own_block(program, 0, 1), OpKind::send).bytes += 1;
  expect_refused(program, "expects");
}

TEST(Check, RefusesEndsOfAChannelThatDisagreeAboutTheOrder) {
  Program program = *generate([] {
    spec::Job job = gpt_job(2, 1, 2);
    job.layout.schedule = spec::Schedule::gpipe;
    return job;
  }());
  std::swap(list(program, 1)[2], list(program, 1)[3]);  // two forward passes
  // Both ends still hold all passes; those that follow name instances by index.
  for (Instance& one : list(program, 1)) {
    for (Source& from : one.from) {
      if (from.kind == 1 && (from.instance == 2 || from.instance == 3)) from.instance = 5 - from.instance;
    }
  }
  expect_refused(program, "disagree");
}

TEST(Check, RefusesADeadlock) {
  Program program = pipeline();
  list(program, 0)[1].from[0] = {3, 1};  // the first forward pass waits for the first backward pass of the last stage
  expect_refused(program, "deadlock: it waits for instance 1 of stage 3 (rank 6)");
  Program itself = pipeline();
  list(itself, 2)[0].from[0] = {2, 4};
  expect_refused(itself, "stage 2 (rank 4), instance 0: comes behind instance 4 of its own list, which is later");
}

TEST(Check, RefusesAHandoverOfAnotherMicroBatch) {
  Program program = pipeline();
  list(program, 3)[3].from[0] = {3, 0};  // the backward pass of micro-batch 1 behind the forward pass of micro-batch 0
  expect_refused(program, "comes behind instance 0 of another micro-batch");
  list(program, 3)[3].from[0] = {};
  expect_refused(program, "receives nothing");
}

TEST(Check, RefusesStagesThatTheMeshDoesNotHave) {
  Program program = pipeline();
  program.kinds[1].chunks[0].next_stage = 9;
  expect_refused(program, "stages 0 and 9, but there are 4");
  program.kinds.pop_back();
  expect_refused(program, "3 kinds of ranks");
}

TEST(Check, RefusesOpsThatWaitForLaterOnes) {
  Program program = pipeline();
  Block& block = program.blocks[1];
  for (Op& op : block.ops) {
    if (op.waits.count == 0) continue;
    block.waits[static_cast<std::size_t>(op.waits.first)] = static_cast<int>(block.ops.size());
    break;
  }
  expect_refused(program, "which does not come before it");
}

TEST(Check, RefusesBuffersThatAreFreedTwiceOrNeverOrUsedWhenGone) {
  Program twice = pipeline();
  Program never = pipeline();
  for (Program* program : {&twice, &never}) {
    const auto backward = std::find_if(program->blocks.begin(), program->blocks.end(),
                                       [](const Block& block) { return block.phase == Phase::backward; });
    const auto freeing =
        std::find_if(backward->ops.begin(), backward->ops.end(), [](const Op& op) { return op.frees.count > 0; });
    if (program == &never) {
      freeing->frees.count = 0;
    } else {
      std::next(freeing)->frees = freeing->frees;
    }
  }
  expect_refused(twice, "is freed twice");
  expect_refused(never, "is never freed");
  Program gone = pipeline();
  const auto forward = std::find_if(gone.blocks.begin(), gone.blocks.end(),
                                    [](const Block& block) { return block.phase == Phase::forward; });
  for (Op& op : forward->ops) {
    if (op.creates.count > 0) op.frees = op.creates;
  }
  expect_refused(gone, "after it is freed");
}

TEST(Check, RefusesACollectiveThatOneStageDoesNotJoin) {
  Program program = pipeline();
  Block& tail = own_block(program, 2, list(program, 2).size() - 1);
  for (Op& op : tail.ops) {
    if (op.group == layout::Group::world) op.bytes = 8;
  }
  expect_refused(program, "does not take part");
}

TEST(Memory, OfOneForwardOneBackwardFallsFromStageToStage) {
  const Program program = pipeline();
  std::vector<double> activations;
  for (int stage = 0; stage < 4; ++stage) {
    const MemoryOverTime memory = memory_of(program, stage);
    activations.push_back(memory.at_peak[static_cast<std::size_t>(BufferKind::activations)]);
    EXPECT_EQ(memory.instances.size(), program.kinds[static_cast<std::size_t>(stage)].instances.size());
    EXPECT_GE(memory.peak_bytes, memory.resident_bytes);
  }
  EXPECT_NEAR(activations[0] / activations[3], 4, 1e-9);  // p - s micro-batches
  EXPECT_NEAR(activations[1] / activations[3], 3, 1e-9);
}

TEST(Memory, ThatIsTooLittleIsRefusedWithTheOp) {
  Program program = pipeline();
  EXPECT_TRUE(check_memory(program));
  program.memory_bytes = memory_of(program, 0).peak_bytes - 1e6;
  const Result<void> fits = check_memory(program);
  ASSERT_FALSE(fits);
  EXPECT_EQ(fits.error().kind, ErrorKind::infeasible);
  EXPECT_NE(fits.error().message.find("stage 0"), std::string::npos) << fits.error().message;
  EXPECT_NE(fits.error().message.find("1.00 MB too much"), std::string::npos) << fits.error().message;
  EXPECT_NE(fits.error().message.find("backward"), std::string::npos) << fits.error().message;
}

}  // namespace
}  // namespace twinpod::program
