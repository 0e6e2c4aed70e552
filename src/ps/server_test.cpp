// Servers, workers and a controller that talk without a network: what is said is heard at once, in order.
#include "ps/server.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ps/controller.hpp"
#include "ps/worker.hpp"

namespace twinpod::ps {
namespace {

struct Cluster {
  Controller controller;
  std::map<NodeId, Server> servers;
  std::map<NodeId, Worker> workers;
  std::vector<Shard> shards = {{.tensor = 0, .first = 0, .count = 2}};

  Cluster(int num_servers, int num_workers, int copies, const Settings& settings) {
    controller = {.settings = {.copies = copies, .servers = num_servers, .workers = num_workers}, .shards = shards};
    for (NodeId id = 1; id <= num_servers; ++id) servers[id] = {.id = id, .settings = settings, .shards = shards};
    for (NodeId id = 101; id <= 100 + num_workers; ++id) workers[id] = {.id = id, .shards = shards};
    Outbox out;
    for (auto& [id, server] : servers) start(server, out);
    for (auto& [id, worker] : workers) start(worker, out);
    talk(out);
    for (auto& [id, worker] : workers) set_initial(worker, 0, payload_of(std::vector<float>{0, 0}), out);
    for (auto& [id, worker] : workers) begin(worker, out);
    talk(out);
  }

  // Until nobody has anything to say.
  void talk(Outbox& out) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const Message message = out[i];
      if (message.to == kController) handle(controller, message, out);
      if (servers.contains(message.to)) handle(servers[message.to], message, out);
      if (workers.contains(message.to)) handle(workers[message.to], message, out);
    }
    out.clear();
  }

  void kill(NodeId id) {
    servers.erase(id);
    workers.erase(id);
    Outbox out;
    remove(controller, id, out);
    talk(out);
  }

  float read(NodeId id) {
    Outbox out;
    pull(workers[id], 0, out);
    talk(out);
    const std::vector<Arrival> arrived = std::move(workers[id].arrived);
    workers[id].arrived.clear();
    return arrived.empty() ? -1 : floats_of(arrived[0].values)[0];
  }

  void step(NodeId id, float gradient) {
    Outbox out;
    push(workers[id], 0, payload_of(std::vector<float>{gradient, 0}), {}, out);
    advance(workers[id]);
    talk(out);
  }
};

const Settings kAdd{.mode = Mode::async, .optimizer = Optimizer::add};

TEST(PsServer, PushesReachEveryCopyAndAreRead) {
  Cluster cluster(3, 2, 3, kAdd);
  cluster.step(101, 1);
  cluster.step(102, 10);
  EXPECT_EQ(cluster.read(101), 11);
  for (const auto& [id, server] : cluster.servers) EXPECT_EQ((*server.replicas.at(0).state.values)[0], 11) << id;
  EXPECT_TRUE(is_acknowledged(cluster.workers[101]));
}

TEST(PsServer, TheNextInTheChainTakesOver) {
  Cluster cluster(2, 1, 2, kAdd);
  cluster.step(101, 1);
  cluster.kill(head_of(cluster.controller.view, 0));
  cluster.step(101, 1);
  EXPECT_EQ(cluster.read(101), 2);
  EXPECT_EQ(cluster.controller.failovers, 1);
}

TEST(PsServer, WhatWasNotAcknowledgedIsSentAgainAndTakenOnce) {
  Cluster cluster(2, 1, 2, kAdd);
  Outbox out;
  push(cluster.workers[101], 0, payload_of(std::vector<float>{1, 0}), {}, out);
  advance(cluster.workers[101]);
  const NodeId head = head_of(cluster.controller.view, 0);
  const NodeId tail = tail_of(cluster.controller.view, 0);
  Outbox forwards;
  handle(cluster.servers[head], out[0], forwards);
  Outbox lost;
  handle(cluster.servers[tail], forwards[0], lost);  // the tail has it, and the head dies before it hears of it
  EXPECT_FALSE(is_acknowledged(cluster.workers[101]));
  cluster.kill(head);
  EXPECT_TRUE(is_acknowledged(cluster.workers[101]));
  EXPECT_EQ(cluster.read(101), 1);
}

TEST(PsServer, ANewServerGetsTheStateAndCanStandAlone) {
  Cluster cluster(1, 1, 2, kAdd);
  cluster.step(101, 1);
  cluster.servers[2] = {.id = 2, .settings = kAdd, .shards = cluster.shards};
  Outbox out;
  start(cluster.servers[2], out);
  cluster.talk(out);
  cluster.kill(1);
  EXPECT_FALSE(cluster.controller.lost);
  cluster.step(101, 1);
  EXPECT_EQ(cluster.read(101), 2);
}

TEST(PsServer, TheLastCopyIsMissed) {
  Cluster cluster(1, 1, 1, kAdd);
  cluster.kill(1);
  ASSERT_TRUE(cluster.controller.lost);
  EXPECT_EQ(error_of(cluster.controller).message,
            "elements 0 to 1 of tensor 0 are lost: all servers that held them are gone");
}

