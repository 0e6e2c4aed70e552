#include "plan/finalists.hpp"

#include <algorithm>

#include "cluster/topology.hpp"
#include "plan/op_times.hpp"
#include "program/generate.hpp"
#include "sim/step.hpp"

namespace twinpod::plan {
namespace {

Result<Finalist> simulated(const spec::Job& job, const Candidate& candidate, std::size_t rank) {
  spec::Job own = job;
  own.layout = candidate.layout;
  own.cluster.devices = candidate.devices;
  const Result<program::Program> program = program::generate(own);
  if (!program) return tl::unexpected(program.error());
  const Result<cluster::Graph> graph = cluster::build_graph(own.cluster);
  if (!graph) return tl::unexpected(graph.error());
  const sim::StepTimes times = op_times(own, *program);
  sim::StepInput input{*program, times};
  input.graph = &*graph;
  input.routing = cluster::usual_routing(*graph);
  const Result<sim::StepRun> run = sim::run_step(input);
  if (!run) return tl::unexpected(run.error());
  Finalist finalist{candidate, rank, run->step_s, "", 0};
  if (!run->full_links.empty()) {
    finalist.full_link = cluster::link_name(*graph, run->full_links.front().link);
    finalist.full_s = run->full_links.front().full_s;
  }
  return finalist;
}

}  // namespace

Result<std::vector<Finalist>> simulate_finalists(const spec::Job& job, const std::vector<Candidate>& ranked,
                                                 std::size_t number) {
  std::vector<Finalist> finalists;
  for (std::size_t i = 0; i < std::min(number, ranked.size()); ++i) {
    Result<Finalist> one = simulated(job, ranked[i], i + 1);
    if (!one) return tl::unexpected(one.error());
    finalists.push_back(std::move(*one));
  }
  std::stable_sort(finalists.begin(), finalists.end(),
                   [](const Finalist& a, const Finalist& b) { return a.simulated_s < b.simulated_s; });
  return finalists;
}

}  // namespace twinpod::plan
