// What holds a step back (reasons.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/units.hpp"
#include "plan/memory.hpp"
#include "plan/reasons.hpp"

namespace twinpod::plan {
namespace {

using spec::Job;

using Advise = std::string (*)(const Job&, const StepTime&);

std::string saving(double before_s, double after_s) {
  const double saved = before_s - after_s;
  return fmt::format("{} ({:.1f} %)", format_seconds(std::max(0.0, saved)), 100 * std::max(0.0, saved) / before_s);
}

// Both networks on trial; the one that helps more is named first.
std::string faster_network(const Job& job, const StepTime& step) {
  Job up = job;
  Job out = job;
  up.cluster.scale_up_bytes_per_s *= 2;
  out.cluster.scale_out_bytes_per_s *= 2;
  const double up_s = step_time(up).total_s;
  const double out_s = step_time(out).total_s;
  const bool inside = up_s <= out_s;
  return fmt::format("a {} network twice as fast ({}) would save {} of a step, a {} one {}",
                     inside ? "scale-up" : "scale-out",
                     format_bytes_per_s(inside ? up.cluster.scale_up_bytes_per_s : out.cluster.scale_out_bytes_per_s),
                     saving(step.total_s, inside ? up_s : out_s), inside ? "scale-out" : "scale-up",
                     saving(step.total_s, inside ? out_s : up_s));
}

// The batch is doubled in micro-batches, so every layout stays valid.
std::string larger_batch(const Job& job, const StepTime& step) {
  Job twice = job;
  twice.training.global_batch *= 2;
  const double of_half = step_time(twice).total_s / 2;
  return fmt::format("twice the batch would take {:.1f} % less time for each token",
                     100 * std::max(0.0, 1 - of_half / step.total_s));
}

std::string more_memory(const Job& job, const StepTime& /*step*/) {
  Job without = job;
  without.layout.recompute = spec::Recompute::none;
  without.layout.recompute_layers = 0;
  const double needed = peak_memory(without).needed();
  return fmt::format("without recomputation a step would take {}, and a device would need {} of its {}",
                     format_seconds(step_time(without).total_s), format_bytes(needed),
                     format_bytes(job.cluster.device.memory_bytes));
}

std::string faster_host(const Job& job, const StepTime& step) {
  Job faster = job;
  spec::Physics& p = faster.stack.physics;
  for (double* seconds : {&p.launch_s, &p.launch_tp_s, &p.launch_head_s, &p.launch_expert_s}) *seconds /= 2;
  return fmt::format("a host that launches kernels twice as fast would save {} of a step",
                     saving(step.total_s, step_time(faster).total_s));
}

std::string faster_host_link(const Job& job, const StepTime& step) {
  Job faster = job;
  faster.cluster.device.host_bytes_per_s *= 2;
  return fmt::format("a link to the host twice as fast ({}) would save {} of a step",
                     format_bytes_per_s(faster.cluster.device.host_bytes_per_s),
                     saving(step.total_s, step_time(faster).total_s));
}

std::string faster_update(const Job& job, const StepTime& step) {
  if (job.layout.offload_optimizer) return faster_host_link(job, step);
  Job faster = job;
  faster.cluster.device.memory_bytes_per_s *= 2;
  return fmt::format("memory twice as fast ({}) would save {} of a step, not only here",
                     format_bytes_per_s(faster.cluster.device.memory_bytes_per_s),
                     saving(step.total_s, step_time(faster).total_s));
}

std::string faster_storage(const Job& job, const StepTime& step) {
  Job faster = job;
  faster.cluster.storage_read_bytes_per_s *= 2;
  return fmt::format("storage twice as fast ({}) would save {} of a step",
                     format_bytes_per_s(faster.cluster.storage_read_bytes_per_s),
                     saving(step.total_s, step_time(faster).total_s));
}

std::string even_nodes(const Job& job, const StepTime& step) {
  Job even = job;
  even.stack.physics.growth = 0;
  return fmt::format("nodes that all keep the same pace would save {} of a step",
                     saving(step.total_s, step_time(even).total_s));
}

constexpr std::array kCompute = {Part::products, Part::attention, Part::elements, Part::head};

struct Kind {
  Part part;
  std::string_view meaning;
  Advise advise;
};

constexpr std::array kOthers = {
    Kind{Part::recompute, "forward work done again", more_memory},
    Kind{Part::tensor, "tensor-parallel communication", faster_network},
    Kind{Part::context, "context-parallel communication", faster_network},
    Kind{Part::expert, "exchange of tokens between experts", faster_network},
    Kind{Part::shard, "gathering of parameters for ZeRO 3", faster_network},
    Kind{Part::parking, "activations on their way to and from the host", faster_host_link},
    Kind{Part::pipeline, "transfers between stages", faster_network},
    Kind{Part::bubble, "waiting for other stages", larger_batch},
    Kind{Part::launch, "waiting for the host that launches kernels", faster_host},
    Kind{Part::data, "reduction of gradients and gathering of parameters", faster_network},
    Kind{Part::optimizer, "update of the parameters", faster_update},
    Kind{Part::input, "reading of training data", faster_storage},
    Kind{Part::stragglers, "waiting for the slowest of many nodes", even_nodes},
    Kind{Part::fixed, "what each step takes, whatever its size", larger_batch},
};
static_assert(kCompute.size() + kOthers.size() == kNumParts);

}  // namespace

Bottleneck bottleneck(const Job& job, const StepTime& step) {
  Bottleneck found;
  Cost compute{"compute", "products, attention, memory-bound kernels and head", 0};
  for (const Part part : kCompute) compute.seconds += step.parts[part];
  found.costs.push_back(compute);
  Advise advise = nullptr;
  for (const Kind& kind : kOthers) {
    const Cost cost{part_name(kind.part), kind.meaning, step.parts[kind.part]};
    if (cost.seconds <= 0) continue;
    found.costs.push_back(cost);
    if (cost.seconds <= found.largest.seconds) continue;
    found.largest = cost;
    advise = kind.advise;
  }
  found.compute_share = compute.seconds / step.total_s;
  found.share = found.largest.seconds / step.total_s;
  if (advise != nullptr) found.advice = advise(job, step);
  std::stable_sort(found.costs.begin(), found.costs.end(),
                   [](const Cost& a, const Cost& b) { return a.seconds > b.seconds; });
  return found;
}

}  // namespace twinpod::plan
