#include "plan/predict.hpp"

#include "cluster/topology.hpp"
#include "plan/op_times.hpp"

namespace twinpod::plan {

Result<sim::StepRun> predict_step(const spec::Job& job, const program::Program& program) {
  const Result<cluster::Graph> graph = cluster::build_graph(job.cluster);
  if (!graph) return tl::unexpected(graph.error());
  const sim::StepTimes times = op_times(job, program);
  sim::StepInput input{program, times};
  input.graph = &*graph;
  input.routing = cluster::usual_routing(*graph);
  return sim::run_step(input);
}

}  // namespace twinpod::plan
