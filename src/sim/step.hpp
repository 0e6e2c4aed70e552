// The step engine: runs a Program on a cluster, op by op, in one clock.
//
//     const Result<program::Program> program = program::generate(job);
//     StepInput input{*program, plan::op_times(job, *program)};
//     input.graph = &graph;                              // none: communication is never in each other's way
//     input.slow = {{37, 1.3}};                          // rank 37 computes 1.3 times as long
//     const Result<StepRun> run = run_step(input);
//     run->step_s; run->kinds[0].ops[12].start_s
//
// What is simulated: lanes, waits, transfers and collectives as program/program.hpp says. Communication whose links
// nothing else can use takes its own time; all other is a fluid that shares links max-min fairly with what moves at the
// same moment. The load of a collective on links is that of rings through its members (sim/network_share.hpp says how
// they are laid), of an all-to-all that of all its pairs.
//
// Folding: ranks, groups, transfers and links that are alike are simulated as one. Alike is found by partition
// refinement (sim/fold.hpp) on ranks, what joins them and the links that they use; so a slow rank splits its kind into
// those who wait for it directly, through one group, and so on, and nothing else. The result is that of the unfolded
// run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cluster/graph.hpp"
#include "cluster/route.hpp"
#include "core/error.hpp"
#include "program/program.hpp"
#include "program/timeline.hpp"
#include "sim/op_time.hpp"
#include "sim/storage_links.hpp"

namespace twinpod::sim {

struct StepInput {
  const program::Program& program;
  const StepTimes& times;
  const cluster::Graph* graph = nullptr;
  cluster::Routing routing = cluster::Routing::rail;
  std::vector<int> device_of_rank = {};  // empty: rank r is on device r
  std::map<int, double> slow = {};       // ranks that compute so many times as long
  bool fold = true;
  const StorageLinks* storage = nullptr;  // none: what the drain writes takes its own time
};

// What held an op up until it started.
enum class Cause : std::uint8_t {
  nothing,  // it began with the step
  lane,     // the op before it on its lane
  wait,     // an op of its block
  arrival,  // a transfer from another rank
  member,   // another rank of its collective, which came last
};

// A kind of ranks and one of its ops: its number in the kind's list, block after block.
struct OpRef {
  std::uint32_t kind = 0;
  std::uint32_t op = 0;
};

struct OpRun : program::OpSpan {
  OpRef after;  // what it waited for last
  Cause cause = Cause::nothing;
};

// Ranks that do the same at the same times.
struct RankKind {
  int rank = 0;  // one of them, the lowest
  int count = 1;
  int program_kind = 0;
  double slow = 1;
  std::span<OpRun> ops;  // in the StepRun's store
};

// Links that are alike, on which transfers were in each other's way.
struct FullLink {
  int link = 0;  // one of them; those of storage follow those of the graph
  int count = 1;
  double full_s = 0;  // how long all of its rate was taken, and more was wanted
};

struct StepRun {
  double step_s = 0;  // the tail included
  double ops_s = 0;   // end of the last op; where stages end one after the other, of the longest from its first
  OpRef last;         // op that ends last
  std::shared_ptr<OpRun[]> ops;  // of all kinds, one after the other; who copies a step shares them
  std::vector<RankKind> kinds;
  std::vector<int> kind_of_rank;
  std::vector<double> link_bytes;     // moved by each link of the graph
  std::vector<double> storage_bytes;  // moved by each of the StorageLinks
  std::vector<FullLink> full_links;   // longest first
  std::size_t events = 0;             // ops and rate changes
  double contention_s = 0;  // that communication took longer than alone, summed over the ops of one rank of each kind
};

// Refused: a Program whose ops wait for each other for ever; ranks or devices that are not there (input); no route
// (infeasible).
Result<StepRun> run_step(const StepInput& input);

// What happened, without why: on one kind of ranks, and on all of them.
program::RankTimeline timeline_of(const RankKind& kind);
program::Timeline timeline_of(const StepRun& run);

// Where the ops of an instance begin in RankKind::ops.
std::vector<std::uint32_t> first_ops(const program::Program& program, int program_kind);
program::PlacedOp op_at(const program::Program& program, int program_kind, std::uint32_t op);

// The chain of ops that the step's length comes from, first to last.
std::vector<OpRef> critical_path(const StepRun& run);

}  // namespace twinpod::sim
