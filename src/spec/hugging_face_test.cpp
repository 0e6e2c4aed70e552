#include <gtest/gtest.h>

#include <string>

#include "spec/read.hpp"
#include "spec/test_catalog.hpp"

namespace twinpod::spec {
namespace {

Result<Model> read(const std::string& text) {
  const Result<Node> root = parse_yaml(text, "config.json");
  EXPECT_TRUE(root.has_value()) << text;
  return read_hugging_face(*root, "config.json");
}

Model accepted(const std::string& text) {
  const Result<Model> model = read(text);
  EXPECT_TRUE(model.has_value()) << to_string(model.error());
  return model.value_or(Model{});
}

Error refused(const std::string& text) {
  const Result<Model> model = read(text);
  EXPECT_FALSE(model.has_value()) << text;
  return model ? Error{} : model.error();
}

std::string llama_like(const std::string& type, const std::string& more = "") {
  return R"({"model_type": ")" + type +
         R"(", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
"num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 32768)" +
         more + "}";
}

void expect_same_attention(const Attention& a, const Attention& b) {
  EXPECT_EQ(a.heads, b.heads);
  EXPECT_EQ(a.kv_heads, b.kv_heads);
  EXPECT_EQ(a.head_dim, b.head_dim);
  EXPECT_EQ(a.bias, b.bias);
  EXPECT_EQ(a.qkv_bias, b.qkv_bias);
  EXPECT_EQ(a.qk_norm, b.qk_norm);
  EXPECT_EQ(a.sinks, b.sinks);
  EXPECT_EQ(a.window, b.window);
  EXPECT_EQ(a.global_every, b.global_every);
  EXPECT_EQ(a.q_rank, b.q_rank);
  EXPECT_EQ(a.kv_rank, b.kv_rank);
  EXPECT_EQ(a.rope_head_dim, b.rope_head_dim);
  EXPECT_EQ(a.v_head_dim, b.v_head_dim);
}

void expect_same_experts(const Experts& a, const Experts& b) {
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.per_token, b.per_token);
  EXPECT_EQ(a.ffn, b.ffn);
  // One wide shared expert is as good as several narrow ones.
  const auto shared_width = [](const Experts& e) { return e.shared_ffn > 0 ? e.shared_ffn : e.shared * e.ffn; };
  EXPECT_EQ(shared_width(a), shared_width(b));
  EXPECT_EQ(a.first_dense_layers, b.first_dense_layers);
  EXPECT_EQ(a.every, b.every);
  EXPECT_EQ(a.router_bias, b.router_bias);
  EXPECT_EQ(a.shared_gate, b.shared_gate);
}

// The catalog's dimensions were written down from papers, so agreement says that both are right.
void expect_same_as_catalog(const std::string& entry, const std::string& config) {
  SCOPED_TRACE(entry);
  const Result<Model> found = Catalog(TWINPOD_CATALOG_DIR).model(entry);
  ASSERT_TRUE(found.has_value()) << to_string(found.error());
  const Model a = accepted(config);
  const Model& b = *found;
  EXPECT_EQ(a.layers, b.layers);
  EXPECT_EQ(a.hidden, b.hidden);
  EXPECT_EQ(a.ffn, b.ffn);
  EXPECT_EQ(a.gated_mlp, b.gated_mlp);
  EXPECT_EQ(a.mlp_bias, b.mlp_bias);
  EXPECT_EQ(a.vocab, b.vocab);
  EXPECT_EQ(a.norm, b.norm);
  EXPECT_EQ(a.norm_bias, b.norm_bias);
  EXPECT_EQ(a.norm_weight, b.norm_weight);
  EXPECT_EQ(a.positions, b.positions);
  EXPECT_EQ(a.tied_embeddings, b.tied_embeddings);
  EXPECT_EQ(a.head_bias, b.head_bias);
  EXPECT_EQ(a.parallel_block, b.parallel_block);
  EXPECT_EQ(a.embedding_norm, b.embedding_norm);
  EXPECT_EQ(a.post_norms, b.post_norms);
  EXPECT_EQ(a.mtp_layers, b.mtp_layers);
  expect_same_attention(a.attention, b.attention);
  expect_same_experts(a.experts, b.experts);
}

