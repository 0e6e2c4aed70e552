#include "validate/plan_check.hpp"

#include "plan/estimate.hpp"
#include "plan/memory.hpp"

namespace twinpod::validate {

Result<PlanCheck> check_plan(const PublishedRun& run, Library& library) {
  const Result<RunJob> found = job_of(run, library);
  if (!found) return tl::unexpected(found.error());
  spec::Job job = found->job;
  job.has_layout = true;
  spec::Job plain = job;
  plain.layout = plan::canonical(job);
  const plan::MemoryUse use = plan::peak_memory(plain);
  PlanCheck check;
  check.id = run.id;
  check.published = {plain.layout, plain.cluster.devices, plan::step_time(plain).total_s, use.total()};
  check.memory_share = use.needed() / plain.cluster.device.memory_bytes;
  const plan::SearchResult result =
      plan::search(plan::space_of(job, {}, job.stack.abilities), {.keep = 1, .asked = check.published});
  check.rank = result.asked_rank;
  check.feasible = result.feasible;
  if (!result.ranked.empty()) check.best = result.ranked.front();
  return check;
}

}  // namespace twinpod::validate
