// Parameters and FLOPs of a transformer, exact, by segment. Arithmetic only: nothing here knows of a device.
//
//     parameters(gpt3).total        174.6e9
//     forward_flop(gpt3, 2048)      FLOP of one token's forward pass in a sequence of 2,048
//
// Letters, as in the papers: s sequence, h hidden, V vocabulary, L layers.
#pragma once

#include "spec/model.hpp"

namespace twinpod::model {

// Two kinds of layer exist in one model: dense, and mixture of experts.
bool is_expert_layer(const spec::Model& model, int layer);
int num_expert_layers(const spec::Model& model);                // among layers 0 .. L-1
int expert_layers_before(const spec::Model& model, int layer);  // among layers 0 .. layer-1

// Inner width of all shared experts of a layer together.
double shared_ffn(const spec::Experts& experts);

// A layer looks back over the whole sequence, or over a window.
bool is_windowed_layer(const spec::Model& model, int layer);
int num_windowed_layers(const spec::Model& model);

struct ParameterCount {
  double embedding = 0;       // token and position tables, embedding norm
  double attention = 0;       // of one layer: projections, biases, query/key norms
  double mlp = 0;             // of one dense layer
  double routed_experts = 0;  // of one mixture layer: all routed experts
  double shared_experts = 0;  // of one mixture layer: shared experts and router
  double router = 0;          // of that: the router, which every tensor-parallel rank holds whole
  double norms = 0;           // of one layer
  double final_norm = 0;
  double head = 0;  // 0 when tied to the embedding
  double mtp = 0;   // multi-token prediction modules
  double total = 0;
  double active = 0;  // parameters that one token visits
};

ParameterCount parameters(const spec::Model& model);

// Widths of the projections of one attention layer, in elements for each token.
struct AttentionWidths {
  double query = 0;  // heads * width of a query head
  double key = 0;
  double value = 0;
  double output = 0;  // heads * width of a value head: input of the output projection
};
AttentionWidths attention_widths(const spec::Model& model);

// Average number of keys that a query meets in a causal sequence of s tokens (s/2, less inside a window).
double mean_context(const spec::Model& model, int layer_windowed, double sequence);

// FLOPs of the forward pass for one token: 2 for each multiply-add of the products, attention over its causal context,
// head included, element-wise work not counted (as every published MFU does).
struct ForwardFlop {
  double products = 0;   // of all layers
  double attention = 0;  // scores and weighted values, causal
  double head = 0;
  double total = 0;
};
ForwardFlop forward_flop(const spec::Model& model, double sequence);

// Model FLOPs of one token in training: forward plus a backward of twice that.
double training_flop(const spec::Model& model, double sequence);

}  // namespace twinpod::model
