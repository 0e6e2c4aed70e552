// Books that balance, and books that do not.
#include "ps/ledger.hpp"

#include <gtest/gtest.h>

namespace twinpod::ps {
namespace {

constexpr NodeId kServer = 1;
constexpr NodeId kAlive = 2;
constexpr NodeId kDead = 3;

// One shard on one server: 5 pushes of a worker that is there, 3 pushes and a clock of one that died.
Server server_at_the_end() {
  Server server{.id = kServer, .shards = {{.tensor = 0, .first = 0, .count = 4}}};
  Replica& replica = server.replicas[0];
  replica.has_state = true;
  replica.state.applied = 6;
  replica.state.dropped = 1;
  replica.state.clocks = 1;
  replica.state.waiting.resize(1);
  replica.state.workers = {{.worker = kAlive, .sequence = 5, .clock = 4}};
  replica.state.left = {{.worker = kDead, .sequence = 4, .clock = 3}};
  return server;
}

Balance balance_with(const Server& server, std::uint64_t acked_alive, std::uint64_t acked_dead) {
  const Result<std::unique_ptr<Ledger>> ledger = make_ledger({.nodes = 4, .shards = 1, .servers = 1});
  acked_by(**ledger, kAlive)[0] = acked_alive;
  acked_by(**ledger, kDead)[0] = acked_dead;
  EXPECT_FALSE(is_closed(**ledger));
  close(**ledger);
  EXPECT_TRUE(is_closed(**ledger));
  hand_in(**ledger, 0, server);
  const View view{.number = 1, .servers = {kServer}, .chains = {{{.server = kServer, .since = 1, .synced = true}}}};
  return balance_of(**ledger, view, {{kServer, 0}});
}

TEST(PsLedger, EveryUpdateIsWhereItShouldBe) {
  const Balance balance = balance_with(server_at_the_end(), 5, 3);  // the last one of the dead was not acknowledged
  EXPECT_EQ(balance.applied, 6U);
  EXPECT_EQ(balance.dropped, 1U);
  EXPECT_EQ(balance.waiting, 1U);
  EXPECT_EQ(balance.lost, 0U);
  EXPECT_EQ(balance.twice, 0U);
}

TEST(PsLedger, AnAcknowledgedUpdateThatNoServerHasIsLost) {
  EXPECT_EQ(balance_with(server_at_the_end(), 7, 3).lost, 2U);
  EXPECT_EQ(balance_with(server_at_the_end(), 5, 5).lost, 1U);
}

TEST(PsLedger, AnUpdateThatIsNotInTheValuesIsLost) {
  Server server = server_at_the_end();
  --server.replicas[0].state.applied;
  EXPECT_EQ(balance_with(server, 5, 3).lost, 1U);
}

TEST(PsLedger, AnUpdateThatCameTwiceIsFound) {
  Server server = server_at_the_end();
  ++server.replicas[0].state.applied;
  const Balance balance = balance_with(server, 5, 3);
  EXPECT_EQ(balance.twice, 1U);
  EXPECT_EQ(balance.lost, 0U);
}

TEST(PsLedger, WithoutAnyCopyAllIsLost) {
  Server empty{.id = kServer, .shards = {{.tensor = 0, .first = 0, .count = 4}}};
  EXPECT_EQ(balance_with(empty, 5, 3).lost, 8U);
}

}  // namespace
}  // namespace twinpod::ps
