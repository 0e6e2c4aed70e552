#include "validate/simulate_check.hpp"

#include "cluster/topology.hpp"
#include "plan/estimate.hpp"
#include "plan/op_times.hpp"
#include "program/generate.hpp"
#include "sim/step.hpp"

namespace twinpod::validate {

Result<SimulatedRun> simulate_run(const Case& one) {
  const spec::Job& job = one.made.job;
  const Result<program::Program> program = program::generate(job);
  if (!program) return tl::unexpected(program.error());
  const sim::StepTimes times = plan::op_times(job, *program);
  SimulatedRun run;
  run.id = one.run.id;
  run.measured_s = one.run.measured_s();
  run.closed_form_s = plan::step_time(job).total_s;
  run.ranks = program->mesh.ranks();

  sim::StepInput input{*program, times};
  const Result<sim::StepRun> alone = sim::run_step(input);
  if (!alone) return tl::unexpected(alone.error());
  run.alone_s = alone->step_s;

  const Result<cluster::Graph> graph = cluster::build_graph(job.cluster);
  if (!graph) return tl::unexpected(graph.error());
  input.graph = &*graph;
  input.routing = cluster::usual_routing(*graph);
  const Result<sim::StepRun> together = sim::run_step(input);
  if (!together) return tl::unexpected(together.error());
  run.simulated_s = together->step_s;
  run.kinds = static_cast<int>(together->kinds.size());
  if (!together->full_links.empty()) {
    run.full_link = cluster::link_name(*graph, together->full_links.front().link);
    run.full_s = together->full_links.front().full_s;
  }
  return run;
}

}  // namespace twinpod::validate
