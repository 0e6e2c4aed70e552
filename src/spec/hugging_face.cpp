// Models from a Hugging Face config.json. Where a key is absent, the default is that of the model type's own
// configuration class, because files leave out what equals it.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "spec/bounds.hpp"
#include "spec/entries.hpp"
#include "spec/hugging_face_config.hpp"
#include "spec/read.hpp"

namespace twinpod::spec {
namespace {

using Config = HuggingFaceConfig;

// ---- what several types share

void read_sizes(const Config& config, Model& m) {
  m.hidden = config.needed({"hidden_size", "n_embd", "d_model", "n_embed"}, kMaxWidth);
  m.layers = config.needed({"num_hidden_layers", "n_layer", "n_layers"}, kMaxLayers);
  m.attention.heads = config.needed({"num_attention_heads", "n_head", "n_heads"}, kMaxHeads);
  m.vocab = config.needed({"vocab_size"}, kMaxVocab);
  m.attention.kv_heads = m.attention.heads;
}

// Absent means the type's default, null means as many as query heads; default 0: as many too.
void read_kv_heads(const Config& config, Model& m, int absent) {
  if (config.is_written("num_key_value_heads") || absent == 0) absent = m.attention.heads;
  m.attention.kv_heads = config.count({"num_key_value_heads"}, absent, 1, kMaxHeads);
}

// Pre-norm, rotary positions, gated MLP without biases: the shape that Llama made common.
void read_llama_shape(const Config& config, Model& m, int default_kv_heads, int default_sequence) {
  read_sizes(config, m);
  read_kv_heads(config, m, default_kv_heads);
  m.ffn = config.needed({"intermediate_size"}, kMaxWidth);
  m.max_sequence = config.count({"max_position_embeddings"}, default_sequence, 1, kMaxSequence);
  m.attention.head_dim = config.count({"head_dim"}, 0, 1, kMaxHeadDim);
  m.attention.bias = config.flag({"attention_bias"}, false);
  m.gated_mlp = true;
  m.norm = Norm::rms_norm;
  m.norm_bias = false;
  m.positions = Positions::rotary;
  m.tied_embeddings = config.flag({"tie_word_embeddings"}, false);
}

// LayerNorm and biases everywhere, MLP four times as wide: the shape that GPT-2 made common.
void read_gpt_shape(const Config& config, Model& m, int default_sequence) {
  read_sizes(config, m);
  m.ffn = config.count({"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"}, 0, 1, kMaxWidth);
  if (m.ffn == 0) m.ffn = std::min(4 * m.hidden, kMaxWidth);
  m.max_sequence = config.count({"max_position_embeddings", "n_positions", "n_ctx", "seq_length", "max_seq_len"},
                                default_sequence, 1, kMaxSequence);
  m.attention.bias = true;
  m.mlp_bias = true;
  m.norm = Norm::layer_norm;
  m.norm_bias = true;
}

// ---- sliding windows

// Which layers look at everything, as our two numbers: all but every n-th layer have the window.
void set_window(const Config& config, Model& m, int window, const std::vector<bool>& full, std::string_view key) {
  m.attention.window = window;
  m.attention.global_every = 0;
  const auto first = std::find(full.begin(), full.end(), true);
  if (first == full.end()) return;
  const std::size_t every = static_cast<std::size_t>(first - full.begin()) + 1;
  for (std::size_t i = 0; i < full.size(); ++i) {
    if (full[i] == ((i + 1) % every == 0)) continue;
    return config.refuse({key}, fmt::format("{} mixes full and sliding attention unevenly over the layers", key),
                         "a window on all layers, on none, or on all but every n-th can be described");
  }
  if (every == 1) m.attention.window = 0;
  if (every > 1) m.attention.global_every = static_cast<int>(every);
}

std::vector<bool> full_layers(const Config& config, const Node& list) {
  std::vector<bool> full;
  for (const Node& item : list.items) {
    full.push_back(item.scalar == "full_attention");
    if (full.back() || item.scalar == "sliding_attention") continue;
    config.refuse({"layer_types"}, fmt::format("layer_types holds {}", description(item)),
                  "known: full_attention, sliding_attention");
  }
  return full;
}

// `every`: which layers are full when the file does not list them; 0: none is.
void read_window(const Config& config, Model& m, int absent, int every) {
  const int window =
      config.count({"sliding_window"}, config.is_written("sliding_window") ? 0 : absent, 0, kMaxSequence);
  if (window == 0) return;
  const Node* list = config.find({"layer_types"});
  if (list != nullptr) return set_window(config, m, window, full_layers(config, *list), "layer_types");
  every = config.count({"sliding_window_pattern", "_sliding_window_pattern"}, every, 1, kMaxLayers);
  std::vector<bool> full;
  for (int i = 0; i < m.layers; ++i) full.push_back(every > 0 && (i + 1) % every == 0);
  set_window(config, m, window, full, "sliding_window_pattern");
}

// Qwen: a switch, and the layers before max_window_layers are full (or, in Qwen2-MoE, only those before it are not all
// full: every second one has the window).
void read_qwen_window(const Config& config, Model& m, bool alternates) {
  if (!config.flag({"use_sliding_window"}, false)) return;
  const int window = config.count({"sliding_window"}, config.is_written("sliding_window") ? 0 : 4096, 0, kMaxSequence);
  if (window == 0) return;
  const Node* list = config.find({"layer_types"});
  if (list != nullptr) return set_window(config, m, window, full_layers(config, *list), "layer_types");
  const int border = config.count({"max_window_layers"}, 28, 0, kMaxLayers);
  std::vector<bool> full;
  for (int i = 0; i < m.layers; ++i) full.push_back(alternates ? i % 2 == 1 || i >= border : i < border);
  set_window(config, m, window, full, "max_window_layers");
}

// ---- experts

// Layers whose index + 1 is a multiple of the step have experts, except those that are listed.
void read_qwen_experts(const Config& config, Model& m) {
  Experts& e = m.experts;
  e.count = config.needed({"num_experts"}, kMaxExperts);
  e.per_token = config.needed({"num_experts_per_tok"}, kMaxExperts);
  e.ffn = config.needed({"moe_intermediate_size"}, kMaxWidth);
  e.every = config.count({"decoder_sparse_step"}, 1, 1, kMaxLayers);
  const Node* dense = config.find({"mlp_only_layers"});
  if (dense == nullptr || dense->items.empty()) return;
  for (std::size_t i = 0; i < dense->items.size(); ++i) {
    if (e.every == 1 && whole_number(dense->items[i]) == static_cast<int>(i)) continue;
    return config.refuse({"mlp_only_layers"}, "mlp_only_layers puts dense layers between mixture layers",
                         "only the first layers may be listed, in order, with decoder_sparse_step 1");
  }
  e.first_dense_layers = static_cast<int>(dense->items.size());
}

void read_local_experts(const Config& config, Model& m) {
  m.experts.count = config.needed({"num_local_experts", "num_experts"}, kMaxExperts);
  m.experts.per_token = config.needed({"num_experts_per_tok", "experts_per_token"}, kMaxExperts);
  m.experts.ffn = m.ffn;
}

// A layer has experts when its index is at least first_k_dense_replace and a multiple of moe_layer_freq.
void read_deepseek_experts(const Config& config, Model& m, int default_first) {
  Experts& e = m.experts;
  e.count = config.count({"n_routed_experts"}, 0, 0, kMaxExperts);
  if (e.count == 0) return;
  e.per_token = config.needed({"num_experts_per_tok"}, kMaxExperts);
  e.ffn = config.needed({"moe_intermediate_size"}, kMaxWidth);
  e.shared = config.count({"n_shared_experts"}, 0, 0, kMaxExperts);
  e.every = config.count({"moe_layer_freq"}, 1, 1, kMaxLayers);
  const int dense = config.count({"first_k_dense_replace"}, default_first, 0, kMaxLayers);
  // Ours: the last of each `every` layers from first_dense_layers on.
  const int first_mixture = (dense + e.every - 1) / e.every * e.every;
  e.first_dense_layers = first_mixture - (e.every - 1);
  if (e.first_dense_layers >= 0) return;
  e.first_dense_layers = 0;
  config.refuse({"moe_layer_freq"}, fmt::format("layer 0 and then every {}th layer have experts", e.every),
                "with moe_layer_freq above 1, first_k_dense_replace must be at least 1");
}

// ---- one function for each type

void read_llama(const Config& config, Model& m) {
  read_llama_shape(config, m, 0, 2048);
  m.mlp_bias = config.flag({"mlp_bias"}, false);
}

void read_mistral(const Config& config, Model& m) {
  read_llama_shape(config, m, 8, 131072);
  m.attention.bias = false;
  read_window(config, m, 4096, 0);
}

void read_mixtral(const Config& config, Model& m) {
  read_llama_shape(config, m, 8, 131072);
  m.attention.bias = false;
  read_window(config, m, 0, 0);
  read_local_experts(config, m);
}

void read_gpt2(const Config& config, Model& m) {
  read_gpt_shape(config, m, 1024);
  m.positions = Positions::learned;
  m.tied_embeddings = config.flag({"tie_word_embeddings"}, true);
  m.dropout = config.fraction({"resid_pdrop"}, 0.1);
}

void read_gpt_neox(const Config& config, Model& m) {
  read_gpt_shape(config, m, 2048);
  m.attention.bias = config.flag({"attention_bias"}, true);
  m.positions = Positions::rotary;
  m.parallel_block = config.flag({"use_parallel_residual"}, true);
  m.post_norms = m.parallel_block ? 1 : 0;  // side by side, yet each half has a norm of its own
  m.tied_embeddings = config.flag({"tie_word_embeddings"}, false);
  m.dropout = config.fraction({"hidden_dropout"}, 0);
}

void read_gptj(const Config& config, Model& m) {
  read_gpt_shape(config, m, 2048);
  m.attention.bias = false;
  m.positions = Positions::rotary;
  m.parallel_block = true;
  m.tied_embeddings = config.flag({"tie_word_embeddings"}, false);
  m.head_bias = true;
  m.dropout = config.fraction({"resid_pdrop"}, 0);
}

void read_opt(const Config& config, Model& m) {
  read_gpt_shape(config, m, 2048);
  m.attention.bias = m.mlp_bias = config.flag({"enable_bias"}, true);
  m.norm_weight = m.norm_bias = config.flag({"layer_norm_elementwise_affine"}, true);
  m.positions = Positions::learned;
  m.tied_embeddings = config.flag({"tie_word_embeddings"}, true);
  m.dropout = config.fraction({"dropout"}, 0.1);
  const int embedding = config.count({"word_embed_proj_dim"}, m.hidden, 1, kMaxWidth);
  if (embedding == m.hidden) return;
  config.refuse({"word_embed_proj_dim"}, fmt::format("embeddings of width {} in a model of {}", embedding, m.hidden),
                "embedding and hidden width must be equal");
}

void read_bloom(const Config& config, Model& m) {
  read_gpt_shape(config, m, 2048);
  m.positions = Positions::alibi;
  m.embedding_norm = true;
  m.tied_embeddings = config.flag({"tie_word_embeddings"}, true);
  m.dropout = config.fraction({"hidden_dropout"}, 0);
}

void read_falcon(const Config& config, Model& m) {
  read_gpt_shape(config, m, 2048);
  const bool grouped = config.flag({"new_decoder_architecture"}, false);
  if (grouped) {
    m.attention.kv_heads = config.count({"num_kv_heads", "n_head_kv"}, m.attention.heads, 1, kMaxHeads);
  } else if (config.flag({"multi_query"}, true)) {
    m.attention.kv_heads = 1;
  }
  m.attention.bias = m.mlp_bias = config.flag({"bias"}, false);
  m.positions = config.flag({"alibi"}, false) ? Positions::alibi : Positions::rotary;
  m.parallel_block = grouped || config.flag({"parallel_attn"}, true);
  const int norms = config.count({"num_ln_in_parallel_attn"}, grouped ? 2 : 1, 1, 2);
  m.post_norms = grouped && norms == 2 ? 1 : 0;
  m.tied_embeddings = config.flag({"tie_word_embeddings"}, true);
  m.dropout = config.fraction({"hidden_dropout"}, 0);
}

void read_mpt(const Config& config, Model& m) {
  read_gpt_shape(config, m, 2048);
  m.ffn = std::min(m.hidden * config.count({"expansion_ratio"}, 4, 1, 64), kMaxWidth);
  m.attention.bias = m.mlp_bias = m.norm_bias = !config.flag({"no_bias"}, true);
  const Config attention = config.part("attn_config");
  m.attention.kv_heads = attention.count({"kv_n_heads"}, m.attention.heads, 1, kMaxHeads);
  m.attention.qk_norm = attention.flag({"qk_ln"}, false);
  const bool learned = config.flag({"learned_pos_emb"}, true);
  m.positions = learned ? Positions::learned : Positions::none;
  if (attention.flag({"alibi"}, true)) m.positions = Positions::alibi;
  if (attention.flag({"rope"}, false)) m.positions = Positions::rotary;
  m.tied_embeddings = config.flag({"tie_word_embeddings"}, true);
  m.dropout = config.fraction({"resid_pdrop"}, 0);
}

void read_qwen2(const Config& config, Model& m) {
  read_llama_shape(config, m, 32, 32768);
  m.attention.bias = false;
  m.attention.qkv_bias = true;
  read_qwen_window(config, m, false);
}

void read_qwen2_moe(const Config& config, Model& m) {
  read_llama_shape(config, m, 16, 32768);
  m.attention.bias = false;
  m.attention.qkv_bias = config.flag({"qkv_bias"}, true);
  read_qwen_window(config, m, true);
  read_qwen_experts(config, m);
  m.experts.shared = 1;
  m.experts.shared_ffn = config.needed({"shared_expert_intermediate_size"}, kMaxWidth);
  m.experts.shared_gate = true;
}

void read_qwen3(const Config& config, Model& m) {
  read_llama_shape(config, m, 32, 32768);
  m.attention.head_dim = config.count({"head_dim"}, 128, 1, kMaxHeadDim);
  m.attention.qk_norm = true;
  read_qwen_window(config, m, false);
}

void read_qwen3_moe(const Config& config, Model& m) {
  read_llama_shape(config, m, 4, 32768);
  m.attention.qk_norm = true;
  if (config.flag({"use_sliding_window"}, false)) read_window(config, m, 4096, 0);
  read_qwen_experts(config, m);
}

void read_deepseek(const Config& config, Model& m, int default_first_dense) {
  read_llama_shape(config, m, 0, 2048);
  Attention& a = m.attention;
  a.kv_heads = a.heads;
  a.q_rank = config.count({"q_lora_rank"}, 0, 0, kMaxWidth);
  a.kv_rank = config.needed({"kv_lora_rank"}, kMaxWidth);
  a.head_dim = config.needed({"qk_nope_head_dim"}, kMaxHeadDim);
  a.rope_head_dim = config.needed({"qk_rope_head_dim"}, kMaxHeadDim);
  a.v_head_dim = config.needed({"v_head_dim"}, kMaxHeadDim);
  read_deepseek_experts(config, m, default_first_dense);
}

void read_deepseek_v2(const Config& config, Model& m) { read_deepseek(config, m, 0); }

void read_deepseek_v3(const Config& config, Model& m) {
  read_deepseek(config, m, 3);
  m.mtp_layers = config.count({"num_nextn_predict_layers"}, 0, 0, kMaxLayers);
  m.experts.router_bias = m.experts.count > 0;  // balances the load without an auxiliary loss
}

void read_gemma(const Config& config, Model& m) {
  read_llama_shape(config, m, 16, 8192);
  m.attention.head_dim = config.count({"head_dim"}, 256, 1, kMaxHeadDim);
  m.tied_embeddings = config.flag({"tie_word_embeddings"}, true);
}

void read_gemma2(const Config& config, Model& m) {
  read_gemma(config, m);
  read_kv_heads(config, m, 4);
  m.post_norms = 2;
  read_window(config, m, 4096, 2);
}

void read_gemma3(const Config& config, Model& m) {
  read_gemma(config, m);
  read_kv_heads(config, m, 4);
  m.max_sequence = config.count({"max_position_embeddings"}, 131072, 1, kMaxSequence);
  m.attention.qk_norm = true;
  m.post_norms = 2;
  read_window(config, m, 4096, 6);
}

void read_phi(const Config& config, Model& m) {
  read_gpt_shape(config, m, 2048);
  read_kv_heads(config, m, 0);
  m.attention.qk_norm = config.flag({"qk_layernorm"}, false);
  m.positions = Positions::rotary;
  m.parallel_block = true;
  m.tied_embeddings = config.flag({"tie_word_embeddings"}, false);
  m.head_bias = true;
  m.dropout = config.fraction({"resid_pdrop"}, 0);
}

void read_phi3(const Config& config, Model& m) {
  read_llama_shape(config, m, 0, 4096);
  m.attention.bias = false;
  m.dropout = config.fraction({"resid_pdrop"}, 0);
  read_window(config, m, 0, 0);
}

void read_olmo(const Config& config, Model& m) {
  read_llama_shape(config, m, 0, 2048);
  m.norm = Norm::layer_norm;
  m.norm_weight = false;
}

void read_gpt_oss(const Config& config, Model& m) {
  read_llama_shape(config, m, 8, 131072);
  m.attention.head_dim = config.count({"head_dim"}, 64, 1, kMaxHeadDim);
  m.attention.bias = config.flag({"attention_bias"}, true);
  m.attention.sinks = true;
  m.mlp_bias = true;
  read_window(config, m, 128, 2);
  read_local_experts(config, m);
  m.experts.router_bias = true;
}

struct Type {
  std::string_view name;
  void (*read)(const Config&, Model&);
};

constexpr std::array<Type, 23> kTypes{{{"llama", read_llama},
                                       {"mistral", read_mistral},
                                       {"mixtral", read_mixtral},
                                       {"gpt2", read_gpt2},
                                       {"gpt_neox", read_gpt_neox},
                                       {"gptj", read_gptj},
                                       {"opt", read_opt},
                                       {"bloom", read_bloom},
                                       {"falcon", read_falcon},
                                       {"mpt", read_mpt},
                                       {"qwen2", read_qwen2},
                                       {"qwen2_moe", read_qwen2_moe},
                                       {"qwen3", read_qwen3},
                                       {"qwen3_moe", read_qwen3_moe},
                                       {"deepseek_v2", read_deepseek_v2},
                                       {"deepseek_v3", read_deepseek_v3},
                                       {"gemma", read_gemma},
                                       {"gemma2", read_gemma2},
                                       {"gemma3_text", read_gemma3},
                                       {"phi", read_phi},
                                       {"phi3", read_phi3},
                                       {"olmo", read_olmo},
                                       {"gpt_oss", read_gpt_oss}}};

const Type* type_of(const Node& type, Context& context) {
  std::vector<std::string> names;
  for (const Type& known : kTypes) {
    if (type.scalar == known.name) return &known;
    names.emplace_back(known.name);
  }
  const std::string hint = suggestion(type.scalar, names);
  context.refuse(type, fmt::format("model_type is {}; expected one of {} known types", description(type), names.size()),
                 hint.empty() ? fmt::format("known: {}", fmt::join(names, ", ")) : hint);
  return nullptr;
}

}  // namespace

void read_hugging_face_fields(const Node& node, Context& context, Model& model) {
  // Models that also see images keep the transformer in a part of its own.
  const Node* inner = node.find("text_config");
  if (inner != nullptr && inner->find("model_type") != nullptr) {
    return read_hugging_face_fields(*inner, context, model);
  }
  const Node* type_node = node.find("model_type");
  if (type_node == nullptr) return context.refuse(node, "config has no `model_type`, which it needs");
  const Type* type = type_of(*type_node, context);
  if (type == nullptr) return;
  model = Model{};
  const Node* name = node.find("_name_or_path");
  if (name != nullptr && !is_text(*name, "_name_or_path", context)) return;
  model.name = name != nullptr && !name->scalar.empty() ? name->scalar : std::string(type->name);
  type->read(Config(node, context), model);
}

Result<Model> read_hugging_face(const Node& node, const std::string& file) {
  Context context(file);
  Model model;
  if (node.kind != Node::Kind::mapping) context.refuse(node, "config is " + description(node) + "; expected a mapping");
  read_hugging_face_fields(node, context, model);
  if (!context.failed()) complete_model(node, context, model);
  if (context.failed()) return tl::unexpected(context.error());
  return model;
}

}  // namespace twinpod::spec
