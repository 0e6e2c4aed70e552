// Bytes that the forward pass of a layer leaves behind for its backward pass, on one rank, for one micro-batch.
//
//     const ActivationRules rules = activation_rules(job);
//     layer_activation_bytes(gpt3, {.tp = 8, .sequence = 2048}, LayerKind::dense, rules)
//
// Korthikanti et al. 2022 (arXiv 2205.05198), whose formulas come out exactly for a GPT layer with dropout and unfused
// attention: s b h (10 + 24/t + 5 a s/(h t)), with sequence parallelism (s b h/t)(34 + 5 a s/h). The terms are kept
// apart here, so that they also hold for gated MLPs, grouped heads, experts, fused attention and 8-bit inputs.
//
// Letters: s sequence, b micro-batch, h hidden, a heads, t tensor parallel.
#pragma once

#include "model/segment.hpp"
#include "spec/job.hpp"

namespace twinpod::model {

struct ActivationRules {
  bool fused_attention = true;  // scores are never stored
  bool narrow_inputs = false;   // inputs of products are kept in 8 bits
  bool operators = false;       // selective recompute chooses among operators (torch), not only the scores (Megatron)
  spec::Recompute recompute = spec::Recompute::none;
  double element_bytes = 2;
  double logit_bytes = 14;  // of one logit at the peak of head and loss
};

ActivationRules activation_rules(const spec::Job& job);

// Of one layer. With full recompute: its input only.
double layer_activation_bytes(const spec::Model& model, const Shard& shard, LayerKind kind,
                              const ActivationRules& rules);

// What one layer needs beside that in its backward pass: what it recomputes, and the gradients of its widest part.
double layer_working_bytes(const spec::Model& model, const Shard& shard, LayerKind kind, const ActivationRules& rules);

// Mask of the dropout behind the embedding; its output is the first layer's input.
double embedding_activation_bytes(const spec::Model& model, const Shard& shard);

// Head and loss: inputs of the last norm and of the logits' product, and the logits in all their copies.
double head_activation_bytes(const spec::Model& model, const Shard& shard, const ActivationRules& rules);

}  // namespace twinpod::model
