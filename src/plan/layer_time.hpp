// Time of one layer, of the head and of the embedding on one rank for one micro-batch.
#pragma once

#include "model/segment.hpp"
#include "plan/estimate.hpp"
#include "spec/job.hpp"

namespace twinpod::plan {

struct PassTime {
  Parts forward;
  Parts backward;       // recomputation included
  double weight_s = 0;  // of the backward pass: gradients of weights, which a zero-bubble schedule may move
  double executed_flop = 0;
};

PassTime layer_time(const spec::Job& job, const model::Shard& shard, model::LayerKind kind, bool windowed);
PassTime head_time(const spec::Job& job, const model::Shard& shard);
PassTime embedding_time(const spec::Job& job, const model::Shard& shard);

// Smooth maximum: two activities that overlap, the longer of which decides, with a soft corner where they are alike.
double smooth_max(double a, double b);

}  // namespace twinpod::plan
