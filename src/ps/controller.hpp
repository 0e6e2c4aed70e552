// Who is there, and who holds what: the one place that decides it.
//
// The controller runs in the process that started all the others, and sees them end. It is not replicated: when it
// ends, so does the job, as with any launcher; a job that must outlive that has checkpoints. It holds no parameters and
// no pushes go through it, so it is idle but for the moments when somebody comes or goes.
//
//     Controller controller{.settings = {.copies = 2, .servers = 3, .workers = 4}, .shards = shards};
//     handle(controller, message, out);         // join, leave, receipts, barriers
//     remove(controller, node, out);            // a process ended, or its heartbeat did: said from outside
//     tick(controller, out);                    // views that were not receipted are sent again, the silent missed
//
// It may be wrong about who is dead. A server that is taken out of a view and lives on can do no harm (server.hpp); a
// worker's pushes are no longer taken.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ps/message.hpp"
#include "ps/shards.hpp"

namespace twinpod::ps {

struct ControllerSettings {
  int copies = 2;   // of each shard, as long as there are that many servers
  int servers = 1;  // that the first view waits for
  int workers = 1;
  // Who says nothing for that many ticks is taken for dead; 0: others tell who is. All say something in each tick of
  // their own.
  int silent_ticks = 0;
};

struct Controller {
  ControllerSettings settings = {};
  std::vector<Shard> shards = {};
  View view = {};                                 // number 0: not all are there yet
  std::map<NodeId, std::uint64_t> receipts = {};  // of all that are there: the newest view that each has
  std::set<NodeId> gone = {};                     // their numbers are never used again
  std::map<NodeId, std::uint64_t> barriers = {};  // that workers are at
  std::uint64_t released = 0;
  std::int64_t ticks = 0;
  std::map<NodeId, std::int64_t> heard = {};  // the tick in which each was last heard of
  std::optional<ShardId> lost = {};           // no copy is left: the job cannot go on
  int failovers = 0;                          // shards whose head or tail died
};

void handle(Controller& controller, const Message& message, Outbox& out);
void remove(Controller& controller, NodeId node, Outbox& out);
void tick(Controller& controller, Outbox& out);

// Of the job, once a shard is lost.
Error error_of(const Controller& controller);

}  // namespace twinpod::ps
