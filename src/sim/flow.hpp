// Fluid flows on links, shared max-min fairly: how long transfers take that use the same links at the same time.
//
//     std::vector<FlowLink> links = {{25e9, 1e-6}, {25e9, 1e-6}};
//     Program ring;                                         // a collective: phases one after the other
//     ring.phases.push_back({.flows = {{.path = {0}, .bytes = 1e6}, {.path = {1}, .bytes = 1e6}}, .repeats = 6});
//     Result<RunResult> done = run(links, {ring, another});  // both at once; they slow down where they meet
//     done->programs[0].end_s
//
// What is computed (docs/flows.md says more):
//   - Flows of a phase start together. A flow waits for its delay and the latencies of its path, then moves its bytes.
//   - The flows that move at a moment share links max-min fairly: no flow can get more without taking from one that has
//     no more than it. Rates change whenever a flow begins or ends to move.
//   - The next repetition, phase, or program that waits, starts when all flows of this one have ended.
// Flows, links and programs that are alike are simulated as one (sim/fold.hpp); the result is the same.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

#include "core/error.hpp"

namespace twinpod::sim {

struct FlowLink {
  double bytes_per_s = 0;  // infinite: only its latency counts
  double latency_s = 0;
};

struct Flow {
  std::vector<int> path;  // numbers of links, in order; none: both ends are on the same device
  double bytes = 0;
  double delay_s = 0;  // before the latencies of the path: that of a message, or a straggler's lag
  double count = 1;    // so many flows side by side, each with these bytes, all on this path; a whole number
  double max_bytes_per_s = std::numeric_limits<double>::infinity();  // of each of them, whatever the links would give
};

// Flows that start together. They are listed, or drawn one by one when needed, so that a ring of a million ranks need
// not be written down: draw(i, flow) fills in flow i, which it gets as a default Flow. Drawing the same flow twice must
// give the same.
struct PhaseFlows {
  std::vector<Flow> flows;
  double repeats = 1;  // a whole number
  std::size_t num_drawn = 0;
  std::function<void(std::size_t index, Flow& flow)> draw = nullptr;
};

struct Program {
  std::vector<PhaseFlows> phases;
  double start_s = 0;      // not before this
  std::vector<int> after;  // nor before these programs have ended
};

struct RunOptions {
  bool fold = true;          // simulate one of each kind; false: every flow for itself
  bool skip_repeats = true;  // take many repetitions at once when nothing else happens meanwhile
};

struct ProgramTimes {
  double start_s = 0;
  double end_s = 0;
  std::vector<double> phase_end_s;  // of the last repetition
};

struct RunResult {
  double end_s = 0;  // of the last program
  std::vector<ProgramTimes> programs;
  std::vector<double> link_bytes;  // moved by each link
  std::size_t events = 0;          // times at which flows began or ended to move
  std::size_t flows = 0;           // as given, a flow of count 8 as one
  std::size_t flow_kinds = 0;      // simulated
};

// Refused: a number of a link or program that does not exist, negative or unknown sizes, programs that wait for each
// other (input); a flow over a link of no capacity (infeasible).
Result<RunResult> run(const std::vector<FlowLink>& links, const std::vector<Program>& programs,
                      const RunOptions& options = {});

// Bytes per second of each flow when all move at once; a flow of count 8 has the rate of one of them.
Result<std::vector<double>> fair_rates(const std::vector<FlowLink>& links, const std::vector<Flow>& flows);

// A link and how busy it was: its bytes over those that it could have moved from 0 to the end.
struct LinkShare {
  int link = 0;
  double bytes = 0;
  double busy_share = 0;
};
// The busiest links, busiest first, ties by number; links without traffic are left out.
std::vector<LinkShare> hottest_links(const std::vector<FlowLink>& links, const RunResult& result, std::size_t most);

std::size_t num_flows(const PhaseFlows& phase);

}  // namespace twinpod::sim
