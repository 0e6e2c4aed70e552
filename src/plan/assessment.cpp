#include "plan/assessment.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/thousands.hpp"
#include "core/units.hpp"
#include "layout/check.hpp"
#include "program/schedule.hpp"

namespace twinpod::plan {
namespace {

constexpr double kNearlyFull = 0.95;
constexpr double kOptimisticPipeline = 2;  // micro-batches for each stage below which the bubble is large

void warn_of_uneven_stages(const spec::Job& job, std::vector<std::string>& list) {
  const std::vector<int> layers = program::layers_of_stages(job.model.layers, job.layout);
  const auto [least, most] = std::minmax_element(layers.begin(), layers.end());
  if (*least == *most || job.layout.uneven_ends) return;
  list.push_back(fmt::format("{} over {}: some hold {}, others {}, and the fullest sets the pace",
                             counted(job.model.layers, "layer"), counted(job.layout.pp, "stage"), *most, *least));
}

void warn_of_slow_tensor_axis(const spec::Job& job, std::vector<std::string>& list) {
  if (job.layout.tp <= std::max(1, job.cluster.scale_up_domain)) return;
  list.push_back(fmt::format("tp {} reaches beyond the {} that the scale-up network joins", job.layout.tp,
                             counted(job.cluster.scale_up_domain, "device")));
}

void warn_of_short_pipeline(const spec::Job& job, std::vector<std::string>& list) {
  const double batches = spec::micro_batches(job);
  if (job.layout.pp < 2 || batches >= kOptimisticPipeline * job.layout.pp) return;
  list.push_back(fmt::format("{} for {}: a larger global_batch would shrink the bubble",
                             counted(batches, "micro-batch", "micro-batches"), counted(job.layout.pp, "stage")));
}

void warn_of_full_device(const spec::Job& job, const MemoryUse& memory, std::vector<std::string>& list) {
  const double share = memory.total() / job.cluster.device.memory_bytes;
  if (share <= kNearlyFull || share > 1) return;
  list.push_back(
      fmt::format("memory is {:.0f} % full: what the estimate errs by may be more than what is left", 100 * share));
}

void warn_of_long_sequence(const spec::Job& job, std::vector<std::string>& list) {
  if (job.model.max_sequence == 0 || job.training.sequence <= job.model.max_sequence) return;
  list.push_back(fmt::format("sequence {} is longer than the {} tokens that the model is made for",
                             job.training.sequence, job.model.max_sequence));
}

}  // namespace

std::vector<std::string> warnings(const spec::Job& job, const MemoryUse& memory) {
  std::vector<std::string> list;
  warn_of_uneven_stages(job, list);
  warn_of_slow_tensor_axis(job, list);
  warn_of_short_pipeline(job, list);
  warn_of_full_device(job, memory, list);
  warn_of_long_sequence(job, list);
  return list;
}

Assessment assess(const spec::Job& job, const Accuracy& accuracy) {
  Assessment a;
  a.step = step_time(job);
  a.memory = peak_memory(job);
  for (int stage = 0; stage < job.layout.pp; ++stage) a.stages.push_back(stage_memory(job, stage));
  a.metrics = metrics(job, a.step);
  a.range = range_of(accuracy, job);
  a.warnings = warnings(job, a.memory);
  return a;
}

}  // namespace twinpod::plan
