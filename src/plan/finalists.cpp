#include "plan/finalists.hpp"

#include <algorithm>

#include "plan/predict.hpp"
#include "program/generate.hpp"

namespace twinpod::plan {
namespace {

Result<Finalist> simulated(const spec::Job& job, const Candidate& candidate, std::size_t rank) {
  spec::Job own = job;
  own.layout = candidate.layout;
  own.cluster.devices = candidate.devices;
  const Result<program::Program> program = program::generate(own);
  if (!program) return tl::unexpected(program.error());
  const Result<Prediction> predicted = predict_step(own, *program);
  if (!predicted) return tl::unexpected(predicted.error());
  const sim::StepRun& run = predicted->run;
  Finalist finalist{candidate, rank, run.step_s, "", 0};
  if (!run.full_links.empty()) {
    finalist.full_link = cluster::link_name(predicted->graph, run.full_links.front().link);
    finalist.full_s = run.full_links.front().full_s;
  }
  return finalist;
}

}  // namespace

Result<std::vector<Finalist>> simulate_finalists(const spec::Job& job, const std::vector<Candidate>& candidates) {
  std::vector<Finalist> finalists;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Result<Finalist> one = simulated(job, candidates[i], i + 1);
    if (!one) return tl::unexpected(one.error());
    finalists.push_back(std::move(*one));
  }
  std::stable_sort(finalists.begin(), finalists.end(),
                   [](const Finalist& a, const Finalist& b) { return a.simulated_s < b.simulated_s; });
  return finalists;
}

}  // namespace twinpod::plan
