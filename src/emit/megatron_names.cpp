// Flags of Megatron-LM's pretrain_gpt.py. Fields of the config classes become flags by their name: a field `a_b` is
// `--a-b`, unless its metadata names another flag.
#include <array>

#include "emit/name_tables.hpp"

namespace twinpod::emit {
namespace {

constexpr std::string_view kArguments = "megatron/training/arguments.py";
constexpr std::string_view kTransformer = "megatron/core/transformer/transformer_config.py";
constexpr std::string_view kParallel = "megatron/core/model_parallel_config.py";
constexpr std::string_view kTraining = "megatron/training/config/training_config.py";
constexpr std::string_view kCommon = "megatron/training/config/common_config.py";

constexpr std::array kNames = {
    // The model.
    KnownName{"--num-layers", kTransformer, "layers"},
    KnownName{"--hidden-size", kTransformer, "hidden width"},
    KnownName{"--ffn-hidden-size", kTransformer, "inner width of the dense MLP"},
    KnownName{"--num-attention-heads", kTransformer, "query heads"},
    KnownName{"--kv-channels", kTransformer, "width of a head"},
    KnownName{"--group-query-attention", kArguments, "fewer key/value heads than query heads"},
    KnownName{"--num-query-groups", kTransformer, "key/value heads"},
    KnownName{"--seq-length", kArguments, "tokens of a sequence"},
    KnownName{"--max-position-embeddings", kArguments, "longest sequence of the model; rows of a learned table"},
    KnownName{"--position-embedding-type", kArguments, "rope, learned_absolute or none"},
    KnownName{"--rotary-base", kArguments, "base of the rotary angles"},
    KnownName{"--normalization", kTransformer, "RMSNorm or LayerNorm"},
    KnownName{"--swiglu", kArguments, "gated MLP with three matrices"},
    KnownName{"--disable-bias-linear", kTransformer, "projections without bias (field add_bias_linear)"},
    KnownName{"--add-qkv-bias", kTransformer, "bias on query, key and value only"},
    KnownName{"--qk-layernorm", kTransformer, "norms on queries and keys, or on the compressions of latent attention"},
    KnownName{"--softmax-type", kTransformer, "learnable: one more score of each head in the softmax (sinks)"},
    KnownName{"--window-size", kArguments, "sliding-window attention: tokens to the left and to the right"},
    KnownName{"--window-attn-skip-freq", kArguments, "every n-th layer looks at all tokens"},
    KnownName{"--untie-embeddings-and-output-weights", kArguments, "the head has a matrix of its own"},
    KnownName{"--vocab-size", kArguments, "vocabulary before padding"},
    KnownName{"--make-vocab-size-divisible-by", kArguments, "padding of the vocabulary, times tp"},
    KnownName{"--attention-dropout", kTransformer, "dropout on attention"},
    KnownName{"--hidden-dropout", kTransformer, "dropout on the residual stream"},
    KnownName{"--mtp-num-layers", kTransformer, "multi-token prediction modules"},
    KnownName{"--multi-latent-attention", kTransformer, "latent attention (MLA)"},
    KnownName{"--q-lora-rank", kArguments, "rank of the query compression"},
    KnownName{"--kv-lora-rank", kArguments, "rank of the key/value compression"},
    KnownName{"--qk-head-dim", kArguments, "query/key head without its rotary part"},
    KnownName{"--qk-pos-emb-head-dim", kArguments, "rotary part of a query/key head"},
    KnownName{"--v-head-dim", kArguments, "width of a value head"},
    KnownName{"--rope-type", kArguments, "rope: latent attention would take yarn by default"},
    // Experts.
    KnownName{"--num-experts", kArguments, "routed experts of a layer"},
    KnownName{"--moe-layer-freq", kArguments, "which layers have experts: 1 mixture, 0 dense"},
    KnownName{"--moe-ffn-hidden-size", kTransformer, "inner width of one routed expert"},
    KnownName{"--moe-router-topk", kTransformer, "experts that a token visits"},
    KnownName{"--moe-shared-expert-intermediate-size", kTransformer, "inner width of all shared experts together"},
    KnownName{"--moe-shared-expert-gate", kTransformer, "a gate that weighs the shared experts"},
    KnownName{"--moe-router-load-balancing-type", kArguments, "aux_loss, or seq_aux_loss with an expert bias"},
    KnownName{"--moe-aux-loss-coeff", kArguments, "weight of that loss"},
    KnownName{"--moe-router-score-function", kTransformer, "sigmoid with an expert bias"},
    KnownName{"--moe-router-enable-expert-bias", kTransformer, "one number for each expert that balances the load"},
    KnownName{"--moe-router-dtype", kTransformer, "fp32 routing"},
    KnownName{"--moe-expert-capacity-factor", kTransformer, "tokens that an expert accepts / average"},
    KnownName{"--moe-grouped-gemm", kTransformer, "products of a rank's experts in one kernel"},
    KnownName{"--moe-token-dispatcher-type", kTransformer, "alltoall between the expert-parallel ranks"},
    KnownName{"--moe-permute-fusion", kTransformer, "tokens are sorted in one kernel"},
    // The layout.
    KnownName{"--tensor-model-parallel-size", kParallel, "tp"},
    KnownName{"--pipeline-model-parallel-size", kParallel, "pp"},
    KnownName{"--context-parallel-size", kParallel, "cp"},
    KnownName{"--expert-model-parallel-size", kParallel, "ep"},
    KnownName{"--expert-tensor-parallel-size", kParallel, "etp"},
    KnownName{"--sequence-parallel", kParallel, "norms and residuals split over the tensor-parallel ranks"},
    KnownName{"--num-virtual-stages-per-pipeline-rank", kArguments, "virtual_stages: interleaved 1F1B"},
    KnownName{"--pipeline-model-parallel-layout", kArguments, "layers of each stage, when they do not divide"},
    KnownName{"--account-for-embedding-in-pipeline-split", kTransformer,
              "uneven_ends: the embedding counts as a layer"},
    KnownName{"--account-for-loss-in-pipeline-split", kTransformer, "uneven_ends: the head counts as a layer"},
    KnownName{"--use-distributed-optimizer", kArguments, "ZeRO 1"},
    KnownName{"--num-distributed-optimizer-instances", kArguments, "dp × cp / shard_group copies of the shards"},
    KnownName{"--use-megatron-fsdp", kCommon, "ZeRO 2 and 3"},
    KnownName{"--data-parallel-sharding-strategy", kArguments, "optim_grads: ZeRO 2; optim_grads_params: ZeRO 3"},
    KnownName{"--no-gradient-accumulation-fusion", kArguments, "goes with Megatron FSDP"},
    KnownName{"--overlap-grad-reduce", kArguments, "gradients are reduced behind the backward pass"},
    KnownName{"--overlap-param-gather", kArguments, "parameters are gathered behind the forward pass"},
    KnownName{"--tp-comm-overlap", kParallel, "async_tp: products cut in pieces so that their collectives hide"},
    // Recomputation and offloading.
    KnownName{"--recompute-granularity", kTransformer, "selective or full"},
    KnownName{"--recompute-method", kTransformer, "uniform: all layers; block: some of a stage"},
    KnownName{"--recompute-num-layers", kTransformer, "uniform: layers of a unit; block: layers of a chunk"},
    KnownName{"--optimizer-cpu-offload", kArguments, "optimizer state and update on the host"},
    KnownName{"--use-precision-aware-optimizer", kArguments, "the code path that offloading of the optimizer needs"},
    KnownName{"--overlap-cpu-optimizer-d2h-h2d", kArguments, "copies to and from the host behind the update"},
    KnownName{"--cpu-offloading-num-layers", kParallel, "layers whose activations wait in host memory"},
    // Precision.
    KnownName{"--bf16", kParallel, "16-bit products, fp32 master copy"},
    KnownName{"--fp16", kParallel, "the same with loss scaling"},
    KnownName{"--fp8-format", kTransformer, "hybrid or e4m3 (field fp8)"},
    KnownName{"--fp8-recipe", kTransformer, "tensorwise, blockwise or mxfp8"},
    KnownName{"--fp4-format", kTransformer, "e2m1 (field fp4)"},
    KnownName{"--fp4-recipe", kTransformer, "nvfp4"},
    KnownName{"--accumulate-allreduce-grads-in-fp32", kArguments, "gradients of four bytes"},
    KnownName{"--grad-reduce-in-bf16", kArguments, "gradients of two bytes"},
    // Training.
    KnownName{"--micro-batch-size", kTraining, "sequences that a rank works on at a time"},
    KnownName{"--global-batch-size", kTraining, "sequences of a step"},
    KnownName{"--train-iters", kTraining, "steps"},
    KnownName{"--optimizer", kArguments, "adam or sgd"},
    KnownName{"--lr", kArguments, "highest learning rate"},
    KnownName{"--min-lr", kArguments, "lowest"},
    KnownName{"--lr-decay-style", kTraining, "cosine"},
    KnownName{"--lr-warmup-fraction", kTraining, "share of the steps in which it rises"},
    KnownName{"--weight-decay", kArguments, "as GPT-3 and Llama 3: 0.1"},
    KnownName{"--clip-grad", kArguments, "norm at which gradients are cut"},
    KnownName{"--adam-beta1", kArguments, "as GPT-3 and Llama 3: 0.9"},
    KnownName{"--adam-beta2", kArguments, "as GPT-3 and Llama 3: 0.95"},
    KnownName{"--sgd-momentum", kArguments, "0.9, or 0"},
    // Data, output.
    KnownName{"--data-path", kArguments, "prefix of the tokenized data"},
    KnownName{"--split", kArguments, "shares of training, validation and test"},
    KnownName{"--mock-data", kArguments, "made-up data, to try the launch"},
    KnownName{"--tokenizer-type", kArguments, "HuggingFaceTokenizer; NullTokenizer with made-up data"},
    KnownName{"--tokenizer-model", kArguments, "its name or folder"},
    KnownName{"--eval-interval", kTraining, "steps between evaluations"},
    KnownName{"--eval-iters", kTraining, "batches of an evaluation"},
    KnownName{"--save", kTraining, "folder of checkpoints"},
    KnownName{"--load", kTraining, "the same: a restarted job goes on"},
    KnownName{"--save-interval", kTraining, "steps between checkpoints"},
    KnownName{"--ckpt-format", kTraining, "fsdp_dtensor, which Megatron FSDP needs"},
    KnownName{"--log-interval", kTraining, "steps between lines of the log"},
    KnownName{"--log-throughput", kTraining, "FLOP/s of each device in the log"},
    KnownName{"--tensorboard-dir", kTraining, "folder of the curves"},
};

}  // namespace

std::span<const KnownName> megatron_names() { return kNames; }

}  // namespace twinpod::emit
