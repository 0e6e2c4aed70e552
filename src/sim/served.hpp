// A training run with parameter servers on a cluster: the protocol's own code (ps::Server, ps::Worker, ps::Controller)
// in simulated time.
//
//     ServedInput input{.choice = {.servers = 16, .workers = 256, .mode = "async", .settings = *parse_mode("async")}};
//     input.job = {.counts = counts, .step_s = 0.2, .step_tokens = 4096, .steps = 20};
//     input.cluster = {.host_bytes_per_s = 25e9, .worker_bytes_per_s = 25e9, .latency_s = 10e-6};
//     const Result<ServedRun> run = run_served(input);
//     ps::steady_tokens_per_second(run->report);
//
// What takes time:
//   - a worker's step, as long as it is said, longer where the straggler says so;
//   - the network: a message passes the interfaces of its process and of its host, and those of the receiver. In each
//     of them all that pass at a moment get the same part (what one of them cannot use because it waits elsewhere is
//     not given to the others), and a message is through when it is through all, a latency later. Between two
//     processes messages go one after the other. Small ones slip through, but do not overtake;
//   - a server: one message after the other. It adds what is pushed and updates its values at the rate of its host's
//     memory, and whatever comes from its own host is copied by the receiver. With a norm to clip by, it goes
//     through the sum once more, and updates when the norm comes back from the first worker that has it.
// Joining takes no time: the clock starts when all workers are there. It stops when all steps are done; in
// async mode, as in train, who is free takes the next one.
//
// Shards are small here: one number stands for many, so that 256 workers with gigabytes fit into memory. The protocol
// does not see the difference, and the network knows how long a message would be (bytes_of). What workers push is
// ones, so the values count the updates that are in them.
//
// Deterministic. Nothing is lost but what is for, or from, a process that was killed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/error.hpp"
#include "ps/choice.hpp"

namespace twinpod::sim {

struct ServedJob {
  std::vector<std::int64_t> counts = {};  // elements of each tensor, in the order of the forward pass
  double push_bytes = 4;                  // of an element that is not compressed
  double pull_bytes = 4;
  double add_bytes = 8;             // of memory, to add one element of a push
  double update_bytes = 28;         // and to update it
  double squares_bytes = 4;         // to sum up its square, where gradients are clipped
  double state_bytes = 12;          // of an element with the optimizer's state: what a new copy gets
  double step_s = 0;                // of a worker that waits for nothing
  double step_tokens = 0;           // of one worker
  std::int64_t steps = 1;           // of each worker; async: on average
  bool clips = false;               // sync: an update waits for the norm of all shards' gradients, as in train
  std::int64_t shard_elements = 0;  // at most; 0: as train has them (ps::even_size)
};

struct ServedCluster {
  double host_bytes_per_s = 1e9;      // of a host's network interfaces together, in each direction
  double worker_bytes_per_s = 1e9;    // of those that one worker uses
  double local_bytes_per_s = 10e9;    // between processes of one host
  double memory_bytes_per_s = 100e9;  // of a server's host
  double latency_s = 10e-6;           // of a message between hosts
  double message_s = 2e-6;            // that a server is busy with any message
  int workers_per_host = 1;
  int servers_per_host = 1;  // they stand beside the workers, from the first host on
};

// A process that ends without a word. Another one takes its place.
struct Kill {
  ps::Role role = ps::Role::server;
  int place = 0;
  double at_s = 0;
};

struct ServedFaults {
  std::vector<Kill> kills = {};
  double notice_s = 0.01;  // until the controller knows
  double restart_s = 1;    // until the new process is there
  double tick_s = 0;       // after which what was not answered is sent again; 0: long enough for all that is on its way
};

struct ServedInput {
  ps::Choice choice = {};
  ServedJob job = {};
  ServedCluster cluster = {};
  ServedFaults faults = {};
};

struct ServedRun {
  ps::ServedReport report = {};
  std::size_t events = 0;
  std::size_t shards = 0;
  std::vector<double> server_in_s = {};  // that the interface of each server's host was busy
  std::vector<double> server_out_s = {};
};

// Refused: more than can be simulated, a shard of which no copy is left (infeasible).
Result<ServedRun> run_served(const ServedInput& input);

// The same job in which all ranks wait for each other in every step, as all-reduce has it: a step takes what the
// slowest takes, and `reduce_s`.
ps::ServedReport run_all_reduced(const ServedInput& input, double reduce_s);

// Elements of each shard: as train has them, neighbours together where there would be very many.
std::vector<std::int64_t> served_shards(const ServedJob& job, int servers);

}  // namespace twinpod::sim
