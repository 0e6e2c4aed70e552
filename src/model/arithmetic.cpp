#include "model/arithmetic.hpp"

#include <algorithm>

namespace twinpod::model {
namespace {

double mlp_matrices(const spec::Model& model) { return model.gated_mlp ? 3.0 : 2.0; }

double mlp_elements(const spec::Model& model, double ffn) { return mlp_matrices(model) * model.hidden * ffn; }

double mlp_parameters(const spec::Model& model, double ffn) {
  const double bias = model.mlp_bias ? ffn * (mlp_matrices(model) - 1) + model.hidden : 0.0;
  return mlp_elements(model, ffn) + bias;
}

double norm_parameters(const spec::Model& model, double width) {
  if (!model.norm_weight) return 0;
  return model.norm == spec::Norm::layer_norm && model.norm_bias ? 2 * width : width;
}

// Elements of the matrices that one token is multiplied with, biases and norms left out.
double attention_matrices(const spec::Model& model) {
  const spec::Attention& a = model.attention;
  const double h = model.hidden;
  const AttentionWidths w = attention_widths(model);
  if (a.kv_rank == 0) return h * (w.query + w.key + w.value) + w.output * h;
  const double query = a.q_rank > 0 ? a.q_rank * (h + w.query) : h * w.query;
  const double compressed = h * (a.kv_rank + a.rope_head_dim);
  const double expanded = a.kv_rank * (a.heads * static_cast<double>(a.head_dim) + w.value);
  return query + compressed + expanded + w.output * h;
}

double attention_vectors(const spec::Model& model) {
  const spec::Attention& a = model.attention;
  const AttentionWidths w = attention_widths(model);
  if (a.kv_rank > 0) return a.q_rank + a.kv_rank;  // the norms of the two compressions
  double total = 0;
  if (a.bias || a.qkv_bias) total += w.query + w.key + w.value;
  if (a.bias) total += model.hidden;
  if (a.qk_norm) total += 2.0 * a.head_dim;
  if (a.sinks) total += a.heads;
  return total;
}

// Matrix elements that one token visits in a layer's MLP.
double visited_mlp_elements(const spec::Model& model, bool experts) {
  if (!experts) return mlp_elements(model, model.ffn);
  const spec::Experts& e = model.experts;
  return mlp_elements(model, static_cast<double>(e.per_token) * e.ffn + shared_ffn(e)) +
         static_cast<double>(model.hidden) * e.count;
}

}  // namespace

double shared_ffn(const spec::Experts& experts) {
  return experts.shared_ffn > 0 ? experts.shared_ffn : experts.shared * static_cast<double>(experts.ffn);
}

bool is_expert_layer(const spec::Model& model, int layer) {
  const spec::Experts& e = model.experts;
  if (e.count == 0 || layer < e.first_dense_layers) return false;
  return (layer - e.first_dense_layers) % e.every == e.every - 1;
}

int num_expert_layers(const spec::Model& model) { return expert_layers_before(model, model.layers); }

int expert_layers_before(const spec::Model& model, int layer) {
  const spec::Experts& e = model.experts;
  return e.count == 0 ? 0 : std::max(0, layer - e.first_dense_layers) / e.every;
}

bool is_windowed_layer(const spec::Model& model, int layer) {
  const spec::Attention& a = model.attention;
  if (a.window == 0) return false;
  return a.global_every == 0 || (layer + 1) % a.global_every != 0;
}

int num_windowed_layers(const spec::Model& model) {
  const spec::Attention& a = model.attention;
  if (a.window == 0) return 0;
  return a.global_every == 0 ? model.layers : model.layers - model.layers / a.global_every;
}

AttentionWidths attention_widths(const spec::Model& model) {
  const spec::Attention& a = model.attention;
  AttentionWidths w;
  if (a.kv_rank > 0) {
    const double head = a.head_dim + a.rope_head_dim;
    const double value_head = a.v_head_dim > 0 ? a.v_head_dim : a.head_dim;
    w.query = w.key = a.heads * head;
    w.value = w.output = a.heads * value_head;
    return w;
  }
  w.query = w.output = static_cast<double>(a.heads) * a.head_dim;
  w.key = w.value = static_cast<double>(a.kv_heads) * a.head_dim;
  return w;
}

ParameterCount parameters(const spec::Model& model) {
  const double h = model.hidden;
  const spec::Experts& e = model.experts;
  ParameterCount count;
  count.embedding = static_cast<double>(model.vocab) * h;
  if (model.positions == spec::Positions::learned) count.embedding += static_cast<double>(model.max_sequence) * h;
  if (model.embedding_norm) count.embedding += norm_parameters(model, h);
  count.attention = attention_matrices(model) + attention_vectors(model);
  count.mlp = mlp_parameters(model, model.ffn);
  if (e.count > 0) {
    count.routed_experts = e.count * mlp_parameters(model, e.ffn);
    count.router = h * e.count + (e.router_bias ? e.count : 0);
    count.shared_experts = count.router + (shared_ffn(e) > 0 ? mlp_parameters(model, shared_ffn(e)) : 0.0);
    if (e.shared_gate) count.shared_experts += h;
  }
  const int norms = (model.parallel_block ? 1 : 2) + model.post_norms;
  count.norms = norms * norm_parameters(model, h);
  count.final_norm = norm_parameters(model, h);
  count.head = model.tied_embeddings ? 0.0 : static_cast<double>(model.vocab) * h;
  if (model.head_bias) count.head += model.vocab;

  const double expert_layers = num_expert_layers(model);
  const double dense_layers = model.layers - expert_layers;
  const double each = count.attention + count.norms;
  const double routed_active = e.count > 0 ? count.routed_experts * e.per_token / e.count : 0.0;
  const double outside = count.embedding + count.final_norm + count.head + model.layers * each +
                         dense_layers * count.mlp + expert_layers * count.shared_experts;
  // A prediction module has its own layer, two norms and a projection of two hidden vectors to one; embedding and head
  // are the main model's.
  if (model.mtp_layers > 0) {
    count.mtp = model.mtp_layers * (each + 2 * norm_parameters(model, h) + norm_parameters(model, h) + 2 * h * h +
                                    (e.count > 0 ? count.routed_experts + count.shared_experts : count.mlp));
  }
  count.total = outside + expert_layers * count.routed_experts;
  count.active = outside + expert_layers * routed_active;
  return count;
}

double mean_context(const spec::Model& model, int layer_windowed, double sequence) {
  const double window = model.attention.window;
  if (layer_windowed == 0 || window >= sequence) return sequence / 2;
  // The first `window` tokens see a growing context, the others a full window.
  return window * (sequence - window / 2) / sequence;
}

ForwardFlop forward_flop(const spec::Model& model, double sequence) {
  const AttentionWidths w = attention_widths(model);
  const double expert_layers = num_expert_layers(model);
  const double windowed = num_windowed_layers(model);
  const bool last_is_expert = model.experts.count > 0;
  ForwardFlop flop;
  const double mlp = (model.layers - expert_layers) * visited_mlp_elements(model, false) +
                     expert_layers * visited_mlp_elements(model, true);
  const double h = model.hidden;
  const double mtp = attention_matrices(model) + visited_mlp_elements(model, last_is_expert) + 2 * h * h;
  flop.products = 2 * (model.layers * attention_matrices(model) + mlp + model.mtp_layers * mtp);
  const double per_key = 2 * (w.query + w.output);
  flop.attention = per_key * (windowed * mean_context(model, 1, sequence) +
                              (model.layers - windowed + model.mtp_layers) * mean_context(model, 0, sequence));
  flop.head = 2.0 * model.hidden * model.vocab * (1 + model.mtp_layers);
  flop.total = flop.products + flop.attention + flop.head;
  return flop;
}

double training_flop(const spec::Model& model, double sequence) { return 3 * forward_flop(model, sequence).total; }

}  // namespace twinpod::model
