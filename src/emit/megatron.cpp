// Megatron-LM: a bash script that runs pretrain_gpt.py under torchrun.
#include <fmt/format.h>

#include <algorithm>

#include "core/quote.hpp"
#include "emit/engines.hpp"
#include "emit/facts.hpp"
#include "emit/mcore.hpp"
#include "emit/script.hpp"
#include "model/arithmetic.hpp"

namespace twinpod::emit {
namespace {

using Flags = std::vector<Flag>;

void add(Flags& flags, std::string name) { flags.push_back({std::move(name), ""}); }

template <typename T>
void add(Flags& flags, std::string name, const T& value) {
  flags.push_back({std::move(name), fmt::format("{}", value)});
}

void add_if(Flags& flags, bool wanted, std::string name) {
  if (wanted) add(flags, std::move(name));
}

void add_attention(Flags& flags, const spec::Model& model) {
  const spec::Attention& a = model.attention;
  add(flags, "--num-attention-heads", a.heads);
  add(flags, "--kv-channels", a.head_dim);
  if (a.kv_rank > 0) {
    add(flags, "--multi-latent-attention");
    if (a.q_rank > 0) add(flags, "--q-lora-rank", a.q_rank);
    add(flags, "--kv-lora-rank", a.kv_rank);
    add(flags, "--qk-head-dim", a.head_dim);
    add(flags, "--qk-pos-emb-head-dim", a.rope_head_dim);
    add(flags, "--v-head-dim", a.v_head_dim > 0 ? a.v_head_dim : a.head_dim);
    add(flags, "--rope-type", "rope");
  } else if (a.kv_heads < a.heads) {
    add(flags, "--group-query-attention");
    add(flags, "--num-query-groups", a.kv_heads);
  }
  add_if(flags, a.qk_norm || a.kv_rank > 0, "--qk-layernorm");
  if (a.sinks) add(flags, "--softmax-type", "learnable");
  if (a.window > 0) add(flags, "--window-size", fmt::format("{},0", a.window));
  if (a.global_every > 0) add(flags, "--window-attn-skip-freq", a.global_every);
}

void add_positions(Flags& flags, const spec::Job& job) {
  const spec::Model& model = job.model;
  add(flags, "--seq-length", job.training.sequence);
  add(flags, "--max-position-embeddings", std::max(model.max_sequence, job.training.sequence));
  switch (model.positions) {
    case spec::Positions::learned:
      return add(flags, "--position-embedding-type", "learned_absolute");
    case spec::Positions::rotary:
      add(flags, "--position-embedding-type", "rope");
      return add(flags, "--rotary-base", "\"$ROTARY_BASE\"");
    default:
      return add(flags, "--position-embedding-type", "none");
  }
}

FlagGroup model_flags(const spec::Job& job) {
  const spec::Model& model = job.model;
  Flags flags;
  add(flags, "--num-layers", model.layers);
  add(flags, "--hidden-size", model.hidden);
  add(flags, "--ffn-hidden-size", model.ffn);
  add_attention(flags, model);
  add_positions(flags, job);
  add(flags, "--normalization", model.norm == spec::Norm::rms_norm ? "RMSNorm" : "LayerNorm");
  add_if(flags, model.gated_mlp, "--swiglu");
  add_if(flags, !model.mlp_bias, "--disable-bias-linear");
  add_if(flags, model.attention.qkv_bias, "--add-qkv-bias");
  add_if(flags, !model.tied_embeddings, "--untie-embeddings-and-output-weights");
  add(flags, "--vocab-size", model.vocab);
  add(flags, "--make-vocab-size-divisible-by", 128);
  add(flags, "--attention-dropout", model.dropout);
  add(flags, "--hidden-dropout", model.dropout);
  if (model.mtp_layers > 0) add(flags, "--mtp-num-layers", model.mtp_layers);
  return {"MODEL_ARGS", flags};
}

FlagGroup expert_flags(const spec::Model& model) {
  const spec::Experts& e = model.experts;
  Flags flags;
  add(flags, "--num-experts", e.count);
  add(flags, "--moe-layer-freq", shell_quoted(expert_layers_text(model)));
  add(flags, "--moe-ffn-hidden-size", e.ffn);
  add(flags, "--moe-router-topk", e.per_token);
  if (const double shared = model::shared_ffn(e); shared > 0) {
    add(flags, "--moe-shared-expert-intermediate-size", static_cast<int>(shared));
    add_if(flags, e.shared_gate, "--moe-shared-expert-gate");
  }
  add(flags, "--moe-router-load-balancing-type", load_balancing(e));
  add(flags, "--moe-aux-loss-coeff", auxiliary_loss(e));
  if (e.router_bias) {
    add(flags, "--moe-router-score-function", "sigmoid");
    add(flags, "--moe-router-enable-expert-bias");
  }
  add(flags, "--moe-router-dtype", "fp32");
  if (e.capacity_factor > 0) add(flags, "--moe-expert-capacity-factor", e.capacity_factor);
  add(flags, "--moe-grouped-gemm");
  add(flags, "--moe-token-dispatcher-type", "alltoall");
  add(flags, "--moe-permute-fusion");
  return {"EXPERT_ARGS", flags};
}

void add_pipeline(Flags& flags, const spec::Job& job) {
  const spec::Layout& layout = job.layout;
  add(flags, "--pipeline-model-parallel-size", layout.pp);
  if (layout.virtual_stages > 1) add(flags, "--num-virtual-stages-per-pipeline-rank", layout.virtual_stages);
  switch (split_of(job)) {
    case Split::even:
      return;
    case Split::account:
      add(flags, "--account-for-embedding-in-pipeline-split");
      return add(flags, "--account-for-loss-in-pipeline-split");
    case Split::by_the_list:
      return add(flags, "--pipeline-model-parallel-layout", shell_quoted(pipeline_text(job)));
  }
}

void add_sharding(Flags& flags, const spec::Job& job) {
  const spec::Layout& layout = job.layout;
  const bool copies = spec::data_parallel(job) * layout.cp > 1;
  if (uses_fsdp(layout)) {
    add(flags, "--use-megatron-fsdp");
    add(flags, "--data-parallel-sharding-strategy", layout.zero == 3 ? "optim_grads_params" : "optim_grads");
    add(flags, "--no-gradient-accumulation-fusion");
  }
  add_if(flags, layout.zero > 0, "--use-distributed-optimizer");
  if (const int instances = optimizer_instances(job); instances > 1) {
    add(flags, "--num-distributed-optimizer-instances", instances);
  }
  const bool overlaps = copies && layout.overlap.value_or(true);
  add_if(flags, overlaps, "--overlap-grad-reduce");
  add_if(flags, overlaps && layout.zero > 0, "--overlap-param-gather");
}

FlagGroup layout_flags(const spec::Job& job) {
  const spec::Layout& layout = job.layout;
  Flags flags;
  add(flags, "--tensor-model-parallel-size", layout.tp);
  add_pipeline(flags, job);
  add(flags, "--context-parallel-size", layout.cp);
  if (job.model.experts.count > 0) {
    add(flags, "--expert-model-parallel-size", layout.ep);
    add(flags, "--expert-tensor-parallel-size", spec::expert_tp(layout));
  }
  add_if(flags, layout.sequence_parallel && layout.tp > 1, "--sequence-parallel");
  add_if(flags, layout.async_tp && layout.tp > 1, "--tp-comm-overlap");
  add_sharding(flags, job);
  return {"PARALLEL_ARGS", flags};
}

void add_recompute(Flags& flags, const spec::Job& job) {
  const spec::Layout& layout = job.layout;
  if (layout.recompute == spec::Recompute::selective) add(flags, "--recompute-granularity", "selective");
  if (layout.recompute != spec::Recompute::full) return;
  add(flags, "--recompute-granularity", "full");
  add(flags, "--recompute-method", layout.recompute_layers > 0 ? "block" : "uniform");
  // The block method counts in each chunk of a stage.
  add(flags, "--recompute-num-layers",
      layout.recompute_layers > 0 ? layout.recompute_layers / layout.virtual_stages : 1);
}

FlagGroup memory_flags(const spec::Job& job) {
  Flags flags;
  add_recompute(flags, job);
  if (job.layout.offload_optimizer) {
    add(flags, "--optimizer-cpu-offload");
    add(flags, "--use-precision-aware-optimizer");
    add(flags, "--overlap-cpu-optimizer-d2h-h2d");
  }
  // Megatron Core keeps at least one layer on the device.
  if (job.layout.offload_activations) add(flags, "--cpu-offloading-num-layers", job.model.layers - 1);
  return {"MEMORY_ARGS", flags};
}

FlagGroup precision_flags(const spec::Job& job) {
  Flags flags;
  const spec::Precision precision = job.training.precision;
  if (precision == spec::Precision::fp16) add(flags, "--fp16");
  add_if(flags, precision == spec::Precision::bf16 || spec::is_narrow(precision), "--bf16");
  if (precision == spec::Precision::fp8) {
    const Fp8 fp8 = fp8_of(job);
    add(flags, "--fp8-format", fp8.format);
    add(flags, "--fp8-recipe", fp8.recipe);
  }
  if (precision == spec::Precision::fp4) {
    add(flags, "--fp4-format", "e2m1");
    add(flags, "--fp4-recipe", "nvfp4");
  }
  if (spec::is_wide(precision)) return {"PRECISION_ARGS", flags};
  add(flags, gradient_bytes(job) < 4 ? "--grad-reduce-in-bf16" : "--accumulate-allreduce-grads-in-fp32");
  return {"PRECISION_ARGS", flags};
}

void add_optimizer(Flags& flags, spec::Optimizer optimizer) {
  if (optimizer == spec::Optimizer::adam) {
    add(flags, "--optimizer", "adam");
    add(flags, "--adam-beta1", 0.9);
    return add(flags, "--adam-beta2", 0.95);
  }
  add(flags, "--optimizer", "sgd");
  add(flags, "--sgd-momentum", optimizer == spec::Optimizer::sgd_momentum ? 0.9 : 0.0);
}

FlagGroup training_flags(const spec::Job& job) {
  Flags flags;
  add(flags, "--micro-batch-size", job.layout.micro_batch);
  add(flags, "--global-batch-size", static_cast<std::int64_t>(job.training.global_batch));
  add(flags, "--train-iters", "\"$TRAIN_ITERS\"");
  add_optimizer(flags, job.training.optimizer);
  add(flags, "--lr", "\"$LR\"");
  add(flags, "--min-lr", "\"$MIN_LR\"");
  add(flags, "--lr-decay-style", "cosine");
  add(flags, "--lr-warmup-fraction", 0.01);
  add(flags, "--weight-decay", 0.1);
  add(flags, "--clip-grad", 1.0);
  return {"TRAINING_ARGS", flags};
}

FlagGroup output_flags(const spec::Job& job) {
  Flags flags;
  add(flags, "--save", "\"$CHECKPOINT_PATH\"");
  add(flags, "--load", "\"$CHECKPOINT_PATH\"");
  add(flags, "--save-interval", 1000);
  if (uses_fsdp(job.layout)) add(flags, "--ckpt-format", "fsdp_dtensor");
  add(flags, "--eval-interval", 1000);
  add(flags, "--eval-iters", 10);
  add(flags, "--log-interval", 10);
  add(flags, "--log-throughput");
  add(flags, "--tensorboard-dir", "\"$TENSORBOARD_PATH\"");
  return {"OUTPUT_ARGS", flags};
}

std::vector<Need> needs_of(const spec::Job& job) {
  std::vector<Need> needs = {
      {"MEGATRON_PATH", "the folder of Megatron-LM, which holds pretrain_gpt.py", ""},
      {"DATA_PATH", "prefix of the tokenized data (the files without .bin and .idx), or mock for made-up data", ""},
      {"TOKENIZER_MODEL", "name or folder of the Hugging Face tokenizer", "[[ ${DATA_PATH:-} != mock ]]"}};
  if (world_of(job).nodes > 1) {
    needs.push_back({"MASTER_ADDR", "address of the first node", ""});
    needs.push_back({"NODE_RANK", "number of this node, from 0", ""});
  }
  return needs;
}

std::string variables_text(const spec::Job& job) {
  const std::int64_t all_steps = steps(job);
  const double rate = usual_learning_rate(job.model);
  std::string text = fmt::format("TRAIN_ITERS=${{TRAIN_ITERS:-{}}}{}\n", all_steps > 0 ? all_steps : 100,
                                 all_steps > 0 ? "" : "  # the job does not say for how many tokens");
  text += fmt::format("LR=${{LR:-{}}}  # not planned: what GPT-3 used for a model of about this size\n", rate);
  text += fmt::format("MIN_LR=${{MIN_LR:-{}}}\n", rate / 10);
  if (job.model.positions == spec::Positions::rotary) {
    const int base = rotary_base(job.model);
    text += fmt::format("ROTARY_BASE=${{ROTARY_BASE:-{}}}{}\n", base > 0 ? base : 10'000,
                        base > 0 ? "" : "  # not known to twinpod; this is Megatron-LM's default");
  }
  return text +
         "CHECKPOINT_PATH=${CHECKPOINT_PATH:-$PWD/checkpoints}\n"
         "TENSORBOARD_PATH=${TENSORBOARD_PATH:-$PWD/tensorboard}\n";
}

// Kernels and collectives of tensor and context parallelism must be launched in order; Megatron FSDP asks for the
// opposite. Megatron-LM checks both at its start.
std::string environment_text(const spec::Layout& layout) {
  if (uses_fsdp(layout)) return "unset CUDA_DEVICE_MAX_CONNECTIONS  # Megatron FSDP refuses 1\n";
  return layout.tp > 1 || layout.cp > 1 ? "export CUDA_DEVICE_MAX_CONNECTIONS=1\n" : "";
}

constexpr std::string_view kDataText =
    "if [[ $DATA_PATH == mock ]]; then\n"
    "  DATA_ARGS=(--mock-data --tokenizer-type NullTokenizer)\n"
    "else\n"
    "  DATA_ARGS=(\n"
    "    --data-path \"$DATA_PATH\"\n"
    "    --split 99,1,0\n"
    "    --tokenizer-type HuggingFaceTokenizer\n"
    "    --tokenizer-model \"$TOKENIZER_MODEL\"\n"
    "  )\n"
    "fi\n";

}  // namespace

std::string megatron_script(const spec::Job& job) {
  std::vector<FlagGroup> groups = {model_flags(job)};
  if (job.model.experts.count > 0) groups.push_back(expert_flags(job.model));
  for (FlagGroup& group : std::vector{layout_flags(job), memory_flags(job), precision_flags(job), training_flags(job),
                                      output_flags(job)}) {
    if (!group.flags.empty()) groups.push_back(std::move(group));
  }
  std::string text = "#!/usr/bin/env bash\n" +
                     head_comment(job, "Megatron-LM: pretrain_gpt.py. Run this on every node.") +
                     "set -euo pipefail\n\n" + nodes_text(job) + needs_text(needs_of(job)) + "\n" +
                     variables_text(job) + environment_text(job.layout) + "\n";
  for (const FlagGroup& group : groups) text += array_text(group) + "\n";
  text += std::string(kDataText) + "\nexec " + torchrun_text(job) + "  \"$MEGATRON_PATH/pretrain_gpt.py\"";
  for (const FlagGroup& group : groups) text += fmt::format(" \\\n  \"${{{}[@]}}\"", group.name);
  return text + " \\\n  \"${DATA_ARGS[@]}\"\n";
}

}  // namespace twinpod::emit
