#include "comm/communicator.hpp"

#include <gtest/gtest.h>

#include "collective/names.hpp"
#include "comm/test_calls.hpp"

namespace twinpod::comm {
namespace {

using collective::Algorithm;

// Every way in which a verb can be carried out between local ranks.
std::vector<Choice> choices_of(Verb verb, int ranks) {
  std::vector<Choice> all = {{Method::automatic}};
  if (verb == Verb::send) return all;
  all.push_back({Method::inlined});
  if (verb != Verb::barrier) all.push_back({Method::staged});
  for (const Algorithm algorithm : collective::algorithms_of(verb)) {
    if (algorithm == Algorithm::in_network) continue;
    Choice choice{Method::scheduled, algorithm};
    choice.shape.ranks_per_node = 2;
    choice.shape.torus = {ranks};
    choice.shape.pieces = 3;
    all.push_back(choice);
  }
  return all;
}

bool fits_inline(const Call& call, int ranks) {
  return call.count * size_of(call.type) * static_cast<std::size_t>(ranks) <= 32768;
}

// Runs each call on all ranks, with threads; the first complaint of each rank.
void expect_right(int ranks, const std::vector<Call>& calls, const std::vector<bool>& places) {
  const Result<std::string> answer =
      run_threads(ranks, {.timeout_s = 20, .recording_path = ""}, [&](Communicator& world) -> Result<std::string> {
        for (const Call& call : calls) {
          for (const bool in_place : places) {
            if (in_place && call.verb == Verb::send) continue;
            const std::string wrong = checked_run(world, call, in_place, false, 3);
            if (!wrong.empty()) return infeasible(wrong);
          }
        }
        return std::string();
      });
  EXPECT_TRUE(answer) << answer.error().message;
}

class EveryVerb : public testing::TestWithParam<std::pair<std::string_view, Verb>> {};

TEST_P(EveryVerb, IsRightByEveryMethodOnAnyNumberOfRanks) {
  const Verb verb = GetParam().second;
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
    if (verb == Verb::send && ranks == 1) continue;
    std::vector<Call> calls;
    for (const Choice& choice : choices_of(verb, ranks)) {
      for (const std::size_t count :
           {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{101}, std::size_t{9973}}) {
        Call call{.verb = verb, .count = count, .root = ranks / 2, .peer = ranks / 2 == 0 ? 1 : 0, .choice = choice};
        if (choice.method != Method::inlined || fits_inline(call, ranks)) calls.push_back(call);
      }
    }
    expect_right(ranks, calls, {false, true});
  }
}

TEST_P(EveryVerb, IsRightForEveryTypeAndOperation) {
  const Verb verb = GetParam().second;
  std::vector<Call> calls;
  for (const auto& [type_name, type] : kElementTypeNames) {
    for (const auto& [op_name, op] : kReduceOpNames) {
      for (const Method method : {Method::automatic, Method::staged}) {
        if (method == Method::staged && (verb == Verb::send || verb == Verb::barrier)) continue;
        calls.push_back({.verb = verb, .count = 300, .type = type, .op = op, .choice = {method}});
        calls.push_back({.verb = verb, .count = 33333, .type = type, .op = op, .choice = {method}});
      }
    }
  }
  expect_right(3, calls, {false, true});
}

TEST_P(EveryVerb, IsRightWhenItIsLargerThanAWindow) {
  const Verb verb = GetParam().second;
  std::vector<Call> calls;
  for (const Choice& choice : choices_of(verb, 3)) {
    if (choice.method != Method::inlined) calls.push_back({.verb = verb, .count = 1'000'003, .choice = choice});
  }
  expect_right(3, calls, {false});
}

INSTANTIATE_TEST_SUITE_P(Communicator, EveryVerb, testing::ValuesIn(collective::kVerbNames),
                         [](const auto& each) { return std::string(each.param.first); });

TEST(Communicator, CallsThatMakeNoSenseAreRefusedAndTheRunGoesOn) {
  const Result<std::string> answer = run_threads(2, {.timeout_s = 10}, [](Communicator& world) -> Result<std::string> {
    std::vector<float> a(20000);
    std::vector<float> b(40000);
    const auto refused = [&](const Call& call) { return !run(world, call) && !start(world, call)->wait(); };
    const Call good{.input = a.data(), .output = b.data(), .count = 20000};
    Call too_large = good;
    too_large.choice.method = Method::inlined;
    Call no_schedule = good;
    no_schedule.choice = {Method::scheduled, Algorithm::in_network};
    Call native = good;
    native.choice.method = Method::native;
    const bool all = refused(too_large) && refused(no_schedule) && refused(native);
    const bool roots =
        !run(world, {.verb = Verb::broadcast, .input = a.data(), .output = a.data(), .count = 1, .root = 2}) &&
        !run(world, {.verb = Verb::broadcast, .count = 1}) && !run(world, {.count = 1});
    if (!all || !roots) return infeasible("something was accepted");
    if (Result<void> done = run(world, good); !done) return tl::unexpected(done.error());
    return std::string("went on");
  });
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(*answer, "went on");
}

TEST(Communicator, BetweenProcessesEveryVerbIsRightInEveryKindOfMemory) {
  for (const bool kernel_copies : {true, false}) {
    const Options options{.timeout_s = 20, .kernel_copies = kernel_copies};
    const Result<std::string> answer = run_processes(3, options, [](Communicator& world) -> Result<std::string> {
      for (const auto& [name, verb] : collective::kVerbNames) {
        // Buffers of all ranks are shared, of some, of none; small, through windows, and through the kernel.
        for (const bool even_shared : {true, false}) {
          for (const bool odd_shared : {true, false}) {
            const bool shared = rank_of(world) % 2 == 0 ? even_shared : odd_shared;
            for (const std::size_t count : {std::size_t{7}, std::size_t{3'001}, std::size_t{50'021}}) {
              const Call call{.verb = verb, .count = count, .root = 1, .peer = 0};
              const std::string wrong = checked_run(world, call, false, shared, 0);
              if (!wrong.empty()) return infeasible(wrong);
            }
          }
        }
      }
      return fmt::format("rank {}", rank_of(world));
    });
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(*answer, "rank 0");
  }
}

TEST(Communicator, SmallPiecesOfOrdinaryMemoryGoThroughWindowsAndLargeOnesThroughTheKernel) {
  const Result<std::string> answer =
      run_processes(2, {.timeout_s = 20}, [](Communicator& world) -> Result<std::string> {
        std::string methods;
        for (const std::size_t count : {std::size_t{64}, std::size_t{2048}, std::size_t{1} << 20U}) {
          for (const bool shared : {true, false}) {
            methods += fmt::format(" {}", name_of(choice_for(world, {.count = count}, shared)));
          }
        }
        return methods;
      });
  ASSERT_TRUE(answer) << answer.error().message;
  // Where the kernel lets nobody reach the memory of another process, windows carry everything.
  const std::string most = " inlined inlined mapped staged mapped";
  EXPECT_TRUE(*answer == most + " remote" || *answer == most + " staged") << *answer;
}

// After some calls its pages become huge (huge_pages.hpp).
TEST(Communicator, OrdinaryMemoryThatIsUsedAgainAndAgainStaysRight) {
  const Result<std::string> answer =
      run_processes(2, {.timeout_s = 20}, [](Communicator& world) -> Result<std::string> {
        constexpr std::size_t kCount = 1'300'003;
        std::vector<float> input(kCount);
        std::vector<float> output(kCount);
        for (int round = 0; round < 40; ++round) {
          for (std::size_t i = 0; i < kCount; ++i) {
            input[i] =
                static_cast<float>(rank_of(world)) + static_cast<float>((i + static_cast<std::size_t>(round)) % 1000);
          }
          const Call call{.input = input.data(), .output = output.data(), .count = kCount};
          if (Result<void> done = run(world, call); !done) return tl::unexpected(done.error());
          for (std::size_t i = 0; i < kCount; ++i) {
            const auto expected = static_cast<float>(1 + 2 * ((i + static_cast<std::size_t>(round)) % 1000));
            if (output[i] != expected) return infeasible(fmt::format("round {}: {} at {}", round, output[i], i));
          }
        }
        return std::string("right");
      });
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(*answer, "right");
}

}  // namespace
}  // namespace twinpod::comm
