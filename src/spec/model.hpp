// What a transformer is, as a plain struct: dense or mixture of experts, any attention, any MLP.
//
//     const spec::Model gpt3 = *catalog.model("gpt3-175b");
//     gpt3.layers == 96; gpt3.hidden == 12288;
#pragma once

#include <cstdint>
#include <string>

#include "spec/source.hpp"

namespace twinpod::spec {

enum class Norm { layer_norm, rms_norm };
enum class Positions { rotary, learned, alibi, none };

// Multi-head, grouped-query and multi-query attention differ in kv_heads only. Latent attention (DeepSeek's MLA) has
// kv_rank > 0 and then head_dim is the width of a query/key head without its rotary part.
struct Attention {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  bool bias = false;      // on the four projections
  bool qkv_bias = false;  // on query, key and value only (Qwen)
  bool qk_norm = false;   // a norm of width head_dim on queries and keys
  bool sinks = false;     // a learned score of each head that takes part in the softmax (GPT-OSS)
  int window = 0;         // tokens that a sliding-window layer looks back; 0: all
  int global_every = 0;   // with a window: every n-th layer still looks at all; 0: none does
  int q_rank = 0;         // latent attention: rank of the query compression, 0: none
  int kv_rank = 0;        // latent attention: rank of the key/value compression, 0: not latent
  int rope_head_dim = 0;  // latent attention: the rotary part of a query/key head
  int v_head_dim = 0;     // latent attention: width of a value head; 0: head_dim
};

struct Experts {
  int count = 0;               // routed experts in a layer; 0: a dense model
  int per_token = 0;           // top-k
  int shared = 0;              // experts that every token visits
  int ffn = 0;                 // inner width of one routed expert
  int shared_ffn = 0;          // inner width of all shared experts together; 0: shared * ffn
  int first_dense_layers = 0;  // layers before the first mixture layer
  int every = 1;               // from there on the last of each n layers is a mixture layer
  double capacity_factor = 0;  // tokens an expert accepts / average; 0: dropless
  bool router_bias = false;    // one number for each expert beside the router's matrix (DeepSeek-V3, GPT-OSS)
  bool shared_gate = false;    // a vector of width hidden that weighs the shared experts (Qwen1.5-MoE, Qwen2-MoE)
};

struct Model {
  std::string name;   // as people write it
  std::string entry;  // its name in the catalog; empty: not from there
  int layers = 0;
  int hidden = 0;
  int ffn = 0;             // inner width of the dense MLP
  bool gated_mlp = false;  // three matrices (SwiGLU, GeGLU) instead of two
  bool mlp_bias = false;
  int vocab = 0;
  int max_sequence = 0;  // longest sequence the model is made for; the default sequence of a job
  Attention attention;
  Experts experts;
  Norm norm = Norm::layer_norm;
  bool norm_bias = true;    // layer_norm: bias beside the weight
  bool norm_weight = true;  // false: norms have no parameters at all (OLMo)
  Positions positions = Positions::rotary;
  bool tied_embeddings = false;     // the head uses the embedding's matrix
  bool head_bias = false;           // on the logits (GPT-J, Phi)
  bool parallel_block = false;      // attention and MLP side by side behind one norm (PaLM, GPT-J)
  bool embedding_norm = false;      // BLOOM
  int post_norms = 0;               // further norms in a layer (Gemma 2: 2; GPT-NeoX, a parallel block with two: 1)
  int mtp_layers = 0;               // multi-token prediction modules (DeepSeek-V3)
  double dropout = 0;               // > 0: masks are stored for the backward pass
  double published_parameters = 0;  // as its makers print it, for checks; 0: not known
  Source source;
};

}  // namespace twinpod::spec
