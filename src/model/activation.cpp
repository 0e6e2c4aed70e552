#include "model/activation.hpp"

#include <algorithm>

#include "model/arithmetic.hpp"

namespace twinpod::model {
namespace {

constexpr double kMask = 1;    // bytes of an element of a dropout mask
constexpr double kRowSum = 4;  // fused attention keeps one fp32 for each row of scores

double input_bytes(const ActivationRules& rules) { return rules.narrow_inputs ? 1 : rules.element_bytes; }

double sequence_split(const Shard& shard) { return shard.sequence_parallel ? shard.tp : 1; }

double hidden_elements(const spec::Model& model, const Shard& shard) { return shard.tokens() * model.hidden; }

// Inputs of the norms, of the query/key/value projection and of the MLP, and two dropout masks: every rank of the
// tensor-parallel group holds all of them, unless sequence parallelism splits them.
double outside_bytes(const spec::Model& model, const Shard& shard, const ActivationRules& rules) {
  const double norms = (model.parallel_block ? 1 : 2) + model.post_norms;
  const double inputs = model.parallel_block ? 1 : 2;  // a parallel block shares one input
  const double masks = model.dropout > 0 ? 2 * kMask : 0;
  const double each = norms * rules.element_bytes + inputs * input_bytes(rules) + masks;
  return hidden_elements(model, shard) * each / sequence_split(shard);
}

// Queries, keys and values of a token on this rank; heads that are fewer than the ranks are copied.
double query_key_value_elements(const spec::Model& model, const Shard& shard) {
  const AttentionWidths w = attention_widths(model);
  const double heads = model.attention.kv_rank > 0 ? model.attention.heads : model.attention.kv_heads;
  const double copies = std::max(1.0, shard.tp / heads);
  return (w.query + copies * (w.key + w.value)) / shard.tp;
}

double projection_bytes(const spec::Model& model, const Shard& shard, const ActivationRules& rules) {
  const spec::Attention& a = model.attention;
  const AttentionWidths w = attention_widths(model);
  double elements = query_key_value_elements(model, shard);
  if (a.qk_norm) elements += (w.query + w.key) / shard.tp;                        // before their norm
  if (a.kv_rank > 0) elements += 2.0 * (a.kv_rank + a.rope_head_dim + a.q_rank);  // compressed, before and after norms
  // The output of attention is the input of its projection; fused attention needs it in full width for its backward
  // pass.
  const double output = rules.fused_attention ? rules.element_bytes : input_bytes(rules);
  return shard.tokens() * (elements * rules.element_bytes + w.output / shard.tp * output);
}

double score_rows(const spec::Model& model, const Shard& shard) {
  return static_cast<double>(model.attention.heads) / shard.tp * shard.tokens();
}

// Softmax output, and with dropout its mask and the dropped copy: 5 bytes a score in 16 bits.
double score_bytes(const spec::Model& model, const Shard& shard, const ActivationRules& rules) {
  if (rules.fused_attention) return score_rows(model, shard) * kRowSum;
  const double each = model.dropout > 0 ? 2 * rules.element_bytes + kMask : rules.element_bytes;
  return score_rows(model, shard) * shard.sequence * each;
}

double gates(const spec::Model& model) { return model.gated_mlp ? 2 : 1; }

// Inputs of the activation function, and its output, which is the input of the second product.
double mlp_bytes(const spec::Model& model, double elements, const ActivationRules& rules) {
  return elements * (rules.element_bytes * gates(model) + input_bytes(rules));
}

// Tokens that this rank's experts work on; with tensor-parallel experts those of the whole group.
double expert_visits(const spec::Model& model, const Shard& shard) {
  const spec::Experts& e = model.experts;
  const double each = e.capacity_factor > 0 ? e.per_token * e.capacity_factor : e.per_token;
  return shard.tokens() / shard.tp * shard.etp * each;
}

// Elements between the products of a layer's MLPs on one rank.
double inner_elements(const spec::Model& model, const Shard& shard, LayerKind kind) {
  if (kind == LayerKind::dense) return shard.tokens() * model.ffn / shard.tp;
  return expert_visits(model, shard) * model.experts.ffn / shard.etp +
         shard.tokens() * shared_ffn(model.experts) / shard.tp;
}

// Tokens after dispatch (input of the experts), their outputs before they are combined, and the router's fp32 scores.
double routing_bytes(const spec::Model& model, const Shard& shard, const ActivationRules& rules) {
  const double moved = expert_visits(model, shard) * model.hidden * (input_bytes(rules) + rules.element_bytes);
  return moved + shard.tokens() / shard.tp * model.experts.count * 4;
}

double all_bytes(const spec::Model& model, const Shard& shard, LayerKind kind, const ActivationRules& rules) {
  const double routing = kind == LayerKind::experts ? routing_bytes(model, shard, rules) : 0;
  return outside_bytes(model, shard, rules) + projection_bytes(model, shard, rules) + score_bytes(model, shard, rules) +
         mlp_bytes(model, inner_elements(model, shard, kind), rules) + routing;
}

double layer_input_bytes(const spec::Model& model, const Shard& shard, const ActivationRules& rules) {
  return hidden_elements(model, shard) * rules.element_bytes / sequence_split(shard);
}

// Selective recompute by operators: the layer's input, the output of attention and of every second product (query,
// value, one of the inner ones, the last).
double chosen_bytes(const spec::Model& model, const Shard& shard, LayerKind kind, const ActivationRules& rules) {
  const AttentionWidths w = attention_widths(model);
  const double kept = (w.query + w.value + w.output) / shard.tp * shard.tokens() + inner_elements(model, shard, kind);
  const double last = hidden_elements(model, shard) / sequence_split(shard);
  return layer_input_bytes(model, shard, rules) + (kept + last) * rules.element_bytes +
         score_rows(model, shard) * kRowSum;
}

// Selective recompute where attention is fused: what is cheap to make again. Outputs of activation functions, experts'
// outputs before they are combined, and what latent attention expands (DeepSeek-V3's report, section 3.2.3).
double cheap_bytes(const spec::Model& model, const Shard& shard, LayerKind kind, const ActivationRules& rules) {
  double bytes = 0;
  if (model.attention.kv_rank > 0) {
    bytes += shard.tokens() * query_key_value_elements(model, shard) * rules.element_bytes;
  }
  if (kind == LayerKind::experts) {
    // Where inputs of products are kept in 8 bits, so are those of the activation function.
    const double inputs = gates(model) * (rules.element_bytes - input_bytes(rules));
    bytes += inner_elements(model, shard, kind) * (input_bytes(rules) + inputs);
    bytes += expert_visits(model, shard) * model.hidden * rules.element_bytes;
  }
  return bytes;
}

// Gradients of the widest part of a layer: between the MLP's products, or of unfused scores, beside those of its ends.
double gradient_bytes(const spec::Model& model, const Shard& shard, LayerKind kind, const ActivationRules& rules) {
  const double mlp = inner_elements(model, shard, kind) * (gates(model) + 1);
  const double scores = rules.fused_attention ? 0 : 2 * score_rows(model, shard) * shard.sequence;
  return (std::max(mlp, scores) + 2 * hidden_elements(model, shard)) * rules.element_bytes;
}

}  // namespace

ActivationRules activation_rules(const spec::Job& job) {
  const spec::MemoryHabits& habits = job.stack.memory;
  const spec::Precision p = job.training.precision;
  ActivationRules rules;
  rules.fused_attention = job.stack.fused_attention;
  rules.recompute = job.layout.recompute;
  rules.narrow_inputs = habits.fp8_activations && spec::is_narrow(p);
  rules.operators = habits.recomputes_operators;
  rules.element_bytes = spec::is_wide(p) ? 4 : 2;
  const bool split = job.layout.tp > 1 && habits.split_logit_bytes > 0;
  rules.logit_bytes = split ? habits.split_logit_bytes : habits.logit_bytes;
  return rules;
}

double layer_activation_bytes(const spec::Model& model, const Shard& shard, LayerKind kind,
                              const ActivationRules& rules) {
  if (rules.recompute == spec::Recompute::full) return layer_input_bytes(model, shard, rules);
  const double all = all_bytes(model, shard, kind, rules);
  if (rules.recompute == spec::Recompute::none) return all;
  if (rules.operators) return std::min(all, chosen_bytes(model, shard, kind, rules));
  return all - (rules.fused_attention ? cheap_bytes(model, shard, kind, rules) : score_bytes(model, shard, rules));
}

double layer_working_bytes(const spec::Model& model, const Shard& shard, LayerKind kind, const ActivationRules& rules) {
  const double gradients = gradient_bytes(model, shard, kind, rules);
  const double kept = layer_activation_bytes(model, shard, kind, rules);
  return gradients + std::max(0.0, all_bytes(model, shard, kind, rules) - kept);
}

double embedding_activation_bytes(const spec::Model& model, const Shard& shard) {
  return model.dropout > 0 ? hidden_elements(model, shard) * kMask / sequence_split(shard) : 0;
}

double head_activation_bytes(const spec::Model& model, const Shard& shard, const ActivationRules& rules) {
  const double inputs = 2 * layer_input_bytes(model, shard, rules);
  return (1 + model.mtp_layers) * (inputs + head_work(model, shard).logit_elements * rules.logit_bytes);
}

}  // namespace twinpod::model
