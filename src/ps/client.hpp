// A worker that waits: what a training loop calls. And a server that serves until it is no longer needed.
//
//     Client client(link, 7, shards, {});
//     Result<void> joined = join(client, initial);                 // initial values of each shard
//     while (client.worker.clock < steps) {
//       Result<std::vector<Arrival>> values = pull_all(client);    // in the order of the shards
//       ...
//       push_all(client, gradients, rate, Then::pull);             // does not wait; ends the clock
//     }
//     Result<void> left = leave(client);
#pragma once

#include <atomic>
#include <functional>

#include "ps/compress.hpp"
#include "ps/diary.hpp"
#include "ps/link.hpp"
#include "ps/server.hpp"
#include "ps/worker.hpp"

namespace twinpod::ps {

struct ClientOptions {
  double tick_s = 0.05;          // after which what was not answered is sent again
  double timeout_s = 60;         // after which waiting is given up
  Compression compression = {};  // of pushes
};

struct Client {
  Link link;
  Worker worker;
  ClientOptions options = {};
  bool asked = false;                        // for the values of the present clock, which pull_all() will wait for
  int place = 0;                             // among the workers; who comes for a dead one has its place
  std::vector<ErrorFeedback> feedback = {};  // of each shard
  std::int64_t next_tick_ns = 0;
  double waited_s = 0;             // for values, since the start
  std::uint64_t* acked = nullptr;  // by shard: what is acknowledged, for who counts it when this process is gone
  std::function<void(const Client&)> account = {};  // called behind each push
  Team* team = nullptr;                             // for taking large values
};

Client make_client(const Link& link, NodeId id, const std::vector<Shard>& shards, const ClientOptions& options);

// Handles what has come, without waiting. A training loop may call it between layers.
void pump(Client& client);

// `initial` gives the values of a shard; asked only if they may be needed.
Result<void> join(Client& client, const std::function<Payload(ShardId)>& initial);

// If servers clip, an error also when the norm of a clock's gradients is not finite (client.worker.norm): no update
// comes of them. On one host large values lie in the server's memory, which needs room for the next until they are let
// go of.
Result<std::vector<Arrival>> pull_all(Client& client);

// All values, in memory of the worker's own: those of a shard go where `to` says.
using Place = std::function<float*(ShardId)>;
void copy_values(const Client& client, const std::vector<Arrival>& values, const Place& to);

// One gradient for each shard; they are compressed as the options say. Then the clock moves on. If a pull comes next
// anyway it is best asked for at once: a server then answers each shard right behind its update, while the next ones
// are still to come. The next pull_all() waits for these answers. REQUIRES: payloads of f32, unchanged until their
// owner is let go of if they are not compressed.
enum class Then { nothing, pull };
void push_all(Client& client, const std::vector<Payload>& gradients, double rate, Then then = Then::nothing);

Result<void> wait_for_acks(Client& client);
Result<void> barrier(Client& client);
Result<void> leave(Client& client);  // after all is acknowledged; if servers clip: behind a last pull

// Until the view has it no more, or `stop` says so, which is asked again and again. Counts how long it was busy and how
// long messages had waited. The observer is told of each message; without one, nobody looks.
using Observer = std::function<void(const Handled&)>;
void serve(const Link& link, Server& server, double tick_s, const std::function<bool(const Server&)>& stop,
           const Observer& observer = {});

}  // namespace twinpod::ps