TEST(HuggingFace, DenseModelsAgreeWithTheCatalog) {
  expect_same_as_catalog("gpt2-xl", R"({"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25,
    "n_positions": 1024, "n_ctx": 1024, "vocab_size": 50257, "resid_pdrop": 0.1})");
  expect_same_as_catalog("llama3-70b", R"({"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
    "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 8192, "attention_bias": false, "rope_scaling": null, "tie_word_embeddings": false})");
  expect_same_as_catalog("llama2-7b", R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
    "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000, "max_position_embeddings": 4096})");
  expect_same_as_catalog("bloom-176b", R"({"model_type": "bloom", "n_embed": 14336, "n_layer": 70,
    "num_attention_heads": 112, "vocab_size": 250880, "seq_length": 2048})");
  expect_same_as_catalog("opt-13b", R"({"model_type": "opt", "hidden_size": 5120, "ffn_dim": 20480,
    "num_hidden_layers": 40, "num_attention_heads": 40, "vocab_size": 50272, "max_position_embeddings": 2048,
    "word_embed_proj_dim": 5120})");
  expect_same_as_catalog("gpt-neox-20b", R"({"model_type": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576,
    "num_hidden_layers": 44, "num_attention_heads": 64, "vocab_size": 50432, "max_position_embeddings": 2048})");
  expect_same_as_catalog("gpt-j-6b", R"({"model_type": "gptj", "n_embd": 4096, "n_layer": 28, "n_head": 16,
    "n_inner": null, "n_positions": 2048, "vocab_size": 50400, "tie_word_embeddings": false})");
  expect_same_as_catalog("falcon-7b", R"({"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32,
    "num_attention_heads": 71, "multi_query": true, "parallel_attn": true, "bias": false, "vocab_size": 65024,
    "new_decoder_architecture": false, "alibi": false})");
  expect_same_as_catalog("falcon-40b", R"({"model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60,
    "num_attention_heads": 128, "num_kv_heads": 8, "parallel_attn": true, "bias": false, "vocab_size": 65024,
    "new_decoder_architecture": true, "alibi": false})");
  expect_same_as_catalog("mpt-7b", R"({"model_type": "mpt", "d_model": 4096, "n_heads": 32, "n_layers": 32,
    "expansion_ratio": 4, "max_seq_len": 2048, "vocab_size": 50432, "no_bias": true, "attn_config": {"alibi": true}})");
}

TEST(HuggingFace, LaterDenseModelsAgreeWithTheCatalog) {
  expect_same_as_catalog("qwen2-7b", R"({"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
    "max_position_embeddings": 131072, "sliding_window": 131072, "use_sliding_window": false, "max_window_layers": 28})");
  expect_same_as_catalog("qwen3-8b", R"({"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
    "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": 151936, "max_position_embeddings": 40960, "tie_word_embeddings": false})");
  expect_same_as_catalog("gemma-7b", R"({"model_type": "gemma", "hidden_size": 3072, "intermediate_size": 24576,
    "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256,
    "vocab_size": 256000, "max_position_embeddings": 8192})");
  expect_same_as_catalog("gemma2-9b", R"({"model_type": "gemma2", "hidden_size": 3584, "intermediate_size": 14336,
    "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256,
    "vocab_size": 256000, "max_position_embeddings": 8192, "sliding_window": 4096})");
  expect_same_as_catalog("gemma3-1b", R"({"model_type": "gemma3_text", "hidden_size": 1152, "intermediate_size": 6912,
    "num_hidden_layers": 26, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256,
    "vocab_size": 262144, "max_position_embeddings": 32768, "sliding_window": 512, "sliding_window_pattern": 6})");
  expect_same_as_catalog("phi-2", R"({"model_type": "phi", "hidden_size": 2560, "intermediate_size": 10240,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": null, "vocab_size": 51200,
    "max_position_embeddings": 2048, "qk_layernorm": false, "resid_pdrop": 0.1})");
  expect_same_as_catalog("phi-3-medium", R"({"model_type": "phi3", "hidden_size": 5120, "intermediate_size": 17920,
    "num_hidden_layers": 40, "num_attention_heads": 40, "num_key_value_heads": 10, "vocab_size": 32064,
    "max_position_embeddings": 4096, "sliding_window": null, "tie_word_embeddings": false})");
}

