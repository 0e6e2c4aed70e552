// NeMo: a recipe for Megatron-Bridge, one Python file that torchrun starts on every node.
#include <fmt/format.h>

#include <algorithm>

#include "core/quote.hpp"
#include "emit/engines.hpp"
#include "emit/facts.hpp"
#include "emit/mcore.hpp"
#include "model/arithmetic.hpp"

namespace twinpod::emit {
namespace {

// `name=value,` lines of a call; the value is Python as it stands.
struct Call {
  std::string text;

  template <typename T>
  void add(std::string_view name, const T& value) {
    text += fmt::format("        {}={},\n", name, value);
  }
  void quoted(std::string_view name, std::string_view value) { add(name, double_quoted(value)); }
  void flag(std::string_view name, bool value) { add(name, value ? "True" : "False"); }
};

bool is_latent(const spec::Model& model) { return model.attention.kv_rank > 0; }

void add_attention(Call& call, const spec::Job& job) {
  const spec::Attention& a = job.model.attention;
  call.add("num_attention_heads", a.heads);
  call.add("kv_channels", a.head_dim);
  if (is_latent(job.model)) {
    call.flag("multi_latent_attention", true);
    call.add("q_lora_rank", a.q_rank > 0 ? fmt::format("{}", a.q_rank) : "None");
    call.add("kv_lora_rank", a.kv_rank);
    call.add("qk_head_dim", a.head_dim);
    call.add("qk_pos_emb_head_dim", a.rope_head_dim);
    call.add("v_head_dim", a.v_head_dim > 0 ? a.v_head_dim : a.head_dim);
    call.quoted("rope_type", "rope");
  } else {
    call.add("num_query_groups", a.kv_heads);
  }
  call.flag("qk_layernorm", a.qk_norm || is_latent(job.model));
  if (a.sinks) call.quoted("softmax_type", "learnable");
  if (a.window > 0) call.add("window_size", fmt::format("({}, 0)", a.window));
  if (a.global_every > 0) call.add("window_attn_skip_freq", a.global_every);
}

void add_experts(Call& call, const spec::Model& model) {
  const spec::Experts& e = model.experts;
  if (e.count == 0) return;
  call.add("transformer_layer_spec", "partial(get_gpt_decoder_block_spec, use_transformer_engine=True)");
  call.add("num_moe_experts", e.count);
  call.add("moe_layer_freq", expert_layers_text(model));
  call.add("moe_ffn_hidden_size", e.ffn);
  call.add("moe_router_topk", e.per_token);
  if (const double shared = model::shared_ffn(e); shared > 0) {
    call.add("moe_shared_expert_intermediate_size", static_cast<int>(shared));
    call.flag("moe_shared_expert_gate", e.shared_gate);
  }
  call.quoted("moe_router_load_balancing_type", load_balancing(e));
  call.add("moe_aux_loss_coeff", auxiliary_loss(e));
  if (e.router_bias) {
    call.quoted("moe_router_score_function", "sigmoid");
    call.flag("moe_router_enable_expert_bias", true);
  }
  call.quoted("moe_router_dtype", "fp32");
  if (e.capacity_factor > 0) call.add("moe_expert_capacity_factor", e.capacity_factor);
  call.flag("moe_grouped_gemm", true);
  call.quoted("moe_token_dispatcher_type", "alltoall");
  call.flag("moe_permute_fusion", true);
}

void add_shape(Call& call, const spec::Job& job) {
  const spec::Model& model = job.model;
  call.add("num_layers", model.layers);
  call.add("hidden_size", model.hidden);
  call.add("ffn_hidden_size", model.ffn);
  add_attention(call, job);
  call.add("seq_length", job.training.sequence);
  call.quoted("position_embedding_type", model.positions == spec::Positions::rotary    ? "rope"
                                         : model.positions == spec::Positions::learned ? "learned_absolute"
                                                                                       : "none");
  if (model.positions == spec::Positions::rotary) {
    const int base = rotary_base(model);
    call.add("rotary_base", fmt::format("int(os.environ.get(\"ROTARY_BASE\", \"{}\"))", base > 0 ? base : 10'000));
  }
  call.quoted("normalization", model.norm == spec::Norm::rms_norm ? "RMSNorm" : "LayerNorm");
  call.flag("gated_linear_unit", model.gated_mlp);
  call.add("activation_func", model.gated_mlp ? "F.silu" : "F.gelu");
  call.flag("add_bias_linear", model.mlp_bias);
  call.flag("add_qkv_bias", model.attention.qkv_bias || model.attention.bias);
  call.flag("share_embeddings_and_output_weights", model.tied_embeddings);
  call.add("vocab_size", model.vocab);
  call.flag("should_pad_vocab", true);
  call.add("make_vocab_size_divisible_by", 128);
  call.add("attention_dropout", model.dropout);
  call.add("hidden_dropout", model.dropout);
  if (model.mtp_layers > 0) call.add("mtp_num_layers", model.mtp_layers);
  add_experts(call, model);
}

void add_pipeline(Call& call, const spec::Job& job) {
  const spec::Layout& layout = job.layout;
  call.add("pipeline_model_parallel_size", layout.pp);
  if (layout.pp == 1) return;
  call.add("pipeline_dtype", job.training.precision == spec::Precision::fp16 ? "torch.float16" : "torch.bfloat16");
  if (layout.virtual_stages > 1) call.add("virtual_pipeline_model_parallel_size", layout.virtual_stages);
  if (split_of(job) == Split::account) {
    call.flag("account_for_embedding_in_pipeline_split", true);
    call.flag("account_for_loss_in_pipeline_split", true);
  }
  if (split_of(job) == Split::by_the_list) call.quoted("pipeline_model_parallel_layout", pipeline_text(job));
}

void add_memory(Call& call, const spec::Job& job) {
  const spec::Layout& layout = job.layout;
  if (layout.recompute == spec::Recompute::selective) call.quoted("recompute_granularity", "selective");
  if (layout.recompute == spec::Recompute::full) {
    call.quoted("recompute_granularity", "full");
    call.quoted("recompute_method", layout.recompute_layers > 0 ? "block" : "uniform");
    call.add("recompute_num_layers", layout.recompute_layers > 0 ? layout.recompute_layers / layout.virtual_stages : 1);
  }
  if (layout.offload_activations) {
    call.flag("cpu_offloading", true);
    call.add("cpu_offloading_num_layers", job.model.layers - 1);
  }
}

std::string provider_text(const spec::Job& job) {
  const spec::Layout& layout = job.layout;
  Call call;
  add_shape(call, job);
  call.add("tensor_model_parallel_size", layout.tp);
  add_pipeline(call, job);
  call.add("context_parallel_size", layout.cp);
  if (job.model.experts.count > 0) {
    call.add("expert_model_parallel_size", layout.ep);
    call.add("expert_tensor_parallel_size", spec::expert_tp(layout));
  }
  call.flag("sequence_parallel", layout.sequence_parallel && layout.tp > 1);
  if (layout.async_tp && layout.tp > 1) call.flag("tp_comm_overlap", true);
  add_memory(call, job);
  if (uses_fsdp(layout)) call.flag("gradient_accumulation_fusion", false);
  return fmt::format("def model():\n    return {}(\n{}    )\n",
                     is_latent(job.model) ? "MLAModelProvider" : "GPTModelProvider", call.text);
}

std::string_view precision_name(const spec::Job& job) {
  if (job.training.precision == spec::Precision::fp16) return "fp16_mixed";
  if (job.training.precision != spec::Precision::fp8) return "bf16_mixed";
  const Fp8 fp8 = fp8_of(job);
  if (fp8.recipe == "mxfp8") return "bf16_with_mxfp8_mixed";
  return fp8.recipe == "blockwise" ? "bf16_with_fp8_subchannel_scaling_mixed" : "bf16_with_fp8_current_scaling_mixed";
}

std::string precision_text(const spec::Job& job) {
  std::string text = fmt::format("    cfg.mixed_precision = get_mixed_precision_config(\"{}\")\n", precision_name(job));
  if (job.training.precision == spec::Precision::fp4) {
    text += "    cfg.mixed_precision.fp4 = \"e2m1\"\n    cfg.mixed_precision.fp4_recipe = \"nvfp4\"\n";
  }
  return text +
         fmt::format("    cfg.mixed_precision.grad_reduce_in_fp32 = {}\n", gradient_bytes(job) < 4 ? "False" : "True");
}

std::string sharding_text(const spec::Job& job) {
  const spec::Layout& layout = job.layout;
  const bool copies = spec::data_parallel(job) * layout.cp > 1;
  Call call;
  call.flag("check_for_nan_in_grad", true);
  call.flag("use_distributed_optimizer", layout.zero > 0);
  const bool overlaps = copies && layout.overlap.value_or(true);
  call.flag("overlap_grad_reduce", overlaps);
  call.flag("overlap_param_gather", overlaps && layout.zero > 0);
  call.add("num_distributed_optimizer_instances", optimizer_instances(job));
  if (uses_fsdp(layout)) {
    call.flag("use_megatron_fsdp", true);
    call.quoted("data_parallel_sharding_strategy", layout.zero == 3 ? "optim_grads_params" : "optim_grads");
  }
  return "def sharding():\n    return DistributedDataParallelConfig(\n" + call.text + "    )\n";
}

std::string optimizer_text(const spec::Job& job) {
  std::string text = uses_fsdp(job.layout) ? "    cfg.dist.use_megatron_fsdp = True\n" : "";
  text += fmt::format("    cfg.optimizer.use_distributed_optimizer = {}\n", job.layout.zero > 0 ? "True" : "False");
  if (!job.layout.offload_optimizer) return text;
  return text +
         "    cfg.optimizer.optimizer_cpu_offload = True\n"
         "    cfg.optimizer.use_precision_aware_optimizer = True\n"
         "    cfg.optimizer.overlap_cpu_optimizer_d2h_h2d = True\n";
}

std::string imports_text(const spec::Job& job) {
  const bool experts = job.model.experts.count > 0;
  return std::string("import os\nimport sys\n") + (experts ? "from functools import partial\n" : "") +
         "\nimport torch\nimport torch.nn.functional as F\n"
         "from megatron.core.distributed import DistributedDataParallelConfig\n" +
         (experts ? "from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec\n" : "") +
         (is_latent(job.model) ? "from megatron.bridge.models.mla_provider import MLAModelProvider\n"
                               : "from megatron.bridge.models.gpt_provider import GPTModelProvider\n") +
         "from megatron.bridge.recipes.utils.optimizer_utils import distributed_fused_adam_with_cosine_annealing\n"
         "from megatron.bridge.training.config import (\n"
         "    CheckpointConfig,\n    ConfigContainer,\n    DistributedInitConfig,\n    GPTDatasetConfig,\n    "
         "LoggerConfig,\n"
         "    RNGConfig,\n    TokenizerConfig,\n    TrainingConfig,\n    ValidationConfig,\n)\n"
         "from megatron.bridge.training.gpt_step import forward_step\n"
         "from megatron.bridge.training.mixed_precision import get_mixed_precision_config\n"
         "from megatron.bridge.training.pretrain import pretrain\n\n";
}

// What twinpod does not know comes from the environment; `python recipe.py` alone says what is missing.
constexpr std::string_view kNeeds = R"(NEEDS = {
    "DATA_PATH": "prefix of the tokenized data (the files without .bin and .idx), or mock for made-up data",
    "TOKENIZER_MODEL": "name or folder of the Hugging Face tokenizer",
}
MOCK = os.environ.get("DATA_PATH") == "mock"
missing = [name for name in NEEDS if not os.environ.get(name) and not (MOCK and name == "TOKENIZER_MODEL")]
if missing:
    sys.exit("\n".join(f"set {name}: {NEEDS[name]}" for name in missing))
OUTPUT = os.environ.get("OUTPUT_PATH", os.path.join(os.getcwd(), "outputs"))
)";

constexpr std::string_view kContainer = R"(
def recipe():
    train_iters = int(os.environ.get("TRAIN_ITERS", "{steps}"))
    # The rates are not planned: what GPT-3 used for a model of about this size.
    optimizer, scheduler = distributed_fused_adam_with_cosine_annealing(
        lr_warmup_iters=max(1, train_iters // 100),
        lr_decay_iters=train_iters,
        max_lr=float(os.environ.get("LR", "{rate}")),
        min_lr=float(os.environ.get("MIN_LR", "{least}")),
    )
    cfg = ConfigContainer(
        model=model(),
        train=TrainingConfig(train_iters=train_iters, global_batch_size={batch}, micro_batch_size={micro}),
        validation=ValidationConfig(eval_interval=1000, eval_iters=10),
        optimizer=optimizer,
        scheduler=scheduler,
        ddp=sharding(),
        dataset=GPTDatasetConfig(
            random_seed=1234,
            seq_length={sequence},
            blend=None if MOCK else ([os.environ["DATA_PATH"]], None),
            split="99,1,0",
            dataloader_type="single",
            reset_position_ids=False,
            reset_attention_mask=False,
            eod_mask_loss=False,
        ),
        logger=LoggerConfig(log_interval=10, tensorboard_dir=os.path.join(OUTPUT, "tensorboard")),
        tokenizer=TokenizerConfig(
            tokenizer_type="NullTokenizer" if MOCK else "HuggingFaceTokenizer",
            tokenizer_model=None if MOCK else os.environ["TOKENIZER_MODEL"],
            vocab_size={vocab} if MOCK else None,
        ),
        checkpoint=CheckpointConfig(
            save=os.path.join(OUTPUT, "checkpoints"),
            load=os.path.join(OUTPUT, "checkpoints"),
            save_interval=1000,
            ckpt_format="{format}",
        ),
        rng=RNGConfig(seed=1234),
        dist=DistributedInitConfig(),
    )
)";

std::string container_text(const spec::Job& job) {
  const std::int64_t all_steps = steps(job);
  const double rate = usual_learning_rate(job.model);
  return fmt::format(
      kContainer, fmt::arg("steps", all_steps > 0 ? all_steps : 100), fmt::arg("rate", rate),
      fmt::arg("least", rate / 10), fmt::arg("batch", static_cast<std::int64_t>(job.training.global_batch)),
      fmt::arg("micro", job.layout.micro_batch), fmt::arg("sequence", job.training.sequence),
      fmt::arg("vocab", job.model.vocab), fmt::arg("format", uses_fsdp(job.layout) ? "fsdp_dtensor" : "torch_dist"));
}

}  // namespace

std::string nemo_recipe(const spec::Job& job) {
  const World world = world_of(job);
  const std::string what = fmt::format(
      "NeMo: a recipe for Megatron-Bridge. On every node:\n"
      "#   torchrun --nproc_per_node {} --nnodes {} --node_rank N --rdzv_backend c10d --rdzv_endpoint FIRST_NODE:29500 "
      "recipe.py",
      world.devices_per_node, world.nodes);
  // Python takes the encoding from a comment in the first two lines, and a name in one of them could give it another.
  return "#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\n" + head_comment(job, what) + imports_text(job) +
         std::string(kNeeds) + "\n\n" + provider_text(job) + "\n\n" + sharding_text(job) + "\n" + container_text(job) +
         optimizer_text(job) + precision_text(job) +
         "    return cfg\n\n\nif __name__ == \"__main__\":\n    pretrain(recipe(), forward_step)\n";
}

}  // namespace twinpod::emit
