#include "program/work.hpp"

#include <algorithm>

#include "model/arithmetic.hpp"

namespace twinpod::program {
namespace {

using model::Gemm;
using model::GemmList;

// As in plan/layer_time.cpp: shares that selective recomputation does again.
constexpr double kCheapElements = 0.3;
constexpr double kLatentExpansion = 0.4;

void add(Piece& piece, const GemmList& gemms, bool experts) {
  for (const Gemm& gemm : gemms) piece.products.push_back({gemm, experts, false});
}

double input_elements(const GemmList& gemms) {
  double total = 0;
  for (const Gemm& gemm : gemms) total += gemm.m * gemm.k * gemm.groups;
  return total;
}

// Memory-bound kernels of a layer, by the sub-block that they belong to. Norms and residuals are shared out equally.
struct Elements {
  model::ElementWork attention;
  model::ElementWork mlp;
};

Elements elements_of(const spec::Job& job, const model::Shard& shard, const model::LayerWork& work) {
  spec::Model narrow = job.model;  // without inner width, the rest remains
  narrow.ffn = 0;
  narrow.experts = {};
  const model::ElementWork bare = model::layer_work(narrow, shard, model::LayerKind::dense, false).elements;
  const model::AttentionWidths w = model::attention_widths(job.model);
  const double rotary = shard.tokens() * (w.query + w.key + w.value) / shard.tp;
  const model::ElementWork& all = work.elements;
  Elements e;
  e.attention.forward_bytes = (bare.forward_bytes - 2 * rotary) / 2 + 2 * rotary;
  e.attention.backward_bytes = (bare.backward_bytes - 3 * rotary) / 2 + 3 * rotary;
  e.attention.forward_kernels = bare.forward_kernels / 2;
  e.attention.backward_kernels = bare.backward_kernels / 2;
  e.mlp.forward_bytes = all.forward_bytes - e.attention.forward_bytes;
  e.mlp.backward_bytes = all.backward_bytes - e.attention.backward_bytes;
  e.mlp.forward_kernels = all.forward_kernels - e.attention.forward_kernels;
  e.mlp.backward_kernels = all.backward_kernels - e.attention.backward_kernels;
  return e;
}

void set_elements(Piece& piece, const model::ElementWork& elements) {
  piece.forward_bytes += elements.forward_bytes;
  piece.backward_bytes += elements.backward_bytes;
  piece.forward_kernels += elements.forward_kernels;
  piece.backward_kernels += elements.backward_kernels;
}

Piece joined(Piece one, const Piece& other) {
  one.products.insert(one.products.end(), other.products.begin(), other.products.end());
  if (other.attention_share > 0) {
    one.attention = other.attention;
    one.attention_share = other.attention_share;
    one.attention_fused = other.attention_fused;
  }
  one.forward_bytes += other.forward_bytes;
  one.backward_bytes += other.backward_bytes;
  one.forward_kernels += other.forward_kernels;
  one.backward_kernels += other.backward_kernels;
  one.permute_bytes += other.permute_bytes;
  one.cast_elements += other.cast_elements;
  return one;
}

// Up to queries, keys and values; the attention itself; the projection of its output.
SegmentPlan attention_plan(const spec::Job& job, const model::LayerWork& work, const Elements& elements) {
  const bool narrow = spec::is_narrow(job.training.precision);
  SegmentPlan plan;
  plan.segment = Segment::attention;
  plan.divided = job.layout.cp > 1;
  add(plan.before, work.attention_gemms, false);
  plan.after.products.push_back(plan.before.products.back());
  plan.before.products.pop_back();
  set_elements(plan.before, elements.attention);
  plan.attention.attention = work.attention;
  plan.attention.attention_share = 1;
  plan.attention.attention_fused = job.stack.fused_attention;
  const Gemm& output = plan.after.products.back().gemm;
  if (narrow) {
    plan.after.cast_elements = output.m * output.k * output.groups;
    plan.before.cast_elements = input_elements(work.attention_gemms) - plan.after.cast_elements;
  }
  plan.whole = joined(joined(plan.before, plan.attention), plan.after);
  return plan;
}

// Norm and MLP; in a layer of experts norm, router, shared experts, and the sorting of tokens.
Piece mlp_piece(const spec::Job& job, const model::LayerWork& work, const Elements& elements) {
  Piece piece;
  add(piece, work.mlp_gemms, false);
  set_elements(piece, elements.mlp);
  if (spec::is_narrow(job.training.precision)) piece.cast_elements = input_elements(work.mlp_gemms);
  piece.permute_bytes = work.permute_bytes;
  return piece;
}

Piece experts_piece(const spec::Job& job, const model::LayerWork& work) {
  Piece piece;
  add(piece, work.expert_gemms, true);
  if (spec::is_narrow(job.training.precision)) piece.cast_elements = input_elements(work.expert_gemms);
  return piece;
}

void add_feed_forward(const spec::Job& job, const model::LayerWork& work, const Elements& elements, LayerPlan& plan) {
  SegmentPlan mlp;
  mlp.segment = Segment::mlp;
  mlp.whole = mlp_piece(job, work, elements);
  if (work.expert_gemms.size == 0) {
    plan.segments.push_back(std::move(mlp));
    return;
  }
  SegmentPlan experts;
  experts.segment = Segment::experts;
  experts.whole = experts_piece(job, work);
  SegmentPlan combine;
  combine.segment = Segment::combine;
  combine.whole.permute_bytes = work.permute_bytes;
  if (job.layout.ep <= 1) {
    experts.whole = joined(joined(mlp.whole, experts.whole), combine.whole);
    plan.segments.push_back(std::move(experts));
    return;
  }
  experts.exchanges = combine.exchanges = true;
  plan.segments.push_back(std::move(mlp));
  plan.segments.push_back(std::move(experts));
  plan.segments.push_back(std::move(combine));
}

// One sub-block behind one norm: what follows attention joins it as far as no exchange parts them.
void join_block(LayerPlan& plan) {
  SegmentPlan& first = plan.segments[0];
  const SegmentPlan second = plan.segments[1];
  first.segment = Segment::block;
  first.whole = joined(first.whole, second.whole);
  first.before = joined(first.before, second.whole);
  plan.segments.erase(plan.segments.begin() + 1);
}

void mark_tensor_calls(const spec::Job& job, LayerPlan& plan) {
  if (plan.volumes.tensor_calls == 0) return;
  plan.segments.front().opens = true;
  if (job.model.parallel_block) {
    plan.segments.back().closes = true;
    return;
  }
  plan.segments.front().closes = true;
  if (plan.volumes.tensor_calls < 2) return;
  plan.segments[1].opens = true;
  plan.segments.back().closes = true;
}

void add_selective(const spec::Job& job, const model::LayerWork& work, LayerPlan& plan) {
  if (!job.stack.fused_attention) {
    plan.cheap.attention = work.attention;
    plan.cheap.attention_share = 1;
    plan.cheap.attention_fused = false;
  } else {
    plan.cheap.forward_bytes = kCheapElements * work.elements.forward_bytes;
    plan.cheap.permute_bytes = 2 * kCheapElements * work.permute_bytes;
    plan.cheap.forward_kernels = static_cast<int>(kCheapElements * work.elements.forward_kernels + 0.5);
    if (spec::is_narrow(job.training.precision)) plan.cheap.cast_elements = kCheapElements * work.gemm_input_elements;
    if (job.model.attention.kv_rank > 0) {
      for (const Gemm& gemm : work.attention_gemms) {
        plan.cheap.products.push_back({{gemm.m, gemm.n, gemm.k, gemm.groups * kLatentExpansion}, false, false});
      }
    }
  }
  plan.products_share = job.stack.selective_products;
  if (plan.products_share <= 0) return;
  add(plan.products, work.attention_gemms, false);
  add(plan.products, work.mlp_gemms, false);
  add(plan.products, work.expert_gemms, true);
}

Product turned(const Product& product, double m, double n, double k) {
  return {{m, n, k, product.gemm.groups}, product.experts, product.wide};
}

void add_input_gradients(const Piece& piece, Work& work) {
  for (const Product& p : piece.products) work.products.push_back(turned(p, p.gemm.m, p.gemm.k, p.gemm.n));
  work.attention = piece.attention;
  work.attention_share = piece.attention_share;
  work.attention_backward = true;
  work.element_bytes = piece.backward_bytes;
  work.kernels = piece.backward_kernels;
  work.permute_bytes = piece.permute_bytes;
  work.cast_elements = 2 * piece.cast_elements;
  work.logit_elements = piece.logit_elements;
  work.table_bytes = 2 * piece.table_bytes;
}

void add_weight_gradients(const Piece& piece, Work& work) {
  for (const Product& p : piece.products) work.products.push_back(turned(p, p.gemm.k, p.gemm.n, p.gemm.m));
  work.weight_products = static_cast<int>(piece.products.size());
}

}  // namespace

Work work_of(const Piece& piece, Phase phase) {
  Work work;
  work.attention_fused = piece.attention_fused;
  if (phase == Phase::backward || phase == Phase::backward_input) add_input_gradients(piece, work);
  if (phase == Phase::backward || phase == Phase::backward_weight) add_weight_gradients(piece, work);
  if (phase != Phase::forward && phase != Phase::recompute) return work;
  work.products = piece.products;
  work.attention = piece.attention;
  work.attention_share = piece.attention_share;
  work.element_bytes = piece.forward_bytes;
  work.kernels = piece.forward_kernels;
  work.permute_bytes = piece.permute_bytes;
  work.cast_elements = piece.cast_elements;
  work.logit_elements = piece.logit_elements;
  work.table_bytes = piece.table_bytes;
  return work;
}

LayerPlan layer_plan(const spec::Job& job, const Layer& layer) {
  const model::Shard shard = model::shard_of(job);
  const auto kind = layer.experts ? model::LayerKind::experts : model::LayerKind::dense;
  const model::LayerWork work = model::layer_work(job.model, shard, kind, layer.windowed);
  const Elements elements = elements_of(job, shard, work);
  LayerPlan plan;
  plan.volumes = layer_volumes(job, shard, work, kind);
  plan.segments.push_back(attention_plan(job, work, elements));
  add_feed_forward(job, work, elements, plan);
  if (job.model.parallel_block) join_block(plan);
  mark_tensor_calls(job, plan);
  if (job.layout.recompute == spec::Recompute::selective) add_selective(job, work, plan);
  return plan;
}

Piece embedding_piece(const spec::Job& job) {
  Piece piece;
  piece.table_bytes = model::embedding_bytes(job.model, model::shard_of(job));
  return piece;
}

// Each prediction module has logits of its own, and joins two hidden vectors to one before its layer.
Piece head_piece(const spec::Job& job) {
  const model::Shard shard = model::shard_of(job);
  const model::HeadWork work = model::head_work(job.model, shard);
  Piece piece;
  for (int i = 0; i < 1 + job.model.mtp_layers; ++i) piece.products.push_back({work.logits, false, true});
  const Gemm join{work.logits.m, work.logits.k / shard.tp, 2 * work.logits.k};
  for (int i = 0; i < job.model.mtp_layers; ++i) piece.products.push_back({join, false, true});
  piece.logit_elements = (1 + job.model.mtp_layers) * work.logit_elements;
  return piece;
}

}  // namespace twinpod::program
