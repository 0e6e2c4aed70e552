#include "validate/memory_check.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace twinpod::validate {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
bool starts(const std::string& text, std::string_view part) { return text.rfind(part, 0) == 0; }

bool is_plain_deepspeed(const PublishedRun& run) { return starts(run.framework, "DeepSpeed"); }

// What a row leaves to its source: the framework of a recipe, the configuration file's sequence, the batch that its
// other numbers make.
PublishedRun completed(PublishedRun run) {
  if (run.framework.empty() && has(run.source, "DGXC")) {
    run.framework = "NeMo 25.04";
    run.date = "2025";
  }
  if (run.seq <= 0 && has(run.framework, "InternEvo")) run.seq = 2048;
  const double ranks = std::max(1.0, run.tp) * std::max(1.0, run.pp) * std::max(1.0, run.cp);
  if (run.gbs <= 0)
    run.gbs = std::max(1.0, run.mbs) * std::max(1.0, run.grad_accum) * std::max(1.0, run.devices / ranks);
  if (is_plain_deepspeed(run) && run.zero_stage == 3) run.framework += ", ZeRO-3";
  return run;
}

std::string why_no_memory(const PublishedRun& run) {
  if (!run.task.empty() && run.task != "pretrain") return "fine-tuning: only a part of the parameters is trained";
  if (run.layers <= 0 || run.hidden <= 0) return "no model dimensions";
  if (run.seq <= 0) return "no sequence length";
  if (run.devices <= 0) return "no device count";
  if (run.tp <= 0 && run.zero_stage != 3) return "no layout";
  return "";
}

// Facts that a row prints of its software and its precision, and that a step time does not ask for.
void apply_printed(const PublishedRun& run, spec::Job& job) {
  if (starts(run.precision, "BF16"))
    job.training.precision = spec::Precision::bf16;                            // "BF16/FP8": the first named counts
  if (has(run.precision, "fp32 grad accum")) job.training.gradient_bytes = 6;  // beside the 16-bit gradients
  if (has(run.sharding, "CPU") && has(run.sharding, "offload")) job.layout.offload_optimizer = true;
  if (has(run.framework, "FA3") || has(run.framework, "FA4")) job.stack.fused_attention = true;
  if (has(run.framework, "torchtitan") && run.date >= "2025")
    job.stack.memory.logit_bytes = 6;                                 // its loss is compiled since
  if (has(run.framework, "Liger")) job.stack.memory.logit_bytes = 0;  // logits and loss in one kernel, by chunks
}

double read(const plan::MemoryUse& use, Counter counter) {
  switch (counter) {
    case Counter::allocated:
      return use.allocated();
    case Counter::reserved:
      return use.reserved();
    case Counter::used:
      return use.total();
  }
  return use.total();
}

// Stages that have ranks on the first node: pipeline stages follow each other in the order of devices.
int stages_on_first_node(const spec::Job& job) {
  const double devices_of_stage = static_cast<double>(job.cluster.devices) / job.layout.pp;
  const double stages = std::ceil(job.cluster.devices_per_node / devices_of_stage);
  return std::clamp(static_cast<int>(stages), 1, job.layout.pp);
}

plan::MemoryUse metered(const spec::Job& job, const Meter& meter) {
  if (!meter.first_rank && !meter.first_node) return plan::peak_memory(job);
  plan::MemoryUse fullest = plan::stage_memory(job, 0);
  for (int stage = 1; meter.first_node && stage < stages_on_first_node(job); ++stage) {
    const plan::MemoryUse use = plan::stage_memory(job, stage);
    if (use.needed() > fullest.needed()) fullest = use;
  }
  return fullest;
}

MemoryCase case_of(const PublishedRun& printed, Library& library) {
  MemoryCase one;
  one.run = completed(printed);
  one.meter = meter_of(one.run);
  one.measured_bytes = one.run.mem_gb * one.meter.unit;
  one.not_covered = why_no_memory(one.run);
  if (!one.covered()) return one;
  Result<RunJob> made = job_of(one.run, library);
  if (!made) {
    one.not_covered = made.error().message;
    return one;
  }
  one.made = std::move(*made);
  apply_printed(one.run, one.made.job);
  one.use = metered(one.made.job, one.meter);
  one.predicted_bytes = read(one.use, one.meter.counter);
  return one;
}

}  // namespace

// Megatron-DeepSpeed's and InternEvo's tables are read from the driver (80 of an 80 GiB device are "80GB"); torchtitan
// logs reserved memory (GiB in its pages, 10^9 bytes in the rows); NeMo logs allocated bytes, MLPerf's callback those
// of rank 0 over 2^30: the differences between its rows of 4, 16, 19 and 20 data-parallel ranks are 12 bytes for each
// parameter of the first stage, to three digits, and only so.
Meter meter_of(const PublishedRun& run) {
  if (has(run.model, "MLPerf")) return {Counter::allocated, kGib, true};
  if (has(run.framework, "InternEvo")) return {Counter::used, kGib, false, true};
  if (has(run.framework, "Megatron-DeepSpeed")) return {Counter::used, kGib, false};
  if (has(run.framework, "torchtitan")) return {Counter::reserved, 1e9, false};
  if (is_plain_deepspeed(run) || has(run.framework, "Megatron-LM")) return {Counter::reserved, kGib, false};
  if (has(run.framework, "NeMo")) return {Counter::allocated, 1e9, false};
  return {};
}

std::vector<MemoryCase> check_memory_rows(const spec::Catalog& catalog, const std::vector<PublishedRun>& runs) {
  Library library(catalog);
  std::vector<MemoryCase> cases;
  for (const PublishedRun& run : runs) {
    if (run.mem_gb > 0 && (run.kind == "memory" || run.kind == "llm_training")) cases.push_back(case_of(run, library));
  }
  return cases;
}

std::vector<double> memory_errors(const std::vector<MemoryCase>& cases,
                                  const std::function<bool(const MemoryCase&)>& wanted) {
  std::vector<double> list;
  for (const MemoryCase& one : cases) {
    if (one.covered() && wanted(one)) list.push_back(one.error());
  }
  return list;
}

}  // namespace twinpod::validate
