// What `twinpod simulate` prints: how long a step takes, where the time goes, who waits for whom, and what the links
// bear.
#pragma once

#include <string>
#include <vector>

#include "plan/estimate.hpp"
#include "program/check.hpp"
#include "report/step_metrics.hpp"
#include "sim/checkpoint.hpp"
#include "sim/step.hpp"
#include "spec/job.hpp"

namespace twinpod::report {

// A shape of the slice of a torus that was tried.
struct SliceStep {
  std::string slice;
  double step_s = 0;
};

struct StepView {
  const spec::Job& job;
  const program::Program& program;
  const cluster::Graph* graph = nullptr;  // none: simulated without a network
  const sim::StepRun& run;
  const StepMetrics& metrics;
  const sim::StepRun* healthy = nullptr;  // before anything was slow or cut
  const StepMetrics* healthy_metrics = nullptr;
  std::vector<std::string> faults = {};
  std::string placement = {};                        // in words; empty: the usual
  std::vector<SliceStep> slices = {};                // that were tried, the fastest first
  std::vector<program::MemoryOverTime> memory = {};  // by kind of the Program
  double closed_form_s = 0;
  double seconds = 0;  // that the simulation took
  const sim::CheckpointRun* checkpoint = nullptr;
  std::string checkpoint_refusal = {};  // why there is none, though the job has them
};

std::string step_text(const StepView& view);
std::string step_json(const StepView& view);

// The Timeline as JSON: for each kind of ranks all ops with their start and end.
std::string timeline_json(const program::Program& program, const program::Timeline& timeline);

// Seconds of the critical path by what its ops are.
struct PathPart {
  std::string what;
  double seconds = 0;
  int ops = 0;
};
std::vector<PathPart> path_parts(const program::Program& program, const sim::StepRun& run);

}  // namespace twinpod::report
