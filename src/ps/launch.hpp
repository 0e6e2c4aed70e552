// A parameter server on this host: processes for servers and workers, and this one as their controller.
//
//     LaunchOptions options{.servers = 2, .workers = 4, .copies = 2, .settings = *parse_mode("ssp:3"), .shards =
//     shards}; Result<LaunchReport> report = launch(options, [&](Client& client) -> Result<std::string> {
//       if (Result<void> joined = join(client, initial); !joined) return tl::unexpected(joined.error());
//       ...
//       if (Result<void> left = leave(client); !left) return tl::unexpected(left.error());
//       return "loss 2.1";
//     });
//
// A process that dies is noticed at once (the launcher is its parent), taken out of the view, and replaced by a new one
// under a new number. When all workers are through, the servers are ended.
//
// Over several hosts each runs its own launcher with the same options but for `host`: the first is the controller, and
// all processes talk over TCP, and let nobody in who
// has not the job's key. Server and worker number i are on host i modulo the hosts. A launcher sees its own
// processes die, and tells the controller; a host whose launcher is silent for a third of client.timeout_s is taken for
// dead, with all on it: before those that wait for it give up. Each launcher reports on its own processes.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ps/client.hpp"
#include "ps/controller.hpp"
#include "ps/diary.hpp"
#include "ps/ledger.hpp"

namespace twinpod::ps {

struct LaunchOptions {
  int servers = 1;
  int workers = 1;
  int copies = 1;
  Settings settings = {};
  std::vector<Shard> shards = {};
  ClientOptions client = {};
  int replacements = 16;                // processes that may be started in place of dead ones
  bool pins = false;                    // each process to cores of its own, in turn
  std::vector<std::string> hosts = {};  // their addresses, the controller's first; none: all on this one
  int host = 0;                         // which of them this is
  int port = 7700;                      // process n listens on port + n
  JobKey key = {};                      // of several hosts: the same on all
  DiarySize diary = {};                 // of what servers do; no entries: nobody looks
};

inline int num_hosts(const LaunchOptions& options) { return std::max(1, static_cast<int>(options.hosts.size())); }

struct Process {
  NodeId id = kNobody;
  Role role = Role::server;
  pid_t pid = 0;
  int place = 0;       // among servers or workers
  bool ready = false;  // in the view; a server: with a copy of all that it is to hold
};

// What each process leaves in shared memory, whatever becomes of it.
struct Account {
  Role role = Role::server;
  int place = 0;
  ServerCounters server = {};
  std::uint64_t pushed_bytes = 0;  // by a worker
  std::uint64_t pulled_bytes = 0;
  double waited_s = 0;
  std::array<std::uint64_t, 64> staleness = {};  // the last counts all that is more
  std::int64_t staleness_max = 0;
  Strangers strangers = {};  // at its port
};

struct LaunchReport {
  std::map<NodeId, std::string> answers = {};  // of the workers that came to their end
  std::map<NodeId, Account> accounts = {};     // of all processes
  int deaths = 0;
  int failovers = 0;
  Balance updates = {};               // on all shards
  std::vector<NodeId> servers = {};   // that were there at the end
  std::vector<Handled> handled = {};  // by the servers, dead ones too, if there was a diary
  std::int64_t left_out = 0;          // of it
  Strangers strangers = {};           // at the ports of this host, of dead processes too
};

using WorkerBody = std::function<Result<std::string>(Client&)>;

// `watch` is called every few milliseconds with all that are alive: tests kill some of them.
using Watch = std::function<void(const std::vector<Process>&)>;
Result<LaunchReport> launch(const LaunchOptions& options, const WorkerBody& body, const Watch& watch = {});

}  // namespace twinpod::ps
