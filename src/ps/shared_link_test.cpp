#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "ps/link.hpp"

namespace twinpod::ps {
namespace {

constexpr NodeId kServer = 1;
constexpr NodeId kWorker = 2;

// A server and a worker of one process: their arenas are as far apart as those of two.
struct Pair {
  comm::Segment segment = *comm::make_segment(3, false);
  Link server = shared_link(segment, kServer);
  Link worker = shared_link(segment, kWorker);
  ~Pair() {
    if (worker.state != nullptr) worker.close(worker.state);
    server.close(server.state);
    comm::unmap_segment(segment);
  }
};

std::shared_ptr<Values> gradient_in(const Link& link, float value) {
  return std::make_shared<Values>(5000, value, link.memory);
}

void send_push(const Link& link, Payload payload) {
  link.send(link.state,
            {.kind = Kind::push, .from = kWorker, .to = kServer, .worker = kWorker, .payload = std::move(payload)});
}

Message received(const Pair& pair) {
  Message message;
  for (int i = 0; i < 1000 && !pair.server.receive(pair.server.state, message); ++i) {
    Message none;
    pair.worker.receive(pair.worker.state, none);
  }
  return message;
}

// The lender looks at what it has back when it looks for messages.
long uses_left(const Pair& pair, const std::shared_ptr<Values>& gradient) {
  Message none;
  pair.worker.receive(pair.worker.state, none);
  return gradient.use_count();
}

TEST(PsSharedLink, APushIsReadWhereItLies) {
  const Pair pair;
  const std::shared_ptr<Values> gradient = gradient_in(pair.worker, 2.5F);
  send_push(pair.worker, payload_of(gradient));
  const Message push = received(pair);
  ASSERT_EQ(push.payload.bytes.size(), 20000U);
  EXPECT_EQ(floats_of(push.payload).data(), gradient->data());
}

TEST(PsSharedLink, APushIsKeptUntilNobodyReadsIt) {
  const Pair pair;
  const std::shared_ptr<Values> gradient = gradient_in(pair.worker, 2.5F);
  send_push(pair.worker, payload_of(gradient));
  Message push = received(pair);
  Payload kept = push.payload;
  push = {};
  EXPECT_EQ(uses_left(pair, gradient), 2);
  kept = {};
  EXPECT_EQ(uses_left(pair, gradient), 1);
}

// A worker reads values in the server's memory; they are the server's to change again when it has let go of them.
TEST(PsSharedLink, ValuesAreReadWhereTheyLieAndKeptUntilThen) {
  const Pair pair;
  const std::shared_ptr<Values> values = gradient_in(pair.server, 1.5F);
  pair.server.send(pair.server.state,
                   {.kind = Kind::values, .from = kServer, .to = kWorker, .payload = payload_of(values)});
  Message answer;
  for (int i = 0; i < 1000 && !pair.worker.receive(pair.worker.state, answer); ++i) {
    Message none;
    pair.server.receive(pair.server.state, none);
  }
  Message none;
  EXPECT_EQ(floats_of(answer.payload).data(), values->data());
  pair.server.receive(pair.server.state, none);
  EXPECT_EQ(values.use_count(), 2);
  answer = {};
  pair.server.receive(pair.server.state, none);
  EXPECT_EQ(values.use_count(), 1);
}

// What the worker has in other memory, and what a server passes on of a worker's, is copied: only the lender itself
// knows when its memory is free.
TEST(PsSharedLink, OnlyOnesOwnMemoryIsLent) {
  const Pair pair;
  const std::shared_ptr<Values> foreign = gradient_in(pair.server, 3);
  const auto ordinary = std::make_shared<Values>(5000, 3.0F);
  for (const std::shared_ptr<Values>& gradient : {foreign, ordinary}) {
    send_push(pair.worker, payload_of(gradient));
    const Message push = received(pair);
    ASSERT_EQ(push.payload.bytes.size(), 20000U);
    EXPECT_NE(floats_of(push.payload).data(), gradient->data());
    EXPECT_EQ(floats_of(push.payload)[4999], 3);
  }
}

TEST(PsSharedLink, WhatADeadServerReadIsFree) {
  const Pair pair;
  const std::shared_ptr<Values> gradient = gradient_in(pair.worker, 2.5F);
  send_push(pair.worker, payload_of(gradient));
  const Message push = received(pair);
  EXPECT_EQ(uses_left(pair, gradient), 2);
  pair.worker.forget(pair.worker.state, kServer);
  EXPECT_EQ(uses_left(pair, gradient), 1);
}

TEST(PsSharedLink, ThereAreAsManyLoansAsPlacesAndTheRestIsCopied) {
  const Pair pair;
  const std::shared_ptr<Values> gradient = gradient_in(pair.worker, 2.5F);
  std::vector<Message> pushes;
  for (int i = 0; i < 4100; ++i) {
    send_push(pair.worker, payload_of(gradient));
    pushes.push_back(received(pair));
    ASSERT_EQ(floats_of(pushes.back().payload)[4999], 2.5F);
  }
  EXPECT_EQ(floats_of(pushes[4095].payload).data(), gradient->data());
  EXPECT_NE(floats_of(pushes[4096].payload).data(), gradient->data());
  pushes.clear();
  EXPECT_EQ(uses_left(pair, gradient), 1);
}

// The launcher gives the memory of a dead worker back only when no server that lives reads it.
TEST(PsSharedLink, TheMemoryOfADeadWorkerStaysWhileItIsRead) {
  Pair pair;
  {
    const std::shared_ptr<Values> gradient = gradient_in(pair.worker, 2.5F);
    send_push(pair.worker, payload_of(gradient));
    send_push(pair.worker, payload_of(gradient));
  }
  const Message push = received(pair);
  pair.worker.close(std::exchange(pair.worker.state, nullptr));
  pair.server.forget(pair.server.state, kWorker);
  const std::vector<NodeId> dead = {kWorker};
  EXPECT_TRUE(is_read_by_others(pair.segment, kWorker, dead));
  EXPECT_EQ(floats_of(push.payload)[4999], 2.5F);
  const std::vector<NodeId> both = {kWorker, kServer};
  EXPECT_FALSE(is_read_by_others(pair.segment, kWorker, both));
}

}  // namespace
}  // namespace twinpod::ps
