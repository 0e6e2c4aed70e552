// A software stack: what a training framework of a given time does, and the numbers of the closed form.
//
// The booleans are facts about the software (its release notes say so). The numbers are in Physics; each has a physical
// meaning, a unit, a prior and plausible bounds. A value comes from, in this order: the stack, the device's family, the
// shared set, the prior. catalog/parameters.yaml holds the fitted ones; no other free number exists.
#pragma once

#include <string>
#include <vector>

#include "spec/layout.hpp"
#include "spec/parameters.hpp"
#include "spec/physics.hpp"
#include "spec/source.hpp"

namespace twinpod::spec {

// What a stack does with memory. Facts of the software too: its source and its memory reports say so.
struct MemoryHabits {
  bool fp32_parameters = false;  // ZeRO-3 shards are the fp32 master copy itself; gathered ones are 16-bit (FSDP, XLA)
  bool fp8_activations = true;   // inputs of FP8 products wait for the backward pass in 8 bits
  bool recomputes_operators =
      false;  // selective recompute keeps attention and every second product (torch); else: all but scores
  double logit_bytes = 14;       // of one logit at the peak of the loss: 16-bit, fp32, shifted and exponentiated copies
  double split_logit_bytes = 0;  // the same when the loss is tensor parallel; 0: no different
  double update_bytes = 0;       // temporaries of the optimizer's update for each parameter that the rank updates
  double flatten_bytes = 0;      // copies of ZeRO-1 and 2 for each such parameter that are freed, but stay in the cache
  double bucket_bytes = 0;       // buffers in which gradients are reduced, when not in place
  double runtime_bytes = 1.5e9;  // context, library workspaces, communication channels of a process
  double reserve = 0.03;         // holes that a caching allocator leaves, as a share of what a step allocates and frees
};

struct Stack {
  std::string name;    // its name in the catalog: what parameters are kept under
  std::string title;   // as people write it
  std::string family;  // stacks of one family share what was fitted: "megatron", "fsdp", "xla", ...
  int year = 0;
  // Ours: `train` runs its Programs. Their buffers and collectives are then those of the trainer, to the byte.
  bool executed = false;
  std::vector<std::string>
      traits;                   // what it does, by name: catalog/parameters.yaml holds what each trait costs or saves
  FieldValues fixed;            // fields that the software settles (a compiled program has no launch time)
  double launches = 20;         // kernels that the host launches for a layer's forward pass; 0: the step is one program
  bool fused_attention = true;  // FlashAttention or alike: scores never reach memory
  bool selective_by_default = false;
  double selective_products = 0;  // share of the products that selective recomputation does again
  bool dropout = false;           // trained GPT models with dropout in its time
  int default_zero = 0;           // when a published row does not say
  bool default_sequence_parallel = false;
  bool interleaves_by_default = false;
  double gradient_bytes = 4;          // of one gradient while it is accumulated
  double scatter_bytes = 4;           // of one gradient when it is reduced between ranks
  double gather_bytes = 2;            // of one parameter when ZeRO gathers it
  double gathers_per_layer = 1;       // ZeRO-3 gathers a layer in one piece, or tensor by tensor
  bool reshard_after_forward = true;  // ZeRO-3 drops gathered parameters after the forward pass and gathers them again
  bool remainder_last = false;        // layers that do not divide go to the last stages
  bool broadcasts_shards = false;     // ZeRO-1 owners send their updated shards one after another
  bool two_level_dispatch = false;    // tokens go to each node once and are spread there (DeepEP, HybridEP)
  bool expert_sync = true;            // the host reads each expert's token count before it goes on
  bool fp8_gather = false;            // FP8 parameters are gathered in one byte
  MemoryHabits memory;
  Abilities abilities;
  Physics physics;  // resolved for one device and this stack
  Source source;
};

}  // namespace twinpod::spec