TEST(HuggingFace, MixturesOfExpertsAgreeWithTheCatalog) {
  expect_same_as_catalog("mixtral-8x7b", llama_like("mixtral", R"(, "num_local_experts": 8, "num_experts_per_tok": 2,
    "sliding_window": null)"));
  expect_same_as_catalog("deepseek-v2-lite", R"({"model_type": "deepseek_v2", "hidden_size": 2048,
    "intermediate_size": 10944, "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16,
    "vocab_size": 102400, "kv_lora_rank": 512, "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
    "moe_intermediate_size": 1408, "first_k_dense_replace": 1, "moe_layer_freq": 1})");
  expect_same_as_catalog("deepseek-v3", R"({"model_type": "deepseek_v3", "hidden_size": 7168,
    "intermediate_size": 18432, "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
    "vocab_size": 129280, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "moe_layer_freq": 1, "num_nextn_predict_layers": 1,
    "topk_method": "noaux_tc"})");
  expect_same_as_catalog("qwen2-57b-a14b", R"({"model_type": "qwen2_moe", "hidden_size": 3584,
    "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "vocab_size": 151936, "num_experts": 64, "num_experts_per_tok": 8, "moe_intermediate_size": 2560,
    "shared_expert_intermediate_size": 20480, "decoder_sparse_step": 1, "use_sliding_window": false})");
  expect_same_as_catalog("qwen3-30b-a3b", R"({"model_type": "qwen3_moe", "hidden_size": 2048,
    "intermediate_size": 6144, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
    "head_dim": 128, "vocab_size": 151936, "num_experts": 128, "num_experts_per_tok": 8,
    "moe_intermediate_size": 768, "decoder_sparse_step": 1, "mlp_only_layers": [], "tie_word_embeddings": false})");
  expect_same_as_catalog("gpt-oss-20b", R"({"model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880,
    "num_hidden_layers": 24, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
    "vocab_size": 201088, "num_local_experts": 32, "num_experts_per_tok": 4, "experts_per_token": 4,
    "sliding_window": 128, "attention_bias": true})");
}

TEST(HuggingFace, DefaultsAreThoseOfTheType) {
  EXPECT_FALSE(accepted(llama_like("llama")).tied_embeddings);
  EXPECT_TRUE(accepted(llama_like("gemma")).tied_embeddings);
  EXPECT_EQ(accepted(llama_like("gemma")).attention.head_dim, 256);
  EXPECT_EQ(accepted(llama_like("qwen3")).attention.head_dim, 128);
  EXPECT_TRUE(accepted(llama_like("qwen2")).attention.qkv_bias);
  EXPECT_FALSE(accepted(llama_like("olmo")).norm_weight);
  EXPECT_TRUE(accepted(llama_like("llama", R"(, "attention_bias": true, "mlp_bias": true)")).mlp_bias);
}

TEST(HuggingFace, AbsentWindowOfMistralIs4096AndNullIsNone) {
  EXPECT_EQ(accepted(llama_like("mistral")).attention.window, 4096);
  EXPECT_EQ(accepted(llama_like("mistral", R"(, "sliding_window": null)")).attention.window, 0);
  EXPECT_EQ(accepted(llama_like("mistral", R"(, "sliding_window": 128)")).attention.window, 128);
}

TEST(HuggingFace, ListedLayerTypesBecomeEveryNthLayer) {
  const std::string sliding = R"("sliding_attention", )";
  const std::string full = R"("full_attention")";
  const auto with = [&](const std::string& list) {
    return llama_like("gemma2", R"(, "sliding_window": 64, "layer_types": [)" + list + "]");
  };
  EXPECT_EQ(accepted(with(sliding + sliding + full + ", " + sliding + sliding + full)).attention.global_every, 3);
  EXPECT_EQ(accepted(with(full + ", " + full)).attention.window, 0);
  EXPECT_EQ(accepted(with(sliding)).attention.global_every, 0);
  EXPECT_EQ(accepted(with(sliding)).attention.window, 64);
  EXPECT_EQ(refused(with(sliding + full + ", " + full)).line, 2);
  EXPECT_EQ(refused(with(R"("linear_attention")")).line, 2);
}

TEST(HuggingFace, QwenWindowThatStartsInTheMiddleIsRefused) {
  const std::string on = R"(, "use_sliding_window": true, "sliding_window": 64, "max_window_layers": )";
  EXPECT_EQ(accepted(llama_like("qwen2", on + "32")).attention.window, 0);
  EXPECT_EQ(accepted(llama_like("qwen2", on + "0")).attention.window, 64);
  EXPECT_NE(refused(llama_like("qwen2", on + "16")).message.find("max_window_layers"), std::string::npos);
}

