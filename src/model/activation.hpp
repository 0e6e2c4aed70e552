// Bytes that the forward pass of a layer leaves behind for its backward pass, on one rank, for one micro-batch.
//
// Korthikanti et al. 2022 (arXiv 2205.05198), whose formulas come out exactly for a GPT layer with dropout and unfused
// attention: s b h (10 + 24/t + 5 a s/(h t)), with sequence parallelism (s b h/t)(34 + 5 a s/h). The terms are kept apart
// here, so that they also hold for gated MLPs, grouped heads, experts, fused attention and 8-bit inputs.
#pragma once

#include "model/segment.hpp"
#include "spec/job.hpp"

namespace twinpod::model {

struct ActivationRules {
  bool fused_attention = true;       // scores are never stored
  bool narrow_inputs = false;        // inputs of products are kept in 8 bits
  spec::Recompute recompute = spec::Recompute::none;
  double element_bytes = 2;
};

ActivationRules activation_rules(const spec::Job& job);

// Of one layer. With full recompute: its input only.
double layer_activation_bytes(const spec::Model& model, const Shard& shard, LayerKind kind, const ActivationRules& rules);

// What one layer needs beside that while it is computed (full recompute makes all of it again in the backward pass).
double layer_working_bytes(const spec::Model& model, const Shard& shard, LayerKind kind, const ActivationRules& rules);

// Head and loss: logits in 16 bits, and their fp32 copy with its gradient.
double head_activation_bytes(const spec::Model& model, const Shard& shard);

}  // namespace twinpod::model
