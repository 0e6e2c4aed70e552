// What is seen of a server that handles messages, and where it is kept.
#include "ps/diary.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace twinpod::ps {
namespace {

constexpr NodeId kServer = 1;
constexpr NodeId kFirst = 2;
constexpr NodeId kSecond = 3;

// Two shards of four numbers on one server, two workers, initial values.
struct World {
  explicit World(const char* mode) {
    server.settings = *parse_mode(mode);
    server.settings.optimizer = Optimizer::add;
    const Chain chain{{.server = kServer, .since = 1, .synced = true}};
    install({.number = 1, .servers = {kServer}, .workers = {kFirst, kSecond}, .chains = {chain, chain}});
    for (const ShardId shard : {0, 1}) {
      look({.kind = Kind::initial, .from = kFirst, .shard = shard, .worker = kFirst, .payload = four_numbers()});
    }
  }

  static Payload four_numbers() { return payload_of(std::vector<float>(4, 1.0F)); }

  Handled look(const Message& message) {
    const Glance before = glance(server, message, last_clock);
    Outbox out;
    handle(server, message, out);
    const Handled one = handled(before, server, out);
    last_clock = one.clock;
    return one;
  }

  Handled install(const View& view) { return look({.kind = Kind::view, .payload = encode_view(view)}); }

  Handled push(NodeId worker, ShardId shard, std::int64_t clock) {
    Message message{.kind = Kind::push, .from = worker, .shard = shard, .worker = worker, .clock = clock};
    message.sequence = static_cast<std::uint64_t>(clock) + 1;
    message.payload = four_numbers();
    return look(message);
  }

  Handled pull(NodeId worker, ShardId shard, std::int64_t clock) {
    return look({.kind = Kind::pull,
                 .from = worker,
                 .shard = shard,
                 .worker = worker,
                 .sequence = static_cast<std::uint64_t>(clock),
                 .clock = clock});
  }

  Server server{.id = kServer, .shards = {{.count = 4}, {.tensor = 1, .count = 4}}};
  std::int64_t last_clock = 0;
};

TEST(PsDiary, TheLastPushOfAClockIsTheUpdateAndAnswersWhoWaited) {
  World world("sync");
  const Handled kept = world.push(kFirst, 1, 0);
  EXPECT_EQ(kept.updates, 0U);
  EXPECT_EQ(kept.pushed_bytes, 16U);
  EXPECT_EQ(world.pull(kFirst, 1, 1).answers, 0U);
  const Handled last = world.push(kSecond, 1, 0);
  EXPECT_EQ(last.updates, 2U);
  EXPECT_EQ(last.answers, 1U);
  EXPECT_EQ(last.pulled_bytes, 16U);
  EXPECT_EQ(last.worker, kSecond);
  EXPECT_EQ(last.shard, 1);
  EXPECT_EQ(last.staleness, 0);
  EXPECT_EQ(world.push(kSecond, 1, 0).updates, 0U) << "the same one again";
}

TEST(PsDiary, AnAnswerSaysHowStaleItIs) {
  World world("async");
  for (std::int64_t clock = 0; clock < 3; ++clock) EXPECT_EQ(world.push(kFirst, 0, clock).updates, 1U);
  const Handled answer = world.pull(kFirst, 0, 3);
  EXPECT_EQ(answer.answers, 1U);
  EXPECT_EQ(answer.clock, 3);
  EXPECT_EQ(answer.staleness, 3) << "the other worker has pushed nothing yet";
}

TEST(PsDiary, AViewWithoutAWorkerUpdatesAllShardsThatWaitedForIt) {
  World world("sync");
  world.push(kFirst, 0, 0);
  world.push(kFirst, 1, 0);
  View view = world.server.view;
  ++view.number;
  view.workers = {kFirst};
  const Handled one = world.install(view);
  EXPECT_EQ(one.updates, 2U);
  EXPECT_EQ(one.clock, 0) << "of the message before";
}

TEST(PsDiary, KeepsTheChosenClockOfAllProcesses) {
  const Result<std::unique_ptr<Diary>> diary = make_diary({.entries = 3, .clock = 5});
  const pid_t child = fork();
  if (child == 0) {
    write(**diary, {.server = 1, .clock = 5, .updates = 7});
    write(**diary, {.server = 1, .clock = 6});
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  for (std::int64_t clock = 0; clock < 10; ++clock) write(**diary, {.server = 0, .clock = clock});
  const std::vector<Handled> all = entries_of(**diary);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].server, 1);
  EXPECT_EQ(all[0].updates, 7U);
  EXPECT_EQ(all[1].server, 0);
  EXPECT_EQ(num_left_out(**diary), 0);
}

TEST(PsDiary, CountsWhatItHasNoRoomFor) {
  const Result<std::unique_ptr<Diary>> diary = make_diary({.entries = 3});
  for (std::int64_t clock = 0; clock < 10; ++clock) write(**diary, {.clock = clock});
  EXPECT_EQ(entries_of(**diary).size(), 3U);
  EXPECT_EQ(entries_of(**diary).back().clock, 2);
  EXPECT_EQ(num_left_out(**diary), 7);
}

}  // namespace
}  // namespace twinpod::ps
