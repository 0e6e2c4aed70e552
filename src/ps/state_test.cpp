#include "ps/state.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/rng.hpp"

namespace twinpod::ps {
namespace {

constexpr std::int64_t kCount = 37;

Message workers_entry(const std::vector<NodeId>& workers) {
  Message entry{.entry = Kind::view};
  entry.payload = encode_workers(workers);
  return entry;
}

Message push_entry(NodeId worker, std::uint64_t sequence, std::int64_t clock, std::vector<float> gradient) {
  Message entry{.entry = Kind::push, .worker = worker, .sequence = sequence, .clock = clock};
  entry.payload = payload_of(std::move(gradient));
  return entry;
}

ShardState started(const Settings& settings, const std::vector<NodeId>& workers, const std::vector<float>& values) {
  ShardState state = empty_state({.count = static_cast<std::int64_t>(values.size())});
  apply(settings, workers_entry(workers), state);
  Message entry{.entry = Kind::initial};
  entry.payload = payload_of(values);
  apply(settings, entry, state);
  return state;
}

Message pull_at(NodeId worker, std::uint64_t sequence, std::int64_t clock) {
  return {.kind = Kind::pull, .worker = worker, .sequence = sequence, .clock = clock};
}

std::vector<float> random_numbers(Rng& rng, std::size_t count = kCount) {
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>(rng.uniform(-1, 1));
  return numbers;
}

// The trainer's way: gradients summed in the order of ranks, the optimizer on the sum.
template <typename Update>
void all_reduce_step(const std::vector<std::vector<float>>& gradients, const Update& update) {
  std::vector<float> sum = gradients[0];
  for (std::size_t rank = 1; rank < gradients.size(); ++rank) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradients[rank][i];
  }
  update(sum);
}

// In whatever order the pushes come.
TEST(PsState, SyncIsBitForBitAnAllReduceInTheOrderOfRanks) {
  for (const Optimizer optimizer : {Optimizer::sgd, Optimizer::adamw}) {
    const Settings settings{.mode = Mode::sync, .optimizer = optimizer};
    Rng rng(3);
    const std::vector<NodeId> workers = {4, 5, 9};
    const std::vector<float> initial = random_numbers(rng);
    ShardState state = started(settings, workers, initial);
    std::vector<float> master = initial;
    std::vector<float> mean(kCount);
    std::vector<float> square(kCount);
    for (std::int64_t clock = 0; clock < 5; ++clock) {
      std::vector<std::vector<float>> gradients;
      for (std::size_t rank = 0; rank < 3; ++rank) gradients.push_back(random_numbers(rng));
      all_reduce_step(gradients, [&](const std::vector<float>& sum) {
        const kernel::Sgd sgd{.gradient_scale = 1.0 / 3};
        const kernel::AdamW adamw{.gradient_scale = 1.0 / 3, .step = clock + 1};
        if (optimizer == Optimizer::sgd) {
          kernel::sgd<float>(sgd, kCount, master.data(), nullptr, sum.data(), mean.data());
        } else {
          kernel::adamw<float>(adamw, kCount, master.data(), nullptr, sum.data(), mean.data(), square.data());
        }
      });
      const std::size_t first = rng.below(3);
      for (std::size_t k = 0; k < 3; ++k) {
        const std::size_t rank = (first + 2 * k) % 3;
        EXPECT_EQ(state.version, clock);
        apply(settings, push_entry(workers[rank], static_cast<std::uint64_t>(clock) + 1, clock, gradients[rank]),
              state);
      }
      EXPECT_EQ(state.version, clock + 1);
      EXPECT_EQ(std::memcmp(state.values->data(), master.data(), kCount * sizeof(float)), 0);
    }
  }
}

TEST(PsState, SspReadsHoldAllUpdatesUpToTheBound) {
  const Settings settings{.mode = Mode::ssp, .staleness = 2, .optimizer = Optimizer::add};
  ShardState state = started(settings, {1, 2}, {0});
  for (std::uint64_t n = 1; n <= 3; ++n) {
    EXPECT_TRUE(may_read(settings, state, pull_at(1, n - 1, static_cast<std::int64_t>(n) - 1)));
    apply(settings, push_entry(1, n, static_cast<std::int64_t>(n) - 1, {1}), state);
  }
  EXPECT_FALSE(may_read(settings, state, pull_at(1, 3, 3)));  // it would lack clock 0 of worker 2
  EXPECT_FALSE(may_read(settings, state, pull_at(2, 1, 0)));  // its own push is not here yet
  apply(settings, push_entry(2, 1, 0, {1}), state);
  EXPECT_TRUE(may_read(settings, state, pull_at(1, 3, 3)));
  EXPECT_EQ((*state.values)[0], 4);
}

TEST(PsState, ANewWorkerStartsWhereTheOthersAre) {
  const Settings settings{.mode = Mode::ssp, .staleness = 0, .optimizer = Optimizer::add};
  ShardState state = started(settings, {1}, {0});
  for (std::uint64_t n = 1; n <= 3; ++n)
    apply(settings, push_entry(1, n, static_cast<std::int64_t>(n) - 1, {1}), state);
  apply(settings, workers_entry({1, 7}), state);
  EXPECT_EQ(progress_of(state, 7)->clock, 2);
  EXPECT_TRUE(may_read(settings, state, pull_at(1, 3, 3)));
}

TEST(PsState, AWorkerThatGoesLeavesWhatItPushedAndHoldsNobodyUp) {
  const Settings settings{.mode = Mode::sync, .mean = false, .optimizer = Optimizer::add};
  ShardState state = started(settings, {1, 2, 3}, {0});
  apply(settings, push_entry(2, 1, 0, {10}), state);
  apply(settings, push_entry(1, 1, 0, {1}), state);
  EXPECT_EQ(state.version, 0);
  apply(settings, workers_entry({1, 2}), state);
  EXPECT_EQ(state.version, 1);
  apply(settings, push_entry(2, 2, 1, {10}), state);
  apply(settings, workers_entry({1}), state);
  apply(settings, push_entry(1, 2, 1, {1}), state);
  EXPECT_EQ((*state.values)[0], 22);
}

TEST(PsState, WithBackupWorkersTheFirstPushesCountAndLateOnesAreAccountedFor) {
  const Settings settings{.mode = Mode::sync, .backup_workers = 1, .optimizer = Optimizer::add};
  ShardState state = started(settings, {1, 2, 3}, {0});
  apply(settings, push_entry(3, 1, 0, {4}), state);
  apply(settings, push_entry(1, 1, 0, {2}), state);
  EXPECT_EQ(state.version, 1);
  EXPECT_EQ((*state.values)[0], 3);  // the mean of two
  apply(settings, push_entry(2, 1, 0, {100}), state);
  EXPECT_EQ((*state.values)[0], 3);
  EXPECT_EQ(state.applied, 2U);
  EXPECT_EQ(state.dropped, 1U);
}

Message norm_entry(std::int64_t clock, double norm) { return {.entry = Kind::norm, .clock = clock, .rate = norm}; }

TEST(PsState, AClockWaitsForItsNorm) {
  const Settings settings{.mode = Mode::sync, .clip = 2.5, .optimizer = Optimizer::add};
  ShardState state = started(settings, {1, 2}, {0, 0});
  EXPECT_FALSE(squares_at(state, 0));
  apply(settings, push_entry(1, 1, 0, {2, 8}), state);
  apply(settings, push_entry(2, 1, 0, {4, 0}), state);
  EXPECT_EQ(*squares_at(state, 0), std::vector<double>{25});  // of the mean, (3, 4)
  EXPECT_FALSE(may_read(settings, state, pull_at(1, 1, 1)));
  EXPECT_EQ(num_waiting(state), 2U);
  apply(settings, norm_entry(1, 100), state);  // of another clock
  EXPECT_EQ(state.version, 0);
  apply(settings, norm_entry(0, 10), state);
  EXPECT_EQ((*state.values)[1], 1);  // 4 · 2.5 / 10
  apply(settings, norm_entry(0, 10), state);
  EXPECT_EQ((*state.values)[1], 1);
  EXPECT_EQ(state.applied, 2U);
  EXPECT_EQ(*squares_at(state, 0), std::vector<double>{25});  // for who asks
  EXPECT_TRUE(may_read(settings, state, pull_at(1, 1, 1)));
  apply(settings, push_entry(1, 2, 1, {2, 2}), state);
  apply(settings, push_entry(2, 2, 1, {2, 2}), state);
  apply(settings, norm_entry(1, 2.4), state);  // small enough
  EXPECT_EQ((*state.values)[1], 3);
}

// It is too late for the clock that waits for its norm.
TEST(PsState, ANewWorkerStartsBehindWhatIsClosed) {
  const Settings settings{.mode = Mode::sync, .clip = 1, .optimizer = Optimizer::add};
  ShardState state = started(settings, {1}, {0});
  apply(settings, push_entry(1, 1, 0, {1}), state);
  apply(settings, workers_entry({1, 7}), state);
  EXPECT_EQ(progress_of(state, 7)->clock, 0);
  apply(settings, workers_entry({}), state);
  EXPECT_EQ(state.version, 0);
  apply(settings, norm_entry(0, 1), state);
  EXPECT_EQ((*state.values)[0], 1);
}

TEST(PsState, SquaresOfAClockToWhichNobodyContributedAreNone) {
  const Settings settings{.mode = Mode::sync, .clip = 1, .optimizer = Optimizer::add};
  ShardState state = started(settings, {1}, {0});
  apply(settings, {.entry = Kind::clock, .worker = 1, .sequence = 1, .clock = 99}, state);
  EXPECT_EQ(state.version, 100);
  EXPECT_EQ(*squares_at(state, 99), std::vector<double>{});
  EXPECT_FALSE(squares_at(state, 100));
  EXPECT_FALSE(squares_at(state, 100 - kKeptSquares - 1));
}

// Found by the fuzzer: each of the clocks in between was looked at.
TEST(PsState, AFarClockIsReachedAtOnce) {
  const Settings settings{.mode = Mode::sync, .optimizer = Optimizer::add};
  ShardState state = started(settings, {1}, {0});
  constexpr std::int64_t kFar = std::int64_t{1} << 60U;
  apply(settings, push_entry(1, 1, kFar, {2}), state);
  EXPECT_EQ(state.version, kFar + 1);
  EXPECT_EQ((*state.values)[0], 2);
}

TEST(PsState, AnswersOnTheirWayDoNotChange) {
  const Settings settings{.mode = Mode::async, .optimizer = Optimizer::add};
  ShardState state = started(settings, {1}, {5});
  const float* const before = state.values->data();
  apply(settings, push_entry(1, 1, 0, {1}), state);
  EXPECT_EQ(state.values->data(), before);  // nobody else has it: changed in place
  const Payload answer = payload_of(std::shared_ptr<const Values>(state.values));
  apply(settings, push_entry(1, 2, 1, {1}), state);
  EXPECT_EQ(floats_of(answer)[0], 6);
  EXPECT_EQ((*state.values)[0], 7);
}

// Two places take turns while each answer is held until the next has come; without answers the values stay.
TEST(PsState, UpdatesGoWhereNobodyReads) {
  const Settings settings{.mode = Mode::async, .optimizer = Optimizer::add};
  ShardState state = started(settings, {1}, {1, 2});
  Payload held = share_values(state);
  std::vector<const float*> places;
  for (std::uint64_t i = 1; i <= 4; ++i) {
    apply(settings, push_entry(1, i, static_cast<std::int64_t>(i) - 1, {1, 1}), state);
    EXPECT_EQ(floats_of(held)[0], static_cast<float>(i));
    held = share_values(state);
    places.push_back(floats_of(held).data());
  }
  EXPECT_NE(places[0], places[1]);
  EXPECT_EQ(places[0], places[2]);
  EXPECT_EQ(places[1], places[3]);
  held = {};
  apply(settings, push_entry(1, 5, 4, {1, 1}), state);
  EXPECT_EQ(values_of(state).data(), places[3]);
  EXPECT_EQ(values_of(state)[1], 7);
}

// Whatever the optimizer, in place and beside an answer that is on its way; the last part is not whole.
TEST(PsState, ATeamChangesNoBit) {
  constexpr std::size_t kMany = 150'001;
  for (const Optimizer optimizer : {Optimizer::add, Optimizer::replace, Optimizer::sgd, Optimizer::adamw}) {
    for (const Mode mode : {Mode::sync, Mode::async}) {
      const Settings settings{.mode = mode, .optimizer = optimizer};
      Rng rng(5);
      Team team(2);
      const std::vector<float> initial = random_numbers(rng, kMany);
      ShardState alone = started(settings, {1, 2}, initial);
      ShardState together = started(settings, {1, 2}, initial);
      Payload held;
      for (std::uint64_t i = 1; i <= 3; ++i) {
        for (const NodeId worker : {1, 2}) {
          const Message entry = push_entry(worker, i, static_cast<std::int64_t>(i) - 1, random_numbers(rng, kMany));
          apply(settings, entry, alone);
          apply(settings, entry, together, &team);
        }
        if (i > 1) held = share_values(together);
        ASSERT_EQ(std::memcmp(values_of(alone).data(), values_of(together).data(), kMany * sizeof(float)), 0)
            << static_cast<int>(optimizer) << ' ' << i;
      }
    }
  }
}

TEST(PsState, AReplacementIsNotCopiedAndAMeanOfSeveralIsMade) {
  Settings settings{.mode = Mode::async, .optimizer = Optimizer::replace};
  ShardState state = started(settings, {1}, {5});
  const Message entry = push_entry(1, 1, 0, {7});
  apply(settings, entry, state);
  EXPECT_EQ(values_of(state).data(), floats_of(entry.payload).data());
  settings.mode = Mode::sync;
  state = started(settings, {1, 2}, {5});
  apply(settings, push_entry(1, 1, 0, {2}), state);
  apply(settings, push_entry(2, 1, 0, {4}), state);
  EXPECT_EQ(values_of(state)[0], 3);
}

TEST(PsState, APushHasItsOwnLearningRateIfItSaysSo) {
  const Settings settings{.mode = Mode::async, .optimizer = Optimizer::sgd, .sgd = {.rate = 1, .momentum = 0}};
  ShardState state = started(settings, {1}, {0});
  Message entry = push_entry(1, 1, 0, {1});
  entry.rate = 0.5;
  apply(settings, entry, state);
  EXPECT_EQ((*state.values)[0], -0.5F);
}

TEST(PsState, RefusesGradientsOfTheWrongSize) {
  const ShardState state = empty_state({.count = 3});
  EXPECT_EQ(problem_with(state, push_entry(1, 1, 0, {1, 2, 3})), "");
  EXPECT_EQ(problem_with(state, push_entry(1, 1, 0, {1, 2})), "8 bytes for 3 numbers");
}

TEST(PsState, ReadsModes) {
  EXPECT_EQ(parse_mode("sync")->mode, Mode::sync);
  EXPECT_EQ(parse_mode("async")->mode, Mode::async);
  EXPECT_EQ(parse_mode("ssp:3")->staleness, 3);
  for (const char* wrong : {"", "ssp", "ssp:", "ssp:-1", "ssp:3x", "asynch"}) EXPECT_FALSE(parse_mode(wrong)) << wrong;
}

}  // namespace
}  // namespace twinpod::ps
