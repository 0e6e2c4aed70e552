// Seconds that the device itself needs for one layer of one micro-batch: products, attention, memory-bound kernels.
// Communication, waiting for the host and recomputation come on top (plan/layer_time.hpp).
#pragma once

#include "cluster/device_time.hpp"
#include "model/segment.hpp"
#include "spec/job.hpp"

namespace twinpod::plan {

struct ProductTime {
  double forward = 0;
  double input_gradient = 0;
  double weight_gradient = 0;
};

struct KernelTime {
  ProductTime projections;  // of attention; part of `products`
  ProductTime products;     // all of the layer
  double attention_forward = 0;
  double attention_backward = 0;
  double elements_forward = 0;
  double elements_backward = 0;
};

KernelTime layer_kernels(const spec::Job& job, const model::LayerWork& work);

// FLOPs that the device executes for attention: fused kernels skip what the causal mask hides.
double attention_flop(const spec::Job& job, const model::AttentionWork& work);

// Precision of what never goes below 16 bits: attention, head and loss.
spec::Precision wide_precision(const spec::Job& job);

}  // namespace twinpod::plan
