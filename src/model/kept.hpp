// What the trainer of this project keeps of a forward pass, tensor by tensor, and where each lies in its buffer.
//
//     const KeptLayer kept = kept_of_layer(model, shard, {.recompute = Recompute::full});
//     kept.stored_bytes                                   // from the forward to the end of the backward pass
//     kept.places[Kept::inner].offset                     // in the stored buffer, or in the working one
//
// Programs of jobs that `train` runs have buffers of these sizes, and the trainer puts its tensors there: predicted and
// allocated bytes are the same number. (activation.hpp says what other software keeps.)
//
// Letters: n tokens of a micro-batch, h hidden, t tensor parallel.
#pragma once

#include <array>
#include <cstdint>

#include "model/segment.hpp"
#include "spec/layout.hpp"
#include "spec/model.hpp"

namespace twinpod::model {

// Of a layer, in the order of the forward pass.
enum class Kept : std::uint8_t {
  input,          // n x h: residual stream before attention's norm (with sequence parallelism: n / t of it)
  input_mean,     // n, of the norm
  input_scale,    // n
  attention_in,   // n x h: norm of it
  qkv,            // n x (queries + keys + values) / t
  attention_out,  // n x queries / t
  log_sums,       // n x heads / t
  middle,         // n x h: residual stream before the MLP's norm
  middle_mean,    // n
  middle_scale,   // n
  mlp_in,         // n x h
  inner,          // n x ffn / t, twice with gates: before the activation function
  activated,      // n x ffn / t
  shares,         // n x sequence x heads / t: softmax of the scores, where attention is not fused
};
inline constexpr int kNumKept = 14;

struct KeptPlace {
  bool stored = true;  // else in the working buffer, made again in the backward pass
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

struct KeptRules {
  spec::Recompute recompute = spec::Recompute::none;
  bool again = true;      // with full: this layer is recomputed
  int element_bytes = 4;  // of activations
  bool fuses_attention = true;
};

struct KeptLayer {
  std::array<KeptPlace, kNumKept> places{};
  std::int64_t stored_bytes = 0;
  std::int64_t working_bytes = 0;
  const KeptPlace& operator[](Kept which) const { return places[static_cast<std::size_t>(which)]; }
};

KeptLayer kept_of_layer(const spec::Model& model, const Shard& shard, const KeptRules& rules);

// Of head and loss.
struct KeptHead {
  std::int64_t input = 0;  // offsets, in this order
  std::int64_t mean = 0;
  std::int64_t scale = 0;
  std::int64_t normed = 0;      // n x h
  std::int64_t statistics = 0;  // 3 n for each tensor-parallel rank: maximum, sum, logit of the label
  std::int64_t logits = 0;      // n x room for V / t
  // Where the loss is not fused: copies of the logits.
  std::int64_t probabilities = 0;
  std::int64_t gradients = 0;
  std::int64_t bytes = 0;
};
KeptHead kept_of_head(const spec::Model& model, const Shard& shard, int element_bytes, bool fuses_loss = true);

// There for the whole step, used by one layer after another.
struct Workspace {
  std::int64_t stream = 0;    // n x h: what enters a chunk
  std::int64_t delta = 0;     // n x h: what a segment adds to the stream
  std::int64_t gradient = 0;  // n x h: of the stream
  std::int64_t gathered = 0;  // n x h: the same of all tensor-parallel ranks (sequence parallelism)
  std::int64_t inward = 0;    // n x h: gradient of a norm's output
  std::int64_t outer = 0;     // gradients between the products of a segment: of the second one's input,
  std::int64_t inner = 0;     // and of the first one's output
  std::int64_t scores = 0;    // n x sequence x heads / t: gradients of scores, where attention is not fused
  std::int64_t bytes = 0;
};
Workspace workspace_of(const spec::Model& model, const Shard& shard, int element_bytes, bool fuses_attention = true);

// What a stage sends on and back.
std::int64_t transfer_elements(const spec::Model& model, const Shard& shard);

}  // namespace twinpod::model
