// Models in our own keys, which are the fields of model.hpp.
#include <fmt/format.h>

#include "spec/bounds.hpp"
#include "spec/entries.hpp"
#include "spec/names.hpp"
#include "spec/read.hpp"

namespace twinpod::spec {
namespace {

void read_attention(const Node& node, Context& context, Attention& attention) {
  Reader reader(node, context, "attention");
  reader.count("heads", attention.heads, 1, kMaxHeads);
  reader.count("kv_heads", attention.kv_heads, 1, kMaxHeads);
  reader.count("head_dim", attention.head_dim, 1, kMaxHeadDim);
  reader.flag("bias", attention.bias);
  reader.flag("qkv_bias", attention.qkv_bias);
  reader.flag("qk_norm", attention.qk_norm);
  reader.flag("sinks", attention.sinks);
  reader.count("window", attention.window, 0, kMaxSequence);
  reader.count("global_every", attention.global_every, 0, kMaxLayers);
  reader.count("q_rank", attention.q_rank, 0, kMaxWidth);
  reader.count("kv_rank", attention.kv_rank, 0, kMaxWidth);
  reader.count("rope_head_dim", attention.rope_head_dim, 0, kMaxHeadDim);
  reader.count("v_head_dim", attention.v_head_dim, 0, kMaxHeadDim);
  reader.finish();
}

void read_experts(const Node& node, Context& context, Experts& experts) {
  Reader reader(node, context, "experts");
  reader.count("count", experts.count, 0, kMaxExperts);
  reader.count("per_token", experts.per_token, 0, kMaxExperts);
  reader.count("shared", experts.shared, 0, kMaxExperts);
  reader.count("ffn", experts.ffn, 1, kMaxWidth);
  reader.count("shared_ffn", experts.shared_ffn, 0, kMaxWidth);
  reader.count("first_dense_layers", experts.first_dense_layers, 0, kMaxLayers);
  reader.count("every", experts.every, 1, kMaxLayers);
  reader.quantity("capacity_factor", experts.capacity_factor, Quantity::number, 0, 1000);
  reader.flag("router_bias", experts.router_bias);
  reader.flag("shared_gate", experts.shared_gate);
  reader.finish();
}

void read_widths(Reader& reader, Model& model) {
  reader.count("layers", model.layers, 1, kMaxLayers);
  reader.count("hidden", model.hidden, 1, kMaxWidth);
  reader.count("ffn", model.ffn, 1, kMaxWidth);
  reader.flag("gated_mlp", model.gated_mlp);
  reader.flag("mlp_bias", model.mlp_bias);
  reader.count("vocab", model.vocab, 1, kMaxVocab);
  reader.count("max_sequence", model.max_sequence, 1, kMaxSequence);
}

void read_block(Reader& reader, Model& model) {
  reader.choice("norm", model.norm, kNormNames);
  if (model.norm == Norm::rms_norm) model.norm_bias = false;
  reader.flag("norm_bias", model.norm_bias);
  reader.flag("norm_weight", model.norm_weight);
  reader.choice("positions", model.positions, kPositionsNames);
  reader.flag("tied_embeddings", model.tied_embeddings);
  reader.flag("head_bias", model.head_bias);
  reader.flag("parallel_block", model.parallel_block);
  reader.flag("embedding_norm", model.embedding_norm);
  reader.count("post_norms", model.post_norms, 0, 16);
  reader.count("mtp_layers", model.mtp_layers, 0, kMaxLayers);
  reader.quantity("dropout", model.dropout, Quantity::fraction, 0, 1);
}

// Where the user wrote a thing, in our keys or in one of Hugging Face's.
const Node& heads_place(const Node& node) {
  return place_of(node, {"attention.heads", "num_attention_heads", "n_head", "n_heads"});
}
const Node& kv_heads_place(const Node& node) {
  return place_of(node, {"attention.kv_heads", "num_key_value_heads", "num_kv_heads", "attention.heads"});
}
const Node& per_token_place(const Node& node) {
  return place_of(node, {"experts.per_token", "num_experts_per_tok", "experts_per_token", "experts"});
}

void require_dimensions(const Node& node, Context& context, const Model& model) {
  Reader reader(node, context, "model");
  if (model.layers == 0) reader.require("layers");
  if (model.hidden == 0) reader.require("hidden");
  if (model.vocab == 0) reader.require("vocab");
  if (model.ffn == 0 && model.experts.ffn == 0) reader.require("ffn");
  if (model.attention.heads == 0) {
    context.refuse_key(place_of(node, {"attention"}), "model has no `attention.heads`, which it needs");
  }
}

void check_attention(const Node& node, Context& context, const Model& model) {
  const Attention& a = model.attention;
  if (a.kv_heads > a.heads || a.heads % a.kv_heads != 0) {
    context.refuse_key(kv_heads_place(node),
                       fmt::format("{} heads cannot share {} key/value heads evenly", a.heads, a.kv_heads),
                       "kv_heads must divide heads");
  }
  if (a.window == 0 && a.global_every > 0) {
    context.refuse_key(place_of(node, {"attention.global_every"}), "global_every without a window says nothing",
                       "write window too");
  }
  const bool latent_parts = a.q_rank > 0 || a.rope_head_dim > 0 || a.v_head_dim > 0;
  if (a.kv_rank == 0 && latent_parts) {
    context.refuse_key(
        place_of(node, {"attention.q_rank", "attention.rope_head_dim", "attention.v_head_dim", "attention"}),
        "q_rank, rope_head_dim and v_head_dim belong to latent attention, but kv_rank is 0", "write kv_rank too");
  }
}

void check_experts(const Node& node, Context& context, const Model& model) {
  const Experts& e = model.experts;
  if (e.count == 0) {
    if (e.per_token == 0 && e.shared == 0 && e.ffn == 0) return;
    return context.refuse_key(place_of(node, {"experts"}), "experts has no `count`, which it needs");
  }
  if (e.per_token < 1 || e.per_token > e.count) {
    context.refuse_key(per_token_place(node),
                       fmt::format("a token visits {} of {} experts; expected 1 to {}", e.per_token, e.count, e.count));
  }
  if (e.first_dense_layers >= model.layers) {
    context.refuse_key(place_of(node, {"experts.first_dense_layers", "first_k_dense_replace", "experts"}),
                       fmt::format("the first {} of {} layers are dense, so no layer has experts", e.first_dense_layers,
                                   model.layers));
  }
  if (e.shared_ffn > 0 && e.shared == 0) {
    context.refuse_key(place_of(node, {"experts.shared_ffn", "experts"}), "shared_ffn is given, but shared is 0",
                       "write shared: 1");
  }
}

// What followed from other figures in the base follows from the new ones, unless it is written too.
void follow(const Node& node, const Model& base, Model& model) {
  const Node* const written = node.find("attention");
  const auto writes = [&](std::string_view key) { return written != nullptr && written->find(key) != nullptr; };
  const Attention& before = base.attention;
  Attention& a = model.attention;
  if (before.kv_heads == before.heads && !writes("kv_heads")) a.kv_heads = a.heads;
  const bool shares = before.heads * before.head_dim == base.hidden && a.heads > 0 && model.hidden % a.heads == 0;
  if (shares && before.kv_rank == 0 && !writes("head_dim")) a.head_dim = model.hidden / a.heads;
  if (base.ffn == 4 * base.hidden && node.find("ffn") == nullptr) model.ffn = 4 * model.hidden;
}

}  // namespace

void read_model_fields(const Node& node, Context& context, Model& model) {
  Reader reader(node, context, "model");
  reader.take("base");
  reader.text("name", model.name);
  read_widths(reader, model);
  if (const Node* attention = reader.mapping("attention")) read_attention(*attention, context, model.attention);
  if (const Node* experts = reader.mapping("experts")) read_experts(*experts, context, model.experts);
  read_block(reader, model);
  reader.quantity("parameters", model.published_parameters, Quantity::number, 1, 1e18);
  read_source(reader, model.source);
  // Hugging Face's files hold dozens of keys that say nothing about size or speed.
  if (node.find("model_type") == nullptr) reader.finish();
}

void complete_model(const Node& node, Context& context, Model& model) {
  require_dimensions(node, context, model);
  if (context.failed()) return;
  Attention& a = model.attention;
  if (a.kv_heads == 0) a.kv_heads = a.heads;
  if (a.head_dim == 0 && model.hidden % a.heads != 0) {
    return context.refuse_key(heads_place(node), fmt::format("{} heads do not divide hidden {}", a.heads, model.hidden),
                              "write head_dim if a head has another width than hidden / heads");
  }
  if (a.head_dim == 0) a.head_dim = model.hidden / a.heads;
  if (model.experts.count > 0 && model.experts.ffn == 0) model.experts.ffn = model.ffn;
  if (model.ffn == 0) model.ffn = model.experts.ffn;
  if (model.norm == Norm::rms_norm && model.norm_bias) {
    context.refuse_key(place_of(node, {"norm_bias", "norm"}), "rms_norm has no bias", "leave norm_bias out");
  }
  check_attention(node, context, model);
  check_experts(node, context, model);
}

void resolve_model(const Node& node, Context& context, const Catalog& catalog, Model& model, int depth) {
  if (node.kind == Node::Kind::mapping) {
    if (const Node* base = node.find("base")) resolve_model(*base, context, catalog, model, depth + 1);
    model.entry.clear();  // what the job writes is no longer what the catalog holds
    model.published_parameters = 0;
    const Model before = model;
    if (node.find("model_type") != nullptr) read_hugging_face_fields(node, context, model);
    read_model_fields(node, context, model);
    if (node.find("base") != nullptr && !context.failed()) follow(node, before, model);
    return complete_model(node, context, model);
  }
  if (node.kind != Node::Kind::scalar) {
    return context.refuse(node, "model is " + description(node) + "; expected a name, a path, or a mapping");
  }
  if (is_path(node.scalar)) {
    std::string path;
    Node root;
    if (!open_path(node, context, depth, path, root)) return;
    Context inner(path);
    resolve_model(root, inner, catalog, model, depth + 1);
    if (inner.failed()) context.refuse(node, inner.error());
    return;
  }
  Result<Model> found = catalog.model(node.scalar);
  if (!found) return context.refuse(node, std::move(found.error()));
  model = std::move(*found);
}

Result<Model> read_model(const Node& node, const std::string& file, const Catalog& catalog) {
  Context context(file);
  Model model;
  resolve_model(node, context, catalog, model);
  if (context.failed()) return tl::unexpected(context.error());
  return model;
}

}  // namespace twinpod::spec
