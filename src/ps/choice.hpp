// How a job is trained with a parameter server, and what such a run came to: the same for a real run (train) and a
// simulated one (sim), so that they can be compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/compress.hpp"
#include "ps/diary.hpp"
#include "ps/state.hpp"
#include "ps/straggler.hpp"
#include "ps/strangers.hpp"

namespace twinpod::ps {

// The flags of `train`, `simulate` and `study sync-async`.
struct Choice {
  int servers = 1;
  int workers = 1;
  int copies = 1;             // of each shard
  std::string mode = "sync";  // as it was written
  Settings settings = {};     // of the mode; backup workers too
  int group = 1;              // ranks of a worker, who add up by all-reduce before their leader pushes (hierarchical)
  int local_steps = 1;        // between two pushes; more than 1: the change of the parameters is pushed (local SGD)
  std::string compress = "none";
  Compression compression = {};
  Straggler straggler = {};
  double pace_s = 0;  // the least that the passes of a step take: workers sleep the rest, so that few cores stand for
                      // several equal devices
};

// One step of one worker, in seconds since the run began.
struct WorkerStep {
  int worker = 0;  // its place
  std::int64_t clock = 0;
  double begin_s = 0;
  double end_s = 0;
  double waited_s = 0;    // of it, for values
  double loss = 0;        // on its part of the batch; NaN in a simulation
  double computed_s = 0;  // of it, in passes; the rest is behind them, for the push
};

struct ServedReport {
  std::vector<WorkerStep> steps = {};                   // of all workers, by their ends
  double seconds = 0;                                   // from the first step's begin to the last one's end
  double tokens = 0;                                    // of all steps
  std::vector<std::uint64_t> staleness_histogram = {};  // [k]: reads that lacked k clocks of some worker
  std::int64_t staleness_max = 0;
  std::uint64_t pushed_bytes = 0;
  std::uint64_t pulled_bytes = 0;
  std::uint64_t updates_applied = 0;
  std::uint64_t updates_lost = 0;     // acknowledged and not in the values: must be 0
  std::uint64_t updates_twice = 0;    // in the values more often than they were pushed: must be 0
  std::uint64_t updates_dropped = 0;  // by backup workers, on purpose
  int failovers = 0;
  int deaths = 0;
  Strangers strangers = {};                   // at the ports of this host
  std::vector<double> server_busy_s = {};     // of each server that was there at the end: handling messages
  std::vector<double> server_queue_s = {};    // mean time that a message waited for it
  std::vector<double> worker_waited_s = {};   // by place
  std::vector<Handled> server_messages = {};  // if a trace was asked for; each server's in their order
  std::int64_t server_messages_left_out = 0;  // there were more than are kept
};

inline double tokens_per_second(const ServedReport& report) {
  return report.seconds > 0 ? report.tokens / report.seconds : 0;
}

}  // namespace twinpod::ps
