// torchtitan 0.3: a bash script that writes a configuration in Python (a function that returns a Trainer.Config) and
// runs torchtitan.train with it. Configurations in TOML ended with 0.2.
#include <fmt/format.h>

#include <algorithm>

#include "emit/engines.hpp"
#include "emit/facts.hpp"
#include "emit/flavors.hpp"
#include "emit/script.hpp"

namespace twinpod::emit {
namespace {

using spec::Schedule;

struct Batch {
  std::int64_t local = 0;  // sequences that a data-parallel rank takes at a time
  std::int64_t micro = 0;  // with a pipeline: of them in a micro-batch
};

// A pipeline works through its micro-batches inside one local batch; without one the trainer accumulates.
Batch batch_of(const spec::Job& job) {
  const std::int64_t micro = job.layout.micro_batch;
  return {job.layout.pp > 1 ? micro * static_cast<std::int64_t>(spec::micro_batches(job)) : micro, micro};
}

std::string_view schedule_name(const spec::Layout& layout) {
  if (layout.virtual_stages > 1) return "Interleaved1F1B";
  switch (layout.schedule) {
    case Schedule::gpipe:
      return "GPipe";
    case Schedule::zb_v:
      return "ZBVZeroBubble";
    default:
      return "1F1B";
  }
}

bool compiles(const spec::Job& job) {
  return job.stack.name != "torchtitan-eager" && job.layout.schedule != Schedule::zb_v;
}

std::string line(std::string_view key, const std::string& value) {
  return fmt::format("    config.{} = {}\n", key, value);
}

template <typename T>
std::string line(std::string_view key, const T& value) {
  return fmt::format("    config.{} = {}\n", key, value);
}

std::string_view truth(bool value) { return value ? "True" : "False"; }

std::string imports_text(const spec::Job& job, const Flavor& flavor) {
  const bool fp8 = job.training.precision == spec::Precision::fp8;
  std::string text = "import os\n\n";
  if (fp8) {
    text += fmt::format("from torchtitan.components.quantization import {}Float8LinearConverter\n",
                        job.model.experts.count > 0 ? "Float8GroupedExpertsConverter, " : "");
  }
  if (job.layout.recompute != spec::Recompute::none) {
    text += fmt::format("from torchtitan.distributed.activation_checkpoint import {}\n",
                        job.layout.recompute == spec::Recompute::full ? "FullAC" : "SelectiveAC");
  }
  if (fp8 || !flavor.own_config)
    text += fmt::format("from torchtitan.models.{} import model_registry\n", flavor.module);
  return text +
         fmt::format("from torchtitan.models.{}.config_registry import {} as base\n", flavor.module, flavor.config);
}

// Router and head stay in 16 bits, as in torchtitan's own configurations.
std::string converters_text(const spec::Job& job) {
  const std::string recipe = job.training.rowwise_scaling ? "recipe_name=\"rowwise\", " : "";
  const std::string compiled = "model_compile_enabled=compiled";
  std::string text = fmt::format(
      "        converters=[\n            Float8LinearConverter.Config({}filter_fqns=[\"lm_head\", \"router.gate\"], "
      "{}),\n",
      recipe, compiled);
  if (job.model.experts.count > 0)
    text += fmt::format("            Float8GroupedExpertsConverter.Config({}),\n", compiled);
  return text + "        ],\n";
}

std::string model_text(const spec::Job& job, const Flavor& flavor) {
  const bool fp8 = job.training.precision == spec::Precision::fp8;
  if (!fp8 && flavor.own_config) return "";
  std::string text = fp8 ? "    compiled = config.compile.enable and \"model\" in config.compile.components\n" : "";
  text += fmt::format("    config.model_spec = model_registry(\n        \"{}\",\n", flavor.flavor);
  if (!flavor.backend.empty()) text += fmt::format("        attn_backend=\"{}\",\n", flavor.backend);
  if (fp8) text += converters_text(job);
  return text + "    )\n";
}

std::string training_text(const spec::Job& job) {
  const std::int64_t all_steps = steps(job);
  const spec::Training& training = job.training;
  const Batch batch = batch_of(job);
  std::string text = line("training.local_batch_size", batch.local);
  text += line("training.global_batch_size", static_cast<std::int64_t>(training.global_batch));
  text += line("training.seq_len", training.sequence);
  text +=
      line("training.steps", fmt::format("int(os.environ.get(\"STEPS\", \"{}\"))", all_steps > 0 ? all_steps : 100));
  const bool wide = spec::is_wide(training.precision);
  text += line("training.dtype", training.pure_low_precision ? "\"bfloat16\"" : "\"float32\"");
  text += line("training.mixed_precision_param", wide ? "\"float32\"" : "\"bfloat16\"");
  text += line("training.enable_cpu_offload", truth(job.layout.offload_optimizer));
  if (job.layout.pp > 1 || job.model.experts.count > 0) text += line("training.disable_cuda_graphs", "True");
  return text;
}

std::string data_parallel_text(const spec::Job& job) {
  const spec::Layout& layout = job.layout;
  const int dp = spec::data_parallel(job);
  const int shard = layout.zero == 0 ? 1 : layout.shard_group > 0 ? std::max(1, layout.shard_group / layout.cp) : dp;
  std::string text = line("parallelism.data_parallel_replicate_degree", dp / shard);
  text += line("parallelism.data_parallel_shard_degree", shard);
  if (layout.zero > 0) {
    text += line("parallelism.fsdp_reshard_after_forward", layout.zero == 3 ? "\"always\"" : "\"never\"");
  }
  return text;
}

std::string pipeline_text_of(const spec::Job& job) {
  const spec::Layout& layout = job.layout;
  std::string text = line("parallelism.pipeline_parallel_degree", layout.pp);
  if (layout.pp == 1) return text;
  const int ends = layout.uneven_ends ? 1 : 0;
  text += line("parallelism.pipeline_parallel_schedule", fmt::format("\"{}\"", schedule_name(layout)));
  text += line("parallelism.pipeline_parallel_microbatch_size", batch_of(job).micro);
  text += line("parallelism.pipeline_parallel_first_stage_less_layers", ends);
  text += line("parallelism.pipeline_parallel_last_stage_less_layers", ends);
  const int chunks = layout.pp * (layout.schedule == Schedule::zb_v ? 2 : layout.virtual_stages);
  if (chunks == layout.pp) return text;  // one chunk a stage is what torchtitan takes by itself
  return text + line("parallelism.pipeline_parallel_layers_per_stage", (job.model.layers + 2 * ends) / chunks);
}

std::string parallelism_text(const spec::Job& job) {
  const spec::Layout& layout = job.layout;
  std::string text = data_parallel_text(job);
  text += line("parallelism.tensor_parallel_degree", layout.tp);
  text += line("parallelism.enable_sequence_parallel", truth(layout.sequence_parallel));
  text += line("parallelism.context_parallel_degree", layout.cp);
  text += line("parallelism.expert_parallel_degree", layout.ep);
  return text + pipeline_text_of(job);
}

std::string rest_text(const spec::Job& job) {
  const spec::Layout& layout = job.layout;
  std::string text;
  switch (layout.recompute) {
    case spec::Recompute::none:
      text += line("activation_checkpoint", "None");
      break;
    case spec::Recompute::selective:
      text += line("activation_checkpoint", "SelectiveAC.Config()");
      break;
    case spec::Recompute::full:
      text += line("activation_checkpoint", "FullAC.Config()");
      break;
  }
  text += line("checkpoint.enable", "True");
  text += line("checkpoint.interval", 1000);
  return text + line("metrics.log_freq", 10);
}

// Before the model: converters want to know whether it is compiled.
std::string compile_text(const spec::Job& job) {
  std::string text = line("compile.enable", truth(compiles(job)));
  return job.layout.async_tp ? text + line("compile.enable_async_tensor_parallel", "True") : text;
}

std::string python_text(const spec::Job& job, const Flavor& flavor) {
  return imports_text(job, flavor) +
         "\n\ndef run():\n"
         "    config = base()\n"
         "    config.hf_assets_path = os.environ[\"HF_ASSETS\"]\n"
         "    config.dump_folder = os.environ[\"OUTPUT_PATH\"]\n"
         "    config.dataloader.dataset = os.environ[\"DATASET\"]\n"
         "    if os.environ.get(\"DATASET_PATH\"):\n"
         "        config.dataloader.dataset_path = os.environ[\"DATASET_PATH\"]\n" +
         compile_text(job) + model_text(job, flavor) + training_text(job) + parallelism_text(job) + rest_text(job) +
         "    return config\n";
}

std::vector<Need> needs_of(const spec::Job& job) {
  std::vector<Need> needs = {
      {"HF_ASSETS",
       "folder of the model's Hugging Face assets (tokenizer): scripts/download_hf_assets.py of torchtitan", ""}};
  if (world_of(job).nodes > 1) {
    needs.push_back({"MASTER_ADDR", "address of the first node", ""});
    needs.push_back({"NODE_RANK", "number of this node, from 0", ""});
  }
  return needs;
}

std::string notes_text(const spec::Job& job) {
  const Batch batch = batch_of(job);
  const std::int64_t share = batch.local * spec::data_parallel(job);
  std::string text =
      fmt::format("#   {} sequences = local batch {} × dp {} × {} accumulated\n",
                  static_cast<std::int64_t>(job.training.global_batch), batch.local, spec::data_parallel(job),
                  static_cast<std::int64_t>(job.training.global_batch) / share);
  if (job.model.mtp_layers > 0)
    text += "#   torchtitan trains the main model, without the multi-token prediction module.\n";
  return text;
}

}  // namespace

std::string torchtitan_script(const spec::Job& job) {
  const Flavor& flavor = *flavor_of(job.model);
  const std::string what =
      fmt::format("torchtitan 0.3: {}, flavor {}. Run this on every node.", flavor.module, flavor.flavor);
  return "#!/usr/bin/env bash\n" + head_comment(job, what) + notes_text(job) + "set -euo pipefail\n\n" +
         nodes_text(job) + needs_text(needs_of(job)) +
         "\nexport HF_ASSETS\n"
         "export DATASET=${DATASET:-c4}\n"
         "export DATASET_PATH=${DATASET_PATH:-}  # a local copy; empty: streamed from Hugging Face\n"
         "export OUTPUT_PATH=${OUTPUT_PATH:-$PWD/outputs}\n"
         "export PYTORCH_ALLOC_CONF=${PYTORCH_ALLOC_CONF:-expandable_segments:True}\n"
         "CONFIG_DIR=$(mktemp -d)\n"
         "cat >\"$CONFIG_DIR/twinpod_run.py\" <<'TWINPOD_CONFIG'\n" +
         python_text(job, flavor) +
         "TWINPOD_CONFIG\n"
         "export PYTHONPATH=$CONFIG_DIR${PYTHONPATH:+:$PYTHONPATH}\n\n"
         "exec " +
         torchrun_text(job) + "  -m torchtitan.train \\\n  --module twinpod_run \\\n  --config run\n";
}

}  // namespace twinpod::emit
