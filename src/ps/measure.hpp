// How fast values get to a server and back, between two processes of this machine, beside what comm's own messages do
// in the same run: what `twinpod bench ps` prints, and ps_bench.cpp.
//
//     Result<Exchange> exchange = measure_exchange({.bytes = 16 << 20, .shards = 16});
//     exchange->bytes_per_s();                       // of push and pull together
//     Result<double> rate = measure_updates(64);     // small ones, each acknowledged
//
// The best of all tries counts: whatever else runs makes a program slower, never faster. They are spread over several
// rounds of new processes, ours and comm's in turn, because it is luck which pages of memory a process gets.
#pragma once

#include <cstdint>

#include "ps/state.hpp"

namespace twinpod::ps {

struct ExchangeRequest {
  std::int64_t bytes = 16 << 20;             // of all values
  std::int64_t shards = 1;                   // that they are divided into
  Optimizer optimizer = Optimizer::replace;  // what the server does with a push; replace: it keeps it
  int rounds = 3;
  int tries = 30;    // in a round
  int tcp_port = 0;  // from which on they talk over TCP, on 127.0.0.1; 0: through shared memory
};

struct Exchange {
  double moved_bytes = 0;   // there and back
  double exchange_s = 0;    // push and pull of everything by one worker, at one server, until it can read the values
  double copied_s = 0;      // the same until they are in memory of its own
  double registered_s = 0;  // comm's message there and one back, of as many bytes, between registered buffers
  double ordinary_s = 0;    // and between others
  double bytes_per_s() const { return moved_bytes / exchange_s; }
  double ratio() const { return registered_s / exchange_s; }
  double copied_ratio() const { return registered_s / copied_s; }
};

Result<Exchange> measure_exchange(const ExchangeRequest& request);

// Updates of 8 numbers a second, in bursts that are acknowledged to the last.
Result<double> measure_updates(std::int64_t shards, int tries = 30, int tcp_port = 0);

}  // namespace twinpod::ps
