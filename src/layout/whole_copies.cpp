#include "layout/whole_copies.hpp"

#include <cstdint>

#include "layout/check.hpp"
#include "spec/read.hpp"

namespace twinpod::layout {
namespace {

spec::Job with_copies(const spec::Job& job, std::int64_t copies, std::int64_t ranks_of_copy) {
  spec::Job made = job;
  made.cluster.devices = static_cast<int>(copies * ranks_of_copy);
  made.idle_devices = job.cluster.devices - made.cluster.devices;
  if (job.training.batch_tokens > 0) made.training.global_batch = spec::shared_batch(made, job.training.batch_tokens);
  if (job.name == spec::default_name(job)) made.name = spec::default_name(made);
  return made;
}

}  // namespace

spec::Job with_whole_copies(const spec::Job& job) {
  const spec::Layout& l = job.layout;
  const std::int64_t ranks = std::int64_t{l.tp} * l.pp * l.cp;
  if (job.names_devices || ranks < 1 || check(job)) return job;
  const std::int64_t devices = job.cluster.devices;
  if (l.dp > 0) {  // who names the copies names the devices
    if (l.dp * ranks > devices) return job;
    const spec::Job made = with_copies(job, l.dp, ranks);
    return check(made) ? made : job;
  }
  for (std::int64_t copies = devices / ranks; copies >= 1 && 4 * copies * ranks >= 3 * devices; --copies) {
    const spec::Job made = with_copies(job, copies, ranks);
    if (check(made)) return made;
  }
  return job;
}

}  // namespace twinpod::layout