TEST(HuggingFace, SparseStepMakesEveryNthLayerAMixture) {
  const std::string experts = R"(, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64)";
  EXPECT_EQ(accepted(llama_like("qwen3_moe", experts + R"(, "decoder_sparse_step": 2)")).experts.every, 2);
  EXPECT_EQ(accepted(llama_like("qwen3_moe", experts + R"(, "mlp_only_layers": [0, 1])")).experts.first_dense_layers,
            2);
  EXPECT_EQ(refused(llama_like("qwen3_moe", experts + R"(, "mlp_only_layers": [5])")).line, 2);
}

// Layers with index >= 3 that are multiples of 4: 4, 8, ... Ours: the last of each 4 layers from layer 1 on.
TEST(HuggingFace, MixtureFrequencyOfDeepSeekIsTurnedIntoOurs) {
  const std::string config = llama_like("deepseek_v2", R"(, "kv_lora_rank": 64, "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16, "v_head_dim": 32, "n_routed_experts": 8, "num_experts_per_tok": 2,
    "moe_intermediate_size": 64, "moe_layer_freq": 4, "first_k_dense_replace": 3)");
  EXPECT_EQ(accepted(config).experts.first_dense_layers, 1);
  EXPECT_EQ(accepted(config).experts.every, 4);
}

TEST(HuggingFace, TextPartOfAModelThatSeesImagesIsRead) {
  EXPECT_EQ(accepted(R"({"model_type": "gemma3", "text_config": )" + llama_like("gemma3_text") + "}").layers, 32);
}

TEST(HuggingFace, UnknownTypeNamesTheNearest) {
  const Error error = refused(llama_like("qwen3_mo"));
  EXPECT_NE(error.message.find("`qwen3_mo`"), std::string::npos);
  EXPECT_EQ(error.hint, "did you mean `qwen3_moe`?");
  EXPECT_EQ(error.line, 1);
  EXPECT_EQ(error.column, 16);
}

TEST(HuggingFace, MissingKeyIsNamed) {
  EXPECT_NE(refused(R"({"model_type": "llama", "hidden_size": 64})").message.find("`num_hidden_layers`"),
            std::string::npos);
  EXPECT_NE(refused(R"({"hidden_size": 64})").message.find("`model_type`"), std::string::npos);
  EXPECT_NE(refused("[1]").message.find("a list"), std::string::npos);
}

TEST(HuggingFace, WrongValuesAreRefusedWhereTheyStand) {
  for (const char* more : {R"("tie_word_embeddings": "yes")", R"("head_dim": 0)", R"("head_dim": 1.5)",
                           R"("sliding_window": "big")", R"("num_experts_per_tok": 99)"}) {
    const Error error = refused(llama_like(
        "mixtral",
        std::string(R"(, "num_local_experts": 8,)") + "\n" + more +
            (std::string(more).find("per_tok") == std::string::npos ? R"(, "num_experts_per_tok": 2)" : "")));
    EXPECT_EQ(error.line, 3) << more;
  }
}

TEST(HuggingFace, OwnKeysComeOnTop) {
  const TestCatalog files;
  const Node root = *parse_yaml(llama_like("llama", R"(, "layers": 4)"), "config.json");
  EXPECT_EQ(read_model(root, "config.json", files.catalog())->layers, 4);
}

TEST(HuggingFace, ANameOfSeveralLinesIsRefusedWhereItStands) {
  const Result<Node> root = parse_yaml(
      "{\n\"_name_or_path\": \"meta\\ntouch x;:\",\n\"model_type\": \"llama\", \"hidden_size\": 64,\n"
      "\"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"intermediate_size\": 64, \"vocab_size\": 64}\n",
      "config.json");
  ASSERT_TRUE(root);
  const Result<Model> model = read_hugging_face(*root, "config.json");
  ASSERT_FALSE(model);
  EXPECT_EQ(to_string(model.error()),
            "config.json:2:18: _name_or_path is the text `meta\\ntouch x;:`; expected one line without control "
            "characters");
}

}  // namespace
}  // namespace twinpod::spec
