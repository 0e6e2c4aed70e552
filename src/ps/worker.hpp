// A worker's side of the parameter server: a message in, messages out.
//
//     Worker worker{.id = 7, .shards = shards};
//     start(worker, out);
//     begin(worker, out);                                   // asks where the others are; is_ready() when it knows
//     for (; worker.clock < steps; advance(worker)) {
//       for (each shard) pull(worker, shard, out);          // worker.arrived gets the values, in any order
//       for (each shard) push(worker, shard, gradient, {}, out);
//     }
//     leave(worker, out);                                   // when is_acknowledged(): then nothing of it can be lost
//
// Pushes are kept until they are acknowledged and sent again when the view changes or a tick passes without an answer.
// Each has a sequence number, by which a server knows it again.
//
// If servers clip by a norm, a pull is also where it is made: so the last clock is complete when somebody pulls behind
// it.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "ps/message.hpp"
#include "ps/shards.hpp"

namespace twinpod::ps {

// Values that came, in the order in which they did.
struct Arrival {
  ShardId shard = 0;
  std::int64_t clock = 0;   // for which they were asked
  std::int64_t oldest = 0;  // all updates up to this clock are in them
  Payload values;
};

// What a worker keeps for a shard.
struct Line {
  std::uint64_t sequence = 0;           // of the last push
  std::uint64_t acked = 0;              // of the last one that is acknowledged
  std::deque<Message> unacked = {};     // pushes and clocks
  std::uint64_t resent = 0;             // sequence that was the first unacknowledged one at the last tick
  std::optional<Message> initial = {};  // until it is acknowledged
  std::optional<Message> pull = {};     // until it is answered
  bool pull_is_old = false;             // it was there at the last tick
  std::int64_t pending = -1;            // clock whose norm it waits for
  std::map<std::int64_t, std::vector<double>> squares = {};  // of the gradients of the last clocks
};

// Of the gradient of all shards.
struct Norm {
  std::int64_t clock = -1;
  double value = 0;
};

struct WorkerCounters {
  std::uint64_t pushed_bytes = 0;  // without what was sent again
  std::uint64_t pulled_bytes = 0;
  std::uint64_t resent = 0;
  std::vector<std::uint64_t> staleness = {};  // how often a read lacked that many clocks of some worker
};

struct PushOptions {
  Encoding encoding = Encoding::f32;
  double rate = 0;  // learning rate; 0: the server's own
};

struct Worker {
  NodeId id = kNobody;
  std::vector<Shard> shards = {};  // all of the job
  View view = {};
  std::int64_t clock = -1;  // the step that it works on; -1: not known yet
  std::vector<Line> lines = {};
  std::vector<Arrival> arrived = {};  // the caller takes them out
  bool is_member = false;             // the view has it
  bool expelled = false;              // it had it, and has it no more: it left, or was taken for dead
  bool leaving = false;
  std::uint64_t barriers = 0;  // asked for
  std::uint64_t released = 0;  // and passed
  Norm norm = {};              // the last one that it made, if servers clip; not finite: no update comes of it
  WorkerCounters counters = {};
};

// Asks the controller to be let in.
void start(Worker& worker, Outbox& out);

// Asks every shard how far the others are, and starts there: at clock 0 if nobody has begun.
void begin(Worker& worker, Outbox& out);
bool is_ready(const Worker& worker);

// The values that the job starts with. All workers may say them; the first counts.
void set_initial(Worker& worker, ShardId shard, Payload values, Outbox& out);

// REQUIRES: is_ready; one push of each shard at most in one clock.
void push(Worker& worker, ShardId shard, Payload gradient, const PushOptions& options, Outbox& out);

// Values for the present clock. A second one replaces the first.
void pull(Worker& worker, ShardId shard, Outbox& out);

// On to the next clock, or to `clock` if the others are further (backup workers).
void advance(Worker& worker, std::int64_t clock = 0);

void enter_barrier(Worker& worker, Outbox& out);
inline bool is_released(const Worker& worker) { return worker.released >= worker.barriers; }

bool is_acknowledged(const Worker& worker);  // all that it pushed
void leave(Worker& worker, Outbox& out);

void handle(Worker& worker, const Message& message, Outbox& out);
void tick(Worker& worker, Outbox& out);

}  // namespace twinpod::ps
