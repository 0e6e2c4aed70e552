#include "model/segment.hpp"

#include <algorithm>

#include "model/arithmetic.hpp"

namespace twinpod::model {
namespace {

constexpr double kHalf = 2;  // bytes of a 16-bit element

// Key and value heads are copied, not split, when there are fewer of them than tensor-parallel ranks.
double heads_on_rank(double heads, int tp) { return std::max(1.0, heads / tp); }

void add_latent_projections(const spec::Model& model, const Shard& shard, GemmList& gemms) {
  const spec::Attention& a = model.attention;
  const AttentionWidths w = attention_widths(model);
  const double tokens = shard.tokens();
  const double h = model.hidden;
  // The compressions are small and done by every rank of the group in full.
  if (a.q_rank > 0) {
    gemms.add({tokens, static_cast<double>(a.q_rank), h});
    gemms.add({tokens, w.query / shard.tp, static_cast<double>(a.q_rank)});
  } else {
    gemms.add({tokens, w.query / shard.tp, h});
  }
  gemms.add({tokens, static_cast<double>(a.kv_rank + a.rope_head_dim), h});
  gemms.add({tokens, (a.heads * static_cast<double>(a.head_dim) + w.value) / shard.tp, static_cast<double>(a.kv_rank)});
}

GemmList projections(const spec::Model& model, const Shard& shard) {
  const spec::Attention& a = model.attention;
  const AttentionWidths w = attention_widths(model);
  GemmList gemms;
  if (a.kv_rank > 0) {
    add_latent_projections(model, shard, gemms);
  } else {
    const double key_value = 2 * heads_on_rank(a.kv_heads, shard.tp) * a.head_dim;
    gemms.add({shard.tokens(), w.query / shard.tp + key_value, static_cast<double>(model.hidden)});
  }
  gemms.add({shard.tokens(), static_cast<double>(model.hidden), w.output / shard.tp});
  return gemms;
}

void add_mlp(GemmList& gemms, double tokens, double hidden, double ffn, bool gated, double groups) {
  gemms.add({tokens, ffn * (gated ? 2 : 1), hidden, groups});
  gemms.add({tokens, hidden, ffn, groups});
}

AttentionWork attention_work(const spec::Model& model, const Shard& shard, bool windowed) {
  const spec::Attention& a = model.attention;
  AttentionWork work;
  work.heads = static_cast<double>(a.heads) / shard.tp;
  work.batch = shard.micro_batch;
  work.queries = shard.sequence / shard.cp;
  work.keys = shard.sequence;
  work.context = mean_context(model, windowed ? 1 : 0, shard.sequence);
  work.qk_dim = a.head_dim + (a.kv_rank > 0 ? a.rope_head_dim : 0);
  work.v_dim = a.kv_rank > 0 && a.v_head_dim > 0 ? a.v_head_dim : a.head_dim;
  return work;
}

// Bytes of the memory-bound kernels of a layer for each token. Forward: each of the two sub-blocks reads and writes the
// residual, its norm's input and output (16 h bytes in all), dropout adds masks and one more pass; the activation
// function and rotary embedding read and write the widths between the products. Backward: norms and residuals move 26
// h.
ElementWork element_work(const spec::Model& model, const Shard& shard, double ffn_elements) {
  const AttentionWidths w = attention_widths(model);
  const double tokens = shard.tokens();
  const double h = model.hidden / (shard.sequence_parallel ? static_cast<double>(shard.tp) : 1.0);
  const double dropout = model.dropout > 0 ? 3 : 0;
  const double blocks = model.parallel_block ? 0.6 : 1.0;
  const double qkv = (w.query + w.key + w.value) / shard.tp;
  const double gate = model.gated_mlp ? 2 : 1;
  ElementWork work;
  work.forward_bytes = tokens * (kHalf * h * (8 + dropout) * blocks + 2 * qkv) + ffn_elements * (3 * gate);
  work.backward_bytes = tokens * (kHalf * h * (13 + dropout) * blocks + 3 * qkv) + ffn_elements * (5 * gate);
  work.forward_kernels = model.dropout > 0 ? 10 : 8;
  work.backward_kernels = model.dropout > 0 ? 16 : 14;
  return work;
}

double input_elements(const GemmList& gemms) {
  double total = 0;
  for (const Gemm& gemm : gemms) total += gemm.m * gemm.k * gemm.groups;
  return total;
}

void add_experts(const spec::Model& model, const Shard& shard, LayerWork& work) {
  const spec::Experts& e = model.experts;
  // With expert tensor parallelism 1, each rank of the group routes its own part of the sequence.
  const double own_tokens = shard.tokens() / shard.tp;
  work.routed_tokens = own_tokens;
  double visits = own_tokens * e.per_token * shard.etp;
  if (e.capacity_factor > 0) visits *= e.capacity_factor;
  const double local_experts = std::max(1.0, static_cast<double>(e.count) / shard.ep);
  add_mlp(work.expert_gemms, visits / local_experts, model.hidden, static_cast<double>(e.ffn) / shard.etp,
          model.gated_mlp, local_experts);
  work.permute_bytes = visits / shard.etp * model.hidden * kHalf * 2;
  work.mlp_gemms.add({own_tokens, static_cast<double>(e.count), static_cast<double>(model.hidden)});
  const double shared = shared_ffn(e);
  if (shared > 0) add_mlp(work.mlp_gemms, shard.tokens(), model.hidden, shared / shard.tp, model.gated_mlp, 1);
}

}  // namespace

double GemmList::flop() const {
  double total = 0;
  for (const Gemm& gemm : *this) total += gemm.flop();
  return total;
}

Shard shard_of(const spec::Job& job) {
  Shard shard;
  shard.tp = job.layout.tp;
  shard.cp = job.layout.cp;
  shard.ep = job.layout.ep;
  shard.etp = spec::expert_tp(job.layout);
  shard.sequence_parallel = job.layout.sequence_parallel;
  shard.micro_batch = job.layout.micro_batch;
  shard.sequence = job.training.sequence;
  return shard;
}

LayerWork layer_work(const spec::Model& model, const Shard& shard, LayerKind kind, bool windowed) {
  LayerWork work;
  work.attention_gemms = projections(model, shard);
  work.attention = attention_work(model, shard, windowed);
  double ffn_elements = 0;
  if (kind == LayerKind::experts) {
    add_experts(model, shard, work);
    const spec::Experts& e = model.experts;
    ffn_elements = work.routed_tokens * e.per_token * e.ffn + shard.tokens() * shared_ffn(e) / shard.tp;
  } else {
    add_mlp(work.mlp_gemms, shard.tokens(), model.hidden, static_cast<double>(model.ffn) / shard.tp, model.gated_mlp,
            1);
    ffn_elements = shard.tokens() * model.ffn / shard.tp;
  }
  work.elements = element_work(model, shard, ffn_elements);
  if (kind == LayerKind::experts) {
    work.elements.forward_kernels += 12;  // router, top-k, sort, two permutations
    work.elements.backward_kernels += 10;
  }
  work.gemm_input_elements =
      input_elements(work.attention_gemms) + input_elements(work.mlp_gemms) + input_elements(work.expert_gemms);
  return work;
}

HeadWork head_work(const spec::Model& model, const Shard& shard) {
  HeadWork work;
  const double vocab = static_cast<double>(model.vocab) / shard.tp;
  work.logits = {shard.tokens(), vocab, static_cast<double>(model.hidden)};
  work.logit_elements = shard.tokens() * vocab;
  return work;
}

double embedding_bytes(const spec::Model& model, const Shard& shard) {
  const double h = model.hidden / (shard.sequence_parallel ? static_cast<double>(shard.tp) : 1.0);
  return shard.tokens() * h * kHalf * 3;
}

}  // namespace twinpod::model
