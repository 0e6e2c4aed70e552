#include "comm/fault.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace twinpod::comm {
namespace {

// Twenty operations of changing verb and size; every rank does the same unless the options say otherwise.
Result<std::string> twenty_operations(Communicator& world) {
  std::vector<float> input(20000, 1);
  std::vector<float> output(20000 * static_cast<std::size_t>(size_of(world)));
  constexpr Verb kVerbs[] = {Verb::all_reduce, Verb::broadcast, Verb::all_gather, Verb::barrier};
  for (std::size_t i = 0; i < 20; ++i) {
    const Call call{
        .verb = kVerbs[i % 4], .input = input.data(), .output = output.data(), .count = i % 3 == 0 ? 20000U : 16U};
    if (Result<void> done = run(world, call); !done) return tl::unexpected(done.error());
  }
  return std::string("done");
}

struct End {
  Result<std::string> answer;
  double seconds = 0;
};

End end_of(const Fault& fault) {
  const auto start = std::chrono::steady_clock::now();
  End end{run_processes(4, {.timeout_s = 0.3, .recording_path = "", .fault = fault}, twenty_operations)};
  end.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return end;
}

class EveryFault : public testing::TestWithParam<std::pair<std::string_view, FaultKind>> {};

TEST_P(EveryFault, EndsEveryRankAndNamesTheCulpritAndTheOperation) {
  for (const int operation : {1, 2, 7, 15, 18}) {
    const End end = end_of({GetParam().second, 2, operation});
    ASSERT_FALSE(end.answer) << operation;
    const std::string& message = end.answer.error().message;
    EXPECT_NE(message.find("rank 2 "), std::string::npos) << message;
    EXPECT_NE(message.find("operation " + std::to_string(operation) + " "), std::string::npos) << message;
  }
}

INSTANTIATE_TEST_SUITE_P(Fault, EveryFault, testing::ValuesIn(kFaultNames),
                         [](const auto& each) { return std::string(each.param.first); });

TEST(Fault, NoneLetsTheRunEnd) {
  const End end = end_of({});
  ASSERT_TRUE(end.answer) << end.answer.error().message;
  EXPECT_EQ(*end.answer, "done");
}

TEST(Fault, ARankThatReturnsEarlyIsNamed) {
  const Result<std::string> answer =
      run_processes(3, {.timeout_s = 0.2, .recording_path = ""}, [](Communicator& world) -> Result<std::string> {
        if (rank_of(world) == 1) return std::string();
        if (Result<void> done = run(world, {.verb = Verb::barrier}); !done) return tl::unexpected(done.error());
        return std::string();
      });
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("rank 1 ended before its first operation"), std::string::npos)
      << answer.error().message;
}

TEST(Fault, AnErrorOfOneRankEndsTheOthers) {
  const Result<std::string> answer =
      run_processes(3, {.timeout_s = 20, .recording_path = ""}, [](Communicator& world) -> Result<std::string> {
        if (rank_of(world) == 2) return infeasible("no more paper");
        if (Result<void> done = run(world, {.verb = Verb::barrier}); !done) return tl::unexpected(done.error());
        return std::string();
      });
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("rank 2 failed before its first operation: no more paper"), std::string::npos);
}

TEST(Fault, AMessageThatNobodySendsIsNamed) {
  const Result<std::string> answer =
      run_threads(2, {.timeout_s = 0.2, .recording_path = ""}, [](Communicator& world) -> Result<std::string> {
        float value = 0;
        if (rank_of(world) == 1) return std::string();
        const Result<std::size_t> got = receive(world, &value, sizeof value, 1, 5);
        if (!got) return tl::unexpected(got.error());
        return std::string();
      });
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("rank 1 ended"), std::string::npos) << answer.error().message;
}

TEST(Fault, IsReadFromTextAndRefusedByName) {
  EXPECT_EQ(parse_fault("kill:2@17")->operation, 17);
  for (const char* const text : {"kil:2@17", "kill", "kill:2", "kill:x@1", "kill:1@0", "kill:1@2x", ""}) {
    EXPECT_FALSE(parse_fault(text)) << text;
  }
}

}  // namespace
}  // namespace twinpod::comm
