#include "model/activation.hpp"

#include <algorithm>

#include "model/arithmetic.hpp"

namespace twinpod::model {
namespace {

// Inputs of the two norms, of the query/key/value projection and of the MLP, and two dropout masks: every rank of the
// tensor-parallel group holds all of them, unless sequence parallelism splits them.
double outside_elements_bytes(const spec::Model& model, const Shard& shard, const ActivationRules& rules) {
  const double input = rules.narrow_inputs ? 1 : rules.element_bytes;
  const double inputs = model.parallel_block ? 1 : 2;   // a parallel block norms once and shares the input
  const double norms = model.parallel_block ? 1 : 2;
  const double masks = model.dropout > 0 ? 2 : 0;
  const double split = shard.sequence_parallel ? shard.tp : 1;
  return shard.tokens() * model.hidden * (norms * rules.element_bytes + inputs * input + masks) / split;
}

double attention_bytes(const spec::Model& model, const Shard& shard, const ActivationRules& rules) {
  const AttentionWidths w = attention_widths(model);
  const double input = rules.narrow_inputs ? 1 : rules.element_bytes;
  const double kv = std::max(1.0, static_cast<double>(model.attention.kv_heads) / shard.tp) /
                    (static_cast<double>(model.attention.kv_heads) / shard.tp);
  double bytes = shard.tokens() * (w.query + kv * (w.key + w.value)) / shard.tp * rules.element_bytes;
  bytes += shard.tokens() * w.output / shard.tp * (rules.fused_attention ? std::max(input, rules.element_bytes) : input);
  if (model.attention.kv_rank > 0) {
    const double compressed = model.attention.kv_rank + model.attention.rope_head_dim + model.attention.q_rank;
    bytes += 2 * shard.tokens() * compressed * rules.element_bytes;  // before and after their norms
  }
  return bytes;
}

// Softmax output, and with dropout its mask and the dropped copy: 5 bytes a score; fused attention keeps one fp32 for a row.
double score_bytes(const spec::Model& model, const Shard& shard, const ActivationRules& rules) {
  const double rows = static_cast<double>(model.attention.heads) / shard.tp * shard.tokens();
  if (rules.fused_attention) return rows * 4;
  if (rules.recompute == spec::Recompute::selective) return 0;
  return rows * shard.sequence * (model.dropout > 0 ? 2 * rules.element_bytes + 1 : rules.element_bytes);
}

double mlp_bytes(double tokens, double ffn, bool gated, const ActivationRules& rules) {
  const double input = rules.narrow_inputs ? 1 : rules.element_bytes;
  return tokens * ffn * (rules.element_bytes * (gated ? 2 : 1) + input);
}

double expert_bytes(const spec::Model& model, const Shard& shard, const ActivationRules& rules) {
  const spec::Experts& e = model.experts;
  double visits = shard.tokens() / shard.tp * e.per_token;
  if (e.capacity_factor > 0) visits *= e.capacity_factor;
  const double routed = mlp_bytes(visits, e.ffn, model.gated_mlp, rules);
  // Tokens after dispatch (input of the experts) and their outputs before they are combined.
  const double moved = 2 * visits * model.hidden * rules.element_bytes;
  const double router = shard.tokens() / shard.tp * e.count * 4;
  return routed + moved + router + mlp_bytes(shard.tokens(), shared_ffn(e) / shard.tp, model.gated_mlp, rules);
}

double all_bytes(const spec::Model& model, const Shard& shard, LayerKind kind, const ActivationRules& rules) {
  const double mlp = kind == LayerKind::experts
                         ? expert_bytes(model, shard, rules)
                         : mlp_bytes(shard.tokens(), static_cast<double>(model.ffn) / shard.tp, model.gated_mlp, rules);
  return outside_elements_bytes(model, shard, rules) + attention_bytes(model, shard, rules) +
         score_bytes(model, shard, rules) + mlp;
}

}  // namespace

ActivationRules activation_rules(const spec::Job& job) {
  ActivationRules rules;
  rules.fused_attention = job.stack.fused_attention;
  rules.recompute = job.layout.recompute;
  const spec::Precision p = job.training.precision;
  rules.narrow_inputs = p == spec::Precision::fp8 || p == spec::Precision::fp4;
  rules.element_bytes = p == spec::Precision::fp32 || p == spec::Precision::tf32 ? 4 : 2;
  return rules;
}

double layer_activation_bytes(const spec::Model& model, const Shard& shard, LayerKind kind, const ActivationRules& rules) {
  if (rules.recompute == spec::Recompute::full) {
    const double split = shard.sequence_parallel ? shard.tp : 1;
    return shard.tokens() * model.hidden * rules.element_bytes / split;
  }
  return all_bytes(model, shard, kind, rules);
}

double layer_working_bytes(const spec::Model& model, const Shard& shard, LayerKind kind, const ActivationRules& rules) {
  ActivationRules whole = rules;
  whole.recompute = spec::Recompute::none;
  if (rules.recompute == spec::Recompute::full) return all_bytes(model, shard, kind, whole);
  return rules.recompute == spec::Recompute::selective ? score_bytes(model, shard, whole) : 0;
}

double head_activation_bytes(const spec::Model& model, const Shard& shard) {
  return head_work(model, shard).logit_elements * (2 + 4 + 4);
}

}  // namespace twinpod::model
