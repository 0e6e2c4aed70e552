// Seconds of the ops of a Program, as an input of the step engine (sim/step.hpp): from the closed form
// (plan/op_times.hpp) or from measurements. The Program itself knows none.
#pragma once

#include <vector>

namespace twinpod::sim {

// Of one op when nothing is in its way. Computation, host traffic and reading: `latency_s` is all of it.
// Communication and what the drain writes: after `latency_s` its bytes move for `transfer_s` at `bytes_per_s`, more
// slowly where links are shared.
struct OpTime {
  double latency_s = 0;
  double transfer_s = 0;
  double bytes_per_s = 0;  // that one rank sends meanwhile, all its links together; 0: it is on no link
  // Share of the op after which who waits for it may go on; its lane is taken for the rest, which hides behind others.
  double exposed = 1;
  double seconds() const { return latency_s + transfer_s; }
};

struct StepTimes {
  std::vector<std::vector<OpTime>> ops;  // of each block, in the order of its ops
  double tail_s = 0;  // behind the last op: waiting for the slowest of many nodes, what no op explains
};

}  // namespace twinpod::sim