TEST(PsServer, SyncReadsWaitForAllWorkersAndNotForTheDead) {
  Cluster cluster(1, 3, 1, {.mode = Mode::sync, .mean = false, .optimizer = Optimizer::add});
  cluster.step(101, 1);
  cluster.step(102, 10);
  EXPECT_EQ(cluster.read(101), -1);  // waits
  Outbox out;
  cluster.kill(103);
  ASSERT_EQ(cluster.workers[101].arrived.size(), 1U);
  EXPECT_EQ(floats_of(cluster.workers[101].arrived[0].values)[0], 11);
}

TEST(PsServer, StalenessIsCounted) {
  Cluster cluster(1, 2, 1, {.mode = Mode::ssp, .staleness = 2, .optimizer = Optimizer::add});
  for (int i = 0; i < 2; ++i) {
    cluster.step(101, 1);
    EXPECT_EQ(cluster.read(101), static_cast<float>(i + 1));
  }
  EXPECT_EQ(cluster.workers[101].counters.staleness, (std::vector<std::uint64_t>{0, 1, 1}));
  cluster.step(101, 1);
  EXPECT_EQ(cluster.read(101), -1);
}

TEST(PsServer, AWorkerThatComesLateStartsWhereTheOthersAre) {
  Cluster cluster(1, 1, 1, {.mode = Mode::sync, .optimizer = Optimizer::add});
  for (int i = 0; i < 5; ++i) cluster.step(101, 1);
  cluster.workers[102] = {.id = 102, .shards = cluster.shards};
  Outbox out;
  start(cluster.workers[102], out);
  begin(cluster.workers[102], out);
  cluster.talk(out);
  ASSERT_TRUE(is_ready(cluster.workers[102]));
  EXPECT_EQ(cluster.workers[102].clock, 5);
  EXPECT_EQ(cluster.read(102), 5);
}

TEST(PsServer, ABarrierWaitsForAllThatAreThere) {
  Cluster cluster(1, 3, 1, kAdd);
  Outbox out;
  enter_barrier(cluster.workers[101], out);
  cluster.talk(out);
  enter_barrier(cluster.workers[102], out);
  cluster.talk(out);
  EXPECT_FALSE(is_released(cluster.workers[101]));
  cluster.kill(103);
  EXPECT_TRUE(is_released(cluster.workers[101]));
  EXPECT_TRUE(is_released(cluster.workers[102]));
}

TEST(PsServer, WhoLeavesIsToldSo) {
  Cluster cluster(1, 2, 1, kAdd);
  Outbox out;
  leave(cluster.workers[101], out);
  cluster.talk(out);
  EXPECT_TRUE(cluster.workers[101].expelled);
  EXPECT_EQ(cluster.controller.view.workers, (std::vector<NodeId>{102}));
}

// A worker died, the launcher said so, and then its late request to be let in came: all others waited for it for ever.
TEST(PsServer, TheDeadAreNotLetIn) {
  Cluster cluster(1, 1, 1, kAdd);
  cluster.kill(102);
  Outbox out = {{.kind = Kind::join, .role = Role::worker, .from = 102, .to = kController}};
  cluster.talk(out);
  EXPECT_EQ(cluster.controller.view.workers, (std::vector<NodeId>{101}));
}

TEST(PsServer, RefusesAGradientOfTheWrongSize) {
  Cluster cluster(1, 1, 1, kAdd);
  Outbox out;
  push(cluster.workers[101], 0, payload_of(std::vector<float>{1}), {}, out);
  cluster.talk(out);
  EXPECT_EQ(cluster.servers[1].counters.refused, 1U);
  EXPECT_FALSE(is_acknowledged(cluster.workers[101]));
}

const Settings kClip{.mode = Mode::sync, .mean = false, .clip = 5, .optimizer = Optimizer::add};

TEST(PsServer, WorkersWhoWaitMakeTheNorm) {
  Cluster cluster(2, 2, 2, kClip);
  cluster.step(101, 4);
  cluster.step(102, 6);
  EXPECT_EQ(cluster.read(101), 5);  // 10, clipped
  EXPECT_EQ(cluster.workers[101].norm.value, 10);
  EXPECT_EQ(cluster.read(102), 5);
  for (const auto& [id, server] : cluster.servers) EXPECT_EQ((*server.replicas.at(0).state.values)[0], 5) << id;
}

TEST(PsServer, OfANormThatIsNotFiniteNothingComes) {
  Cluster cluster(1, 2, 1, kClip);
  cluster.step(101, 3e38F);
  cluster.step(102, 3e38F);
  EXPECT_EQ(cluster.read(101), -1);  // it waits, and knows why
  EXPECT_FALSE(std::isfinite(cluster.workers[101].norm.value));
  EXPECT_EQ((*cluster.servers[1].replicas.at(0).state.values)[0], 0);
  Outbox out = {{.kind = Kind::norm, .to = 1, .clock = 0, .rate = std::numeric_limits<double>::quiet_NaN()}};
  cluster.talk(out);
  EXPECT_EQ(cluster.servers[1].counters.refused, 1U);
}

}  // namespace
}  // namespace twinpod::ps
