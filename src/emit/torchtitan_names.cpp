// Names of torchtitan 0.3: fields of its Trainer.Config, and what is imported.
#include <array>

#include "emit/name_tables.hpp"

namespace twinpod::emit {
namespace {

constexpr std::string_view kConfigs = "torchtitan/config/configs.py";
constexpr std::string_view kTrainer = "torchtitan/trainer.py";
constexpr std::string_view kManager = "torchtitan/config/manager.py, torchtitan/config/README.md";
constexpr std::string_view kRegistry = "torchtitan/models/*/config_registry.py";
constexpr std::string_view kQuantization = "torchtitan/components/quantization, docs/float8.md";
constexpr std::string_view kAc = "torchtitan/distributed/activation_checkpoint.py";

constexpr std::array kNames = {
    KnownName{"--module", kManager, "an importable module; ours is written by the script"},
    KnownName{"--config", kManager, "its function that returns the Trainer.Config"},
    KnownName{"base", kRegistry, "the configuration of the model's size that ours starts from"},
    KnownName{"model_registry", "torchtitan/models/*/\\_\\_init\\_\\_.py",
              "the model of a flavor, with its converters"},
    KnownName{"attn_backend", "torchtitan/models/*/\\_\\_init\\_\\_.py", "flex for DeepSeek, as in its configurations"},
    KnownName{"converters", "torchtitan/models/*/\\_\\_init\\_\\_.py", "FP8"},
    KnownName{"Float8LinearConverter", kQuantization, "FP8 products"},
    KnownName{"Float8GroupedExpertsConverter", kQuantization, "FP8 products of the experts"},
    KnownName{"filter_fqns", kQuantization, "modules that stay in 16 bits"},
    KnownName{"recipe_name", kQuantization, "rowwise: one scale for each row"},
    KnownName{"model_compile_enabled", kQuantization, "the converter wants to know whether the model is compiled"},
    KnownName{"FullAC", kAc, "recompute: full"},
    KnownName{"SelectiveAC", kAc, "recompute: selective"},
    KnownName{"config.hf_assets_path", kTrainer, "folder with the tokenizer"},
    KnownName{"config.dump_folder", kTrainer, "folder of checkpoints and curves"},
    KnownName{"config.dataloader.dataset", "torchtitan/hf\\_datasets/text\\_datasets.py", "name of the data"},
    KnownName{"config.dataloader.dataset_path", "torchtitan/hf\\_datasets/text\\_datasets.py", "a local copy of it"},
    KnownName{"config.model_spec", kTrainer, "the model, where it differs from the configuration's"},
    KnownName{"config.training.local_batch_size", kConfigs, "sequences of a data-parallel rank at a time"},
    KnownName{"config.training.global_batch_size", kConfigs, "sequences of a step"},
    KnownName{"config.training.seq_len", kConfigs, "tokens of a sequence"},
    KnownName{"config.training.steps", kConfigs, "steps"},
    KnownName{"config.training.dtype", kConfigs, "bfloat16 for pure_low_precision"},
    KnownName{"config.training.mixed_precision_param", kConfigs, "type of the products"},
    KnownName{"config.training.enable_cpu_offload", kConfigs, "parameters, gradients and optimizer state on the host"},
    KnownName{"config.training.disable_cuda_graphs", kConfigs, "pipelines and experts cannot be captured"},
    KnownName{"config.parallelism.data_parallel_replicate_degree", kConfigs, "dp / shard_group"},
    KnownName{"config.parallelism.data_parallel_shard_degree", kConfigs, "ranks over which parameters are sharded"},
    KnownName{"config.parallelism.fsdp_reshard_after_forward", kConfigs, "always: ZeRO 3; never: ZeRO 2"},
    KnownName{"config.parallelism.tensor_parallel_degree", kConfigs, "tp"},
    KnownName{"config.parallelism.enable_sequence_parallel", kConfigs, "sequence_parallel"},
    KnownName{"config.parallelism.context_parallel_degree", kConfigs, "cp"},
    KnownName{"config.parallelism.expert_parallel_degree", kConfigs, "ep, taken from dp × cp × tp"},
    KnownName{"config.parallelism.pipeline_parallel_degree", kConfigs, "pp"},
    KnownName{"config.parallelism.pipeline_parallel_schedule", kConfigs, "GPipe, 1F1B, Interleaved1F1B, ZBVZeroBubble"},
    KnownName{"config.parallelism.pipeline_parallel_microbatch_size", kConfigs, "micro_batch"},
    KnownName{"config.parallelism.pipeline_parallel_first_stage_less_layers", kConfigs, "1 with uneven_ends, else 0"},
    KnownName{"config.parallelism.pipeline_parallel_last_stage_less_layers", kConfigs, "1 with uneven_ends, else 0"},
    KnownName{"config.parallelism.pipeline_parallel_layers_per_stage", kConfigs,
              "layers of a chunk, with several chunks"},
    KnownName{"config.activation_checkpoint", kTrainer, "None: nothing is recomputed"},
    KnownName{"config.compile.enable", kConfigs, "torch.compile; off for the stack torchtitan-eager and for zb-v"},
    KnownName{"config.compile.enable_async_tensor_parallel", kConfigs, "async_tp"},
    KnownName{"config.checkpoint.enable", "torchtitan/components/checkpointer/base.py", "checkpoints are written"},
    KnownName{"config.checkpoint.interval", "torchtitan/components/checkpointer/base.py", "steps between them"},
    KnownName{"config.metrics.log_freq", "torchtitan/components/metrics.py", "steps between lines of the log"},
};

}  // namespace

std::span<const KnownName> torchtitan_names() { return kNames; }

}  // namespace twinpod::emit
