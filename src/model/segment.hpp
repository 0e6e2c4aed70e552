// The transformer as segments: what one rank computes for one micro-batch between two communications.
//
// Work is physical (shapes of products, bytes of memory-bound kernels, attention shapes) and says nothing of seconds; a
// device turns it into seconds (cluster/device_time.hpp).
//
//     const Shard shard{.tp = 8, .tokens = 2048, .sequence = 2048};
//     const LayerWork layer = layer_work(gpt3, shard, LayerKind::dense);
#pragma once

#include <array>

#include "spec/job.hpp"
#include "spec/model.hpp"

namespace twinpod::model {

// One product (m x k) * (k x n), done `groups` times with different matrices (experts of a rank).
struct Gemm {
  double m = 0;
  double n = 0;
  double k = 0;
  double groups = 1;
  double flop() const { return 2 * m * n * k * groups; }
};

struct GemmList {
  std::array<Gemm, 8> items{};
  int size = 0;
  void add(Gemm gemm) { items[static_cast<std::size_t>(size++)] = gemm; }
  const Gemm* begin() const { return items.data(); }
  const Gemm* end() const { return items.data() + size; }
  double flop() const;
};

// Attention of one rank: `heads` x `batch` score matrices of queries x keys.
struct AttentionWork {
  double heads = 0;  // query heads on this rank
  double batch = 0;
  double queries = 0;  // of one sequence on this rank
  double keys = 0;     // of the whole sequence
  double context = 0;  // keys that a query meets on average (causal, window)
  int qk_dim = 0;
  int v_dim = 0;
  double causal_flop() const { return 2 * heads * batch * queries * context * (qk_dim + v_dim); }
  double full_flop() const { return 2 * heads * batch * queries * keys * (qk_dim + v_dim); }
  double score_elements() const { return heads * batch * queries * keys; }
};

// Memory-bound kernels (norms, activations, residuals, rotary): bytes moved, and how many kernels there are.
struct ElementWork {
  double forward_bytes = 0;
  double backward_bytes = 0;
  int forward_kernels = 0;
  int backward_kernels = 0;
};

// What of the model one rank works on.
struct Shard {
  int tp = 1;
  int cp = 1;
  int ep = 1;
  int etp = 1;
  bool sequence_parallel = false;
  double micro_batch = 1;
  double sequence = 1;
  // Tokens of one micro-batch that the tensor-parallel group of this rank works on.
  double tokens() const { return micro_batch * sequence / cp; }
};

Shard shard_of(const spec::Job& job);

enum class LayerKind { dense, experts };

struct LayerWork {
  GemmList attention_gemms;  // projections
  AttentionWork attention;
  GemmList mlp_gemms;     // dense MLP, or shared experts and router
  GemmList expert_gemms;  // routed experts
  ElementWork elements;
  double gemm_input_elements = 0;  // elements of all product inputs: what FP8 has to cast
  double routed_tokens = 0;        // tokens that this rank sends to experts (before top-k), 0: dense
  double permute_bytes = 0;        // bytes that sorting tokens by expert moves, one way
};

LayerWork layer_work(const spec::Model& model, const Shard& shard, LayerKind kind, bool windowed);

struct HeadWork {
  Gemm logits;
  double logit_elements = 0;  // on this rank
};
HeadWork head_work(const spec::Model& model, const Shard& shard);

// Bytes of the embedding lookup, one way.
double embedding_bytes(const spec::Model& model, const Shard& shard);

}  // namespace twinpod::model
