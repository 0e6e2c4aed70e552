// How a model is trained, beside the shape of a step: learning rate, optimizer's numbers, data, when to look at it.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace twinpod::spec {

// How the learning rate falls behind the warm-up. wsd: it stays, and falls at the end (warm-up, stable, decay).
enum class RateDecay { constant, linear, cosine, wsd };

// What the trainer does in one pass over memory, where plain software takes several and keeps what lies between them.
enum class Fusion {
  bias_gelu,      // bias and activation function, GELU or SwiGLU
  residual_norm,  // bias, residual stream and norm
  cross_entropy,  // logits become their gradients in place
  attention,      // scores are never stored
  rotary,         // angles and turned pairs are never stored
  optimizer,      // clipping and the whole update of a parameter
  all,
};

struct Recipe {
  int steps = 0;  // 0: as training.tokens says, else 100
  double learning_rate = 1e-3;
  double final_share = 0.1;  // of the learning rate that is left in the end
  int warmup = 0;            // steps
  RateDecay decay = RateDecay::cosine;
  double decay_share = 0.2;  // wsd: of the steps, at the end
  double weight_decay = 0.1;
  double clip = 1;  // largest norm of all gradients; 0: any
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double momentum = 0.9;
  double dropout = 0;            // of what embedding, attention and MLP give to the residual stream
  double attention_dropout = 0;  // of the softmax of scores
  std::vector<Fusion> unfused;   // done in plain passes, to see what the fusion brings
  bool whole_gradients = false;  // of weights, from all bits of fp32; else from 17, where that is faster
  int seed = 1;
  int evaluate_every = 0;      // steps; 0: at the end only
  int evaluation_batches = 8;  // at most
};

inline bool fuses(const Recipe& recipe, Fusion fusion) {
  const std::vector<Fusion>& off = recipe.unfused;
  return std::none_of(off.begin(), off.end(), [&](Fusion one) { return one == fusion || one == Fusion::all; });
}

// Tokens (two files, as Megatron-LM keeps them), or text that is turned into bytes.
struct Data {
  std::string tokens;             // NAME of NAME.bin and NAME.idx
  std::vector<std::string> text;  // files and folders
  double evaluation_share = 0.05;
};

}  // namespace twinpod::spec
