// What a Timeline says about a step: where the time of the ranks goes. Nothing but a Timeline and its Program goes in,
// so that a simulated and a real step are judged by the same code.
//
//     const StepMetrics metrics = step_metrics(program, timeline);
//     metrics.mean.compute_s + metrics.mean.bubble_s + metrics.mean.exposed_s() + metrics.mean.tail_s ==
//     timeline.step_s
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "program/timeline.hpp"

namespace twinpod::report {

// Seconds of a rank, which add up to the step.
struct RankShares {
  double compute_s = 0;
  std::array<double, program::kNumLanes> exposed{};  // communication that computation waits for, by lane
  double bubble_s = 0;  // waiting for other ranks: stages that have not sent yet, members who have not come yet
  double tail_s = 0;    // behind the last op
  double exposed_s() const;
  double idle_s() const { return exposed_s() + bubble_s + tail_s; }
};

struct StepMetrics {
  std::vector<RankShares> ranks;  // in the order of the Timeline
  RankShares mean;                // over all ranks
};

StepMetrics step_metrics(const program::Program& program, const program::Timeline& timeline);

// The same from ranks that are made one at a time: a long step need not stand in memory twice.
using MakeRank = std::function<program::RankTimeline(std::size_t)>;
StepMetrics step_metrics(const program::Program& program, double step_s, std::size_t num_ranks, const MakeRank& rank);

}  // namespace twinpod::report
