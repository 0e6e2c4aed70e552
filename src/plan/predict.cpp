#include "plan/predict.hpp"

#include <algorithm>

#include "plan/op_times.hpp"

namespace twinpod::plan {
namespace {

Result<Prediction> predicted(const spec::Job& job, const program::Program& program, const sim::StepTimes& times) {
  Result<cluster::Graph> graph = cluster::build_graph(job.cluster);
  if (!graph) return tl::unexpected(graph.error());
  Result<sim::StepRun> run = sim::run_step({program, times, &*graph, cluster::usual_routing(*graph)});
  if (!run) return tl::unexpected(run.error());
  return Prediction{std::move(*graph), std::move(*run)};
}

}  // namespace

Result<sim::StepRun> predict_step(const spec::Job& job, const program::Program& program, const Surroundings& where) {
  const sim::StepTimes times = op_times(job, program);
  return sim::run_step({program, times, where.graph, where.routing, where.device_of_rank, where.slow});
}

Result<Prediction> predict_step(const spec::Job& job, const program::Program& program) {
  return predicted(job, program, op_times(job, program));
}

Result<Prediction> predict_step(const spec::Job& job, const program::Program& program,
                                const program::OpSeconds& seconds) {
  sim::StepTimes times = op_times(job, program);
  for (std::size_t b = 0; b < std::min(seconds.size(), times.ops.size()); ++b) {
    for (std::size_t i = 0; i < std::min(seconds[b].size(), times.ops[b].size()); ++i) {
      if (seconds[b][i] >= 0) times.ops[b][i] = {.latency_s = seconds[b][i]};
    }
  }
  return predicted(job, program, times);
}

}  // namespace twinpod::plan
