#include "plan/predict.hpp"

#include "plan/op_times.hpp"

namespace twinpod::plan {

Result<sim::StepRun> predict_step(const spec::Job& job, const program::Program& program, const Surroundings& where) {
  const sim::StepTimes times = op_times(job, program);
  return sim::run_step({program, times, where.graph, where.routing, where.device_of_rank, where.slow});
}

Result<Prediction> predict_step(const spec::Job& job, const program::Program& program) {
  Result<cluster::Graph> graph = cluster::build_graph(job.cluster);
  if (!graph) return tl::unexpected(graph.error());
  Result<sim::StepRun> run = predict_step(job, program, {&*graph, cluster::usual_routing(*graph)});
  if (!run) return tl::unexpected(run.error());
  return Prediction{std::move(*graph), std::move(*run)};
}

}  // namespace twinpod::plan
