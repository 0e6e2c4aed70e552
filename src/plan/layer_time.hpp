// Time of one layer, of the head and of the embedding on one rank for one micro-batch.
#pragma once

#include "model/segment.hpp"
#include "plan/estimate.hpp"
#include "plan/layer_kernels.hpp"
#include "spec/job.hpp"

namespace twinpod::plan {

struct PassTime {
  Parts forward;
  Parts backward;       // recomputation included
  double weight_s = 0;  // of the backward pass: gradients of weights, which a zero-bubble schedule may move
  double executed_flop = 0;
};

// What many layouts share of a layer: its kernels and collectives, which depend on how it is sharded (tp, cp, ep, etp,
// sequence_parallel, micro_batch) and on nothing else of the layout.
struct LayerBase {
  model::LayerKind kind = model::LayerKind::dense;
  KernelTime kernels;
  double tensor_s = 0;    // of a forward pass, nothing hidden
  double context_s = 0;   // the same
  double exchange_s = 0;  // dispatch and combine of experts
  double forward_flop = 0;
  double attention_flop = 0;  // part of it
};

LayerBase layer_base(const spec::Job& job, const model::Shard& shard, model::LayerKind kind, bool windowed);

// With all that the layout adds: hiding, recomputation, parking, ZeRO-3, launches.
PassTime layer_time(const spec::Job& job, const model::Shard& shard, const LayerBase& base);
PassTime layer_time(const spec::Job& job, const model::Shard& shard, model::LayerKind kind, bool windowed);

// Head and loss, before and with ZeRO-3.
PassTime head_base(const spec::Job& job, const model::Shard& shard);
PassTime head_time(const spec::Job& job, const model::Shard& shard, const PassTime& base);
PassTime head_time(const spec::Job& job, const model::Shard& shard);
PassTime embedding_time(const spec::Job& job, const model::Shard& shard);

// Smooth maximum: two activities that overlap, the longer of which decides, with a soft corner where they are alike.
double smooth_max(double a, double b);

}  // namespace twinpod::plan
