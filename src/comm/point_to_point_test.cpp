#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "comm/communicator.hpp"

namespace twinpod::comm {
namespace {

using Answer = Result<std::string>;
const Options kOptions{.timeout_s = 10};

std::vector<int> numbers(std::size_t count, int first) {
  std::vector<int> all(count);
  std::iota(all.begin(), all.end(), first);
  return all;
}

Answer exchange_sizes(Communicator& world, bool shared) {
  const int other = 1 - rank_of(world);
  for (const std::size_t count : {0, 1, 6, 7, 1000, 4096, 100'003, 1'500'000}) {
    const std::vector<int> out = numbers(count, rank_of(world));
    int* const memory = static_cast<int*>(allocate(world, (2 * count + 1) * sizeof(int)).value());
    std::vector<int> own(2 * count + 1);
    int* const base = shared ? memory : own.data();
    if (count > 0) std::memcpy(base, out.data(), count * sizeof(int));
    Result<Handle> sent = start_send(world, base, count * sizeof(int), other, 3);
    const Result<std::size_t> received = receive(world, base + count, count * sizeof(int), other, 3);
    if (!received) return tl::unexpected(received.error());
    if (Result<void> done = sent->wait(); !done) return tl::unexpected(done.error());
    const bool right =
        *received == count * sizeof(int) && std::equal(base + count, base + 2 * count, numbers(count, other).begin());
    release(world, memory);
    if (!right) return infeasible("wrong at " + std::to_string(count));
  }
  return std::string();
}

TEST(PointToPoint, AnySizeArrivesBetweenProcesses) {
  for (const bool shared : {false, true}) {
    const Answer answer =
        run_processes(2, kOptions, [&](Communicator& world) { return exchange_sizes(world, shared); });
    EXPECT_TRUE(answer) << answer.error().message;
  }
}

TEST(PointToPoint, AnySizeArrivesBetweenThreads) {
  const Answer answer = run_threads(2, kOptions, [&](Communicator& world) { return exchange_sizes(world, false); });
  EXPECT_TRUE(answer) << answer.error().message;
}

// Large and small messages, sent in one order and asked for in the other.
Answer by_tag(Communicator& world) {
  constexpr int kMessages = 100;
  const auto size_of_message = [](int tag) { return static_cast<std::size_t>(tag % 3 == 0 ? 50'000 : 5); };
  if (rank_of(world) == 0) {
    std::vector<std::vector<int>> data;
    std::vector<Handle> handles;
    for (int tag = 0; tag < kMessages; ++tag) data.push_back(numbers(size_of_message(tag), tag));
    for (int tag = 0; tag < kMessages; ++tag) {
      const std::vector<int>& one = data[static_cast<std::size_t>(tag)];
      handles.push_back(std::move(*start_send(world, one.data(), one.size() * sizeof(int), 1, tag)));
    }
    for (Handle& handle : handles) {
      if (Result<void> done = handle.wait(); !done) return tl::unexpected(done.error());
    }
    return std::string();
  }
  for (int tag = kMessages - 1; tag >= 0; --tag) {
    std::vector<int> got(size_of_message(tag));
    const Result<std::size_t> received = receive(world, got.data(), got.size() * sizeof(int), 0, tag);
    if (!received) return tl::unexpected(received.error());
    if (got != numbers(got.size(), tag)) return infeasible("wrong at tag " + std::to_string(tag));
  }
  return std::string();
}

TEST(PointToPoint, TagsMayBeAskedForInAnyOrder) {
  for (const bool kernel_copies : {false, true}) {
    const Answer answer = run_processes(2, {.timeout_s = 10, .kernel_copies = kernel_copies}, by_tag);
    EXPECT_TRUE(answer) << answer.error().message;
  }
  const Answer between_threads = run_threads(2, kOptions, by_tag);
  EXPECT_TRUE(between_threads) << between_threads.error().message;
}

// Who speaks changes at random, and so does how many messages come before an answer, how long they are, and whether the
// sender waits for each: the ring is found empty, half full and full, and begins anew at all of these.
Answer talk(Communicator& world) {
  constexpr int kTurns = 300;
  std::mt19937 random(7);  // the same on both ranks
  const auto draw = [&](std::uint32_t below) { return static_cast<std::size_t>(random() % below); };
  for (int turn = 0; turn < kTurns; ++turn) {
    const int speaker = static_cast<int>(draw(2));
    const std::size_t messages = 1 + draw(draw(4) == 0 ? 200 : 3);
    const bool waits = draw(2) == 0;
    std::vector<std::vector<int>> data;
    std::vector<Handle> handles;
    for (std::size_t i = 0; i < messages; ++i) {
      const std::size_t most[] = {9, 600, 3000, 20'000};
      const int first = 100'000 * turn + static_cast<int>(i);
      data.push_back(numbers(draw(static_cast<std::uint32_t>(most[draw(4)])), first));
    }
    for (const std::vector<int>& one : data) {
      const std::size_t bytes = one.size() * sizeof(int);
      if (rank_of(world) != speaker) {
        std::vector<int> got(one.size());
        const Result<std::size_t> received = receive(world, got.data(), bytes, speaker, turn);
        if (!received) return tl::unexpected(received.error());
        if (*received != bytes || got != one) return infeasible("wrong in turn " + std::to_string(turn));
      } else if (waits) {
        if (Result<void> done = send(world, one.data(), bytes, 1 - speaker, turn); !done)
          return tl::unexpected(done.error());
      } else {
        handles.push_back(std::move(*start_send(world, one.data(), bytes, 1 - speaker, turn)));
      }
    }
    for (Handle& handle : handles) {
      if (Result<void> done = handle.wait(); !done) return tl::unexpected(done.error());
    }
  }
  return std::string();
}

TEST(PointToPoint, WhoeverSpeaksAndHoweverLongNothingIsLost) {
  for (const bool kernel_copies : {false, true}) {
    const Answer answer = run_processes(2, {.timeout_s = 10, .kernel_copies = kernel_copies}, talk);
    EXPECT_TRUE(answer) << answer.error().message;
  }
  const Answer between_threads = run_threads(2, kOptions, talk);
  EXPECT_TRUE(between_threads) << between_threads.error().message;
}

// What a message says of the other direction's ring is old if nobody looks at the message for long. Two GiB later it
// must not be taken for what is to come. The turns are told past the communicator, so that rank 0 does not look.
Answer speak_for_long(Communicator& world, std::atomic<int>& turns) {
  constexpr std::size_t kHalfARing = std::size_t{128} << 10U;
  constexpr int kTurns = static_cast<int>((std::size_t{5} << 29U) / kHalfARing);
  const auto await_turn = [&](int turn) {
    while (turns.load() < turn) std::this_thread::yield();
  };
  const std::vector<int> last = numbers(4 * kHalfARing / sizeof(int), 5);
  std::vector<int> got(last.size());
  int old = 7;
  if (rank_of(world) == 1) {
    if (Result<void> done = send(world, &old, sizeof old, 0, 9); !done) return tl::unexpected(done.error());
    for (int turn = 0; turn < kTurns; ++turn) {
      if (const auto received = receive(world, got.data(), kHalfARing, 0, 1); !received)
        return tl::unexpected(received.error());
      turns.store(turn + 1);
    }
    await_turn(kTurns + 1);
    const auto received = receive(world, got.data(), last.size() * sizeof(int), 0, 2);
    if (!received) return tl::unexpected(received.error());
    return got == last ? Answer(std::string()) : infeasible("what was not read yet was written over");
  }
  for (int turn = 0; turn < kTurns; ++turn) {
    if (Result<void> done = send(world, last.data(), kHalfARing, 1, 1); !done) return tl::unexpected(done.error());
    await_turn(turn + 1);
  }
  if (const auto received = receive(world, &old, sizeof old, 1, 9); !received) return tl::unexpected(received.error());
  Result<Handle> sent = start_send(world, last.data(), last.size() * sizeof(int), 1, 2);
  turns.store(kTurns + 1);
  if (Result<void> done = sent->wait(); !done) return tl::unexpected(done.error());
  return std::string();
}

TEST(PointToPoint, WhoSpeaksForLongWithoutListeningLosesNothing) {
  void* const memory =
      mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& turns = *new (memory) std::atomic<int>(0);
  const Answer answer = run_processes(2, {.timeout_s = 10, .kernel_copies = false},
                                      [&](Communicator& world) { return speak_for_long(world, turns); });
  EXPECT_TRUE(answer) << answer.error().message;
  munmap(memory, sizeof(std::atomic<int>));
}

TEST(PointToPoint, AMessageThatIsTooLongIsRefused) {
  const Answer answer = run_threads(2, kOptions, [](Communicator& world) -> Answer {
    int value[4] = {1, 2, 3, 4};
    if (rank_of(world) == 0) {
      (void)send(world, value, sizeof value, 1);
      return std::string();
    }
    const Result<std::size_t> received = receive(world, value, sizeof(int), 0);
    return received ? Answer(infeasible("accepted")) : Answer(std::string());
  });
  EXPECT_TRUE(answer) << answer.error().message;
}

TEST(PointToPoint, PeersAndTagsThatAreNotThereAreRefused) {
  const Answer answer = run_threads(2, kOptions, [](Communicator& world) -> Answer {
    int value = 0;
    const bool refused = !send(world, &value, 4, 2) && !send(world, &value, 4, -1) && !send(world, &value, 4, 0, -1) &&
                         !send(world, nullptr, 4, 0) && !receive(world, &value, 4, 0, kMaxTag + 1);
    return refused ? Answer(std::string()) : Answer(infeasible("accepted"));
  });
  EXPECT_TRUE(answer) << answer.error().message;
}

TEST(Group, SplitGivesEachColorItsOwnRanksInTheOrderOfTheKeys) {
  const Answer answer = run_processes(5, kOptions, [](Communicator& world) -> Answer {
    const int rank = rank_of(world);
    Result<Group> group = split(world, rank == 4 ? -1 : rank % 2, -rank);
    if (!group) return tl::unexpected(group.error());
    if (rank == 4) return *group == nullptr ? Answer(std::string()) : Answer(infeasible("rank 4 has a group"));
    std::vector<int> ranks(2);
    for (int i = 0; i < 3; ++i) {
      const Result<void> done =
          run(**group,
              {.verb = Verb::all_gather, .input = &rank, .output = ranks.data(), .count = 1, .type = ElementType::i32});
      if (!done) return tl::unexpected(done.error());
    }
    const std::vector<int> expected = rank % 2 == 0 ? std::vector<int>{2, 0} : std::vector<int>{3, 1};
    if (ranks != expected || size_of(**group) != 2) return infeasible("wrong order");
    return std::string();
  });
  EXPECT_TRUE(answer) << answer.error().message;
}

TEST(NonBlocking, CollectivesRunInOrderWhileTheCallerGoesOn) {
  const Answer answer = run_processes(3, kOptions, [](Communicator& world) -> Answer {
    std::vector<std::vector<float>> buffers(10, std::vector<float>(30'000, 1));
    std::vector<Handle> handles;
    for (std::vector<float>& buffer : buffers) {
      handles.push_back(
          std::move(*start(world, {.input = buffer.data(), .output = buffer.data(), .count = buffer.size()})));
    }
    float last = static_cast<float>(rank_of(world));
    const Result<void> behind = run(world, {.input = &last, .output = &last, .count = 1, .op = ReduceOp::max});
    if (!behind) return tl::unexpected(behind.error());
    for (Handle& handle : handles) {
      if (!handle.done()) return infeasible("a later operation was first");
      if (Result<void> done = handle.wait(); !done) return tl::unexpected(done.error());
    }
    for (const std::vector<float>& buffer : buffers) {
      if (buffer != std::vector<float>(30'000, 3)) return infeasible("wrong sum");
    }
    return last == 2 ? Answer(std::string()) : Answer(infeasible("wrong maximum"));
  });
  EXPECT_TRUE(answer) << answer.error().message;
}

TEST(Memory, WhatIsReleasedIsUsedAgain) {
  const Answer answer = run_processes(1, kOptions, [](Communicator& world) -> Answer {
    void* const a = allocate(world, 10'000).value();
    void* const b = allocate(world, 10'000).value();
    static_cast<char*>(a)[0] = 1;
    release(world, a);
    release(world, b);
    void* const c = allocate(world, 20'000).value();
    const bool good = c == a && static_cast<char*>(c)[0] == 0;
    const bool refused = !allocate(world, std::size_t{1} << 60U);
    return good && refused ? Answer(std::string()) : Answer(infeasible("not used again"));
  });
  EXPECT_TRUE(answer) << answer.error().message;
}

// Huge or not, as the kernel likes: in either case zero at first, where a huge page can begin, and used again.
TEST(Memory, LargeMemoryBeginsWhereAHugePageCan) {
  const Answer answer = run_processes(2, kOptions, [](Communicator& world) -> Answer {
    constexpr std::size_t kHuge = std::size_t{2} << 20U;
    const auto is_zero = [](const char* from, std::size_t bytes) {
      return std::all_of(from, from + bytes, [](char one) { return one == 0; });
    };
    auto* const small = static_cast<char*>(allocate(world, 100).value());
    std::memset(small, 7, 100);
    auto* const large = static_cast<char*>(allocate(world, 2 * kHuge + 1).value());
    if (reinterpret_cast<std::uintptr_t>(large) % kHuge != 0) return infeasible("not aligned");
    if (!is_zero(large, 2 * kHuge + 1)) return infeasible("not zero");
    std::memset(large, 1, 2 * kHuge + 1);
    if (small[0] != 7 || small[99] != 7) return infeasible("the other one was changed");
    release(world, large);
    auto* const again = static_cast<char*>(allocate(world, 2 * kHuge).value());
    if (again != large || !is_zero(again, 2 * kHuge)) return infeasible("not used again");
    void* const huge = allocate_huge(world, 2 * kHuge);
    if (huge != nullptr && reinterpret_cast<std::uintptr_t>(huge) % kHuge != 0) return infeasible("huge, not aligned");
    if (allocate_huge(world, 1000) != nullptr) return infeasible("too small to be huge");
    return std::string();
  });
  EXPECT_TRUE(answer) << answer.error().message;
}

}  // namespace
}  // namespace twinpod::comm
