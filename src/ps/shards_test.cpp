#include "ps/shards.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace twinpod::ps {
namespace {

std::map<NodeId, std::int64_t> loads_of(const std::vector<Shard>& shards, const std::vector<Chain>& chains) {
  std::map<NodeId, std::int64_t> loads;
  for (std::size_t i = 0; i < chains.size(); ++i) {
    for (const Member& member : chains[i]) loads[member.server] += shards[i].count;
  }
  return loads;
}

void sync_all(std::vector<Chain>& chains) {
  for (Chain& chain : chains) {
    for (Member& member : chain) member.synced = true;
  }
}

TEST(PsShards, SplitLargeTensorsEvenly) {
  const std::vector<Shard> shards = shards_of({.counts = {1003, 0, 30}, .most = 300});
  ASSERT_EQ(shards.size(), 5U);
  EXPECT_EQ(shards[0], (Shard{0, 0, 251}));
  EXPECT_EQ(shards[3], (Shard{0, 753, 250}));
  EXPECT_EQ(shards[4], (Shard{2, 0, 30}));
}

TEST(PsShards, CoverEachElementOnce) {
  for (std::int64_t count = 1; count < 40; ++count) {
    for (std::int64_t most = 1; most < 12; ++most) {
      std::int64_t next = 0;
      for (const Shard& shard : shards_of({.counts = {count}, .most = most})) {
        EXPECT_EQ(shard.first, next);
        EXPECT_LE(shard.count, most);
        EXPECT_GT(shard.count, 0);
        next += shard.count;
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(PsShards, PartsOfANormStayWhole) {
  const std::vector<std::vector<NormPart>> parts = {{{0, 10, 0}, {10, 10, 1}, {20, 30, 2}, {50, 5, 3}}, {{0, 4, 3}}};
  const std::vector<Shard> shards = shards_of({.counts = {55, 4}, .most = 20, .parts = parts});
  ASSERT_EQ(shards.size(), 4U);
  EXPECT_EQ(shards[0], (Shard{0, 0, 20, true, {{0, 10, 0}, {10, 10, 1}}}));
  EXPECT_EQ(shards[1], (Shard{0, 20, 30, true, {{0, 30, 2}}}));
  EXPECT_EQ(shards[2], (Shard{0, 50, 5, true, {{0, 5, 3}}}));
  EXPECT_EQ(shards[3], (Shard{1, 0, 4, true, {{0, 4, 3}}}));
}

// In double within a rank, in fp32 between ranks.
TEST(PsShards, ANormIsAddedUpAsTheTrainersRanksDo) {
  const std::vector<float> gradient = {1, 2, 3};
  EXPECT_EQ(squares_of({}, gradient), std::vector<double>{14});
  EXPECT_EQ(squares_of({{0, 1, 0}, {1, 2, 1}}, gradient), (std::vector<double>{1, 13}));
  const std::vector<Shard> alone = {{.count = 1}, {.count = 1}};
  const std::vector<Shard> ranks = {{0, 0, 2, true, {{0, 1, 0}, {1, 1, 1}}}, {0, 2, 1, true, {{0, 1, 0}}}};
  constexpr double kTiny = 0x1p-30;  // too small to be seen beside 1 in fp32
  EXPECT_EQ(norm_of(alone, std::vector<std::vector<double>>{{1}, {kTiny}}), std::sqrt(1 + kTiny));
  EXPECT_EQ(norm_of(ranks, std::vector<std::vector<double>>{{1, kTiny}, {3}}), 2);
  EXPECT_EQ(norm_of(ranks, std::vector<std::vector<double>>{{1, 8}, {}}), 3);  // nobody contributed there
}

TEST(PsShards, ServersGetAboutTheSame) {
  const std::vector<std::int64_t> counts = {50000, 100, 100, 20000, 100, 300};
  const std::vector<Shard> shards = shards_of({.counts = counts, .most = even_size(counts, 3)});
  std::vector<Chain> chains(shards.size());
  place(shards, std::vector<NodeId>{1, 2, 3}, 2, 1, chains);
  for (const auto& [server, load] : loads_of(shards, chains))
    EXPECT_NEAR(static_cast<double>(load), 2 * 70600 / 3.0, 70600 / 6.0);
}

TEST(PsShards, ANewServerTakesItsShareAndNothingIsMovedTwice) {
  const std::vector<Shard> shards = shards_of({.counts = {12000}, .most = 1000});
  std::vector<Chain> chains(shards.size());
  place(shards, std::vector<NodeId>{1, 2}, 1, 1, chains);
  sync_all(chains);
  place(shards, std::vector<NodeId>{1, 2, 3}, 1, 2, chains);
  int moves = 0;
  for (const Chain& chain : chains) {
    EXPECT_TRUE(chain.front().synced);
    moves += chain.size() == 2 ? 1 : 0;
  }
  EXPECT_EQ(moves, 4);
  sync_all(chains);
  place(shards, std::vector<NodeId>{1, 2, 3}, 1, 3, chains);
  for (const auto& [server, load] : loads_of(shards, chains)) EXPECT_EQ(load, 4000);
  const std::vector<Chain> before = chains;
  place(shards, std::vector<NodeId>{1, 2, 3}, 1, 4, chains);
  EXPECT_EQ(chains, before);
}

TEST(PsShards, FewerServersThanCopiesHoldWhatTheyCan) {
  const std::vector<Shard> shards = shards_of({.counts = {10}, .most = 10});
  std::vector<Chain> chains(1);
  place(shards, std::vector<NodeId>{4}, 3, 1, chains);
  ASSERT_EQ(chains[0].size(), 1U);
  place(shards, std::vector<NodeId>{4, 5}, 3, 2, chains);
  EXPECT_EQ(chains[0].size(), 2U);
  EXPECT_EQ(chains[0][1].since, 2U);
}

TEST(PsShards, AViewIsReadAsItWasWritten) {
  const View view{.number = 9, .servers = {1, 2}, .workers = {3}, .chains = {{{2, 1, true}, {1, 9, false}}}};
  const Result<View> again = decode_view(encode_view(view));
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(again->chains, view.chains);
  EXPECT_EQ(again->workers, view.workers);
  EXPECT_EQ(head_of(*again, 0), 2);
  EXPECT_EQ(tail_of(*again, 0), 1);
  EXPECT_EQ(tail_of(*again, 1), kNobody);
}

}  // namespace
}  // namespace twinpod::ps
