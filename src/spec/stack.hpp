// A software stack: what a training framework of a given time does, and the numbers of the closed form.
//
// The booleans are facts about the software (its release notes say so). The numbers are in Physics; each has a physical
// meaning, a unit, a prior and plausible bounds. A value comes from, in this order: the stack, the device's family, the
// shared set, the prior. catalog/parameters.yaml holds the fitted ones; no other free number exists.
#pragma once

#include <string>
#include <vector>

#include "spec/parameters.hpp"
#include "spec/physics.hpp"
#include "spec/source.hpp"

namespace twinpod::spec {

struct Stack {
  std::string name;               // its name in the catalog: what parameters are kept under
  std::string title;              // as people write it
  std::string family;             // stacks of one family share what was fitted: "megatron", "fsdp", "xla", ...
  int year = 0;
  std::vector<std::string> traits;  // what it does, by name: catalog/parameters.yaml holds what each trait costs or saves
  FieldValues fixed;              // fields that the software settles (a compiled program has no launch time)
  bool fused_attention = true;    // FlashAttention or alike: scores never reach memory
  bool compiled = false;          // element-wise kernels are fused by a compiler
  bool selective_by_default = false;
  bool dropout = false;           // trained GPT models with dropout in its time
  int default_zero = 0;           // when a published row does not say
  bool default_sequence_parallel = false;
  bool interleaves_by_default = false;
  double gradient_bytes = 4;      // of one gradient while it is accumulated
  double scatter_bytes = 4;       // of one gradient when it is reduced between ranks
  double gather_bytes = 2;        // of one parameter when ZeRO gathers it
  bool reshard_after_forward = true;  // ZeRO-3 drops gathered parameters after the forward pass and gathers them again
  bool broadcasts_shards = false; // ZeRO-1 owners send their updated shards one after another
  bool fp8_gather = false;        // FP8 parameters are gathered in one byte
  Physics physics;                // resolved for one device and this stack
  Source source;
};

}  // namespace twinpod::spec
