// What Megatron-LM's flags and Megatron-Bridge's fields have in common: both configure Megatron Core.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spec/job.hpp"

namespace twinpod::emit {

// How the layers get to the stages.
enum class Split {
  even,         // they divide
  account,      // embedding and head count as a layer each, and then they divide
  by_the_list,  // pipeline_text() says it stage by stage
};
Split split_of(const spec::Job& job);

// --pipeline-model-parallel-layout: "Et*16|t*16|t*15|t*15mL" (E embedding, t layer, m prediction module, L loss).
std::string pipeline_text(const spec::Job& job);

// --moe-layer-freq: "([0]*3+[1]*58)", or "1" when every layer has experts.
std::string expert_layers_text(const spec::Model& model);

// Scaling of FP8 products: blocks of 32 on Blackwell, blocks of 128 for rowwise_scaling, else one scale for a tensor.
struct Fp8 {
  std::string_view format;
  std::string_view recipe;
};
Fp8 fp8_of(const spec::Job& job);

int optimizer_instances(const spec::Job& job);        // copies of ZeRO's shards: dp × cp / shard_group
bool uses_fsdp(const spec::Layout& layout);           // ZeRO 2 and 3
double auxiliary_loss(const spec::Experts& experts);  // its weight
std::string_view load_balancing(const spec::Experts& experts);

}  // namespace twinpod::emit
