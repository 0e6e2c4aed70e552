// A server of the parameter server: a message in, messages out. It has no clock and no socket of its own.
//
//     Server server{.id = 3, .settings = settings, .shards = shards};
//     start(server, out);                       // asks the controller to be let in
//     handle(server, message, out);             // whatever arrives, in any order, as often as it likes
//     tick(server, out);                        // every now and then: what was not answered since the last is resent
//
// For each shard that it holds it is one member of a chain (shards.hpp). The head gives each push its place in the
// shard's log and passes it on; each member applies entries in the order of the log and passes them on; when the tail
// has an entry, that goes back along the chain, and the head acknowledges it to the worker. So
//   - what is acknowledged is held by every copy of the view;
//   - a member has all that those behind it have: any of them can become the head;
//   - the tail's values are made of acknowledged updates (or such as are about to be): pulls go to it.
// With a norm to clip by (sync), a complete clock is kept, and pulls that wait for it are told the squares of its
// gradient. A worker that has those of all shards sends their norm to the heads, as an entry of the log: the update.
// Members talk only within the same view: a server that was taken for dead and is not cannot add to a log any more.
#pragma once

#include <deque>
#include <map>

#include "ps/message.hpp"
#include "ps/shards.hpp"
#include "ps/state.hpp"

namespace twinpod::ps {

struct Replica {
  ShardState state = {};
  bool has_state = false;            // false: waits for the one before it in the chain
  bool told = false;                 // the controller knows that it has
  std::uint64_t since = 0;           // the view in which it came into the chain
  std::uint64_t resent = 0;          // position that was the first unacknowledged one at the last tick
  std::deque<Message> unacked = {};  // entries that the tail is not known to have
  std::vector<Message> pulls = {};   // that wait for updates
  std::int64_t told_squares = -1;    // clock whose squares were told to them
};

struct ServerCounters {
  std::uint64_t pushes = 0;      // that were new
  std::uint64_t duplicates = 0;  // that were not
  std::uint64_t refused = 0;     // messages that made no sense
  std::uint64_t pulls = 0;       // answered
  std::uint64_t waits = 0;       // pulls that had to wait first
  std::uint64_t pushed_bytes = 0;
  std::uint64_t pulled_bytes = 0;
  std::uint64_t states_sent = 0;
  // By who has a clock (serve, in client.hpp):
  std::uint64_t messages = 0;
  double busy_s = 0;    // with them
  double queued_s = 0;  // that they waited, from their sender's hand on, all together
};

struct Server {
  NodeId id = kNobody;
  Settings settings = {};
  std::vector<Shard> shards = {};  // all of the job
  View view = {};
  std::map<ShardId, Replica> replicas = {};  // of the shards that it holds
  bool expelled = false;                     // a view came without it: it has nothing more to do
  ServerCounters counters = {};
  Memory* memory = std::pmr::get_default_resource();  // where values lie
  Team* team = nullptr;                               // for updates of large shards
};

void start(const Server& server, Outbox& out);
void handle(Server& server, const Message& message, Outbox& out);
void tick(Server& server, Outbox& out);

}  // namespace twinpod::ps
